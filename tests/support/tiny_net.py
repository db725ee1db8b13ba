"""A policy network of random weights, small enough to compute by hand."""

from __future__ import annotations

import numpy as np

from planish.llvm.features import FEATURES, OPCODES, Description
from planish.model.policy_net import PolicyNet

ACTIONS = ("default<O1>", "default<Oz>", "@frame-pointer=non-leaf", "-disable-lsr",
           "-regalloc=basic", "-regalloc=pbqp")  # fmt: skip
RECIPES = (
    "passes: default<Oz>,@frame-pointer=non-leaf",
    "passes: default<O1>\noptions: -disable-lsr -regalloc=basic",
)


def looks(seed: int) -> Description:
    rng = np.random.default_rng(seed)
    pairs = {(int(a), int(b)): int(n) for a, b, n in rng.integers(1, 9, (6, 3))}
    return Description(tuple(rng.normal(size=len(FEATURES)).tolist()), pairs)


def tiny_net(seed: int = 0, actions: tuple[str, ...] = ACTIONS) -> PolicyNet:
    rng = np.random.default_rng(seed)
    d, e, k, w, h, v, m = len(FEATURES), 3, 2, 4, 5, len(actions) + 1, len(RECIPES)
    o = len(OPCODES) + 1
    shapes: dict[str, tuple[int, ...]] = {
        "feature_mean": (d,), "feature_scale": (d,), "opcode_first": (o, e), "opcode_then": (o, e),
        "prior": (k, d + e), "prior_spread": (k,), "bag": (v, w), "bag_in": (w, w),
        "bag_out": (w, w), "mean": (w,), "mean_bias": (1,), "loading": (k, w), "noise": (w,),
        "noise_bias": (1,), "known_mean": (m,), "known_loading": (m, k), "known_noise": (m,),
        "start": (h, d + e), "start_bias": (h,), "token": (v, h), "gates_in": (3 * h, h),
        "gates_in_bias": (3 * h,), "gates_state": (3 * h, h), "gates_state_bias": (3 * h,),
        "next": (v, h), "next_bias": (v,),
    }  # fmt: skip
    arrays = {n: (0.3 * rng.normal(size=s)).astype(np.float32) for n, s in shapes.items()}
    arrays["feature_scale"] = np.abs(arrays["feature_scale"]) + 1
    return PolicyNet(arrays, actions, RECIPES, {"clip": 0.2})
