"""Who else runs the cases: PyTorch, JAX and TVM, each where it is installed.

JAX gets the NumPy formulation, traced with jax.numpy and compiled; its time includes its call.
TVM gets products of matrices, in the schedule of its own tutorial (blocks of 32 by 32, the sum in
steps of 4, vectors), not tuned: what it reaches without a search, as ours.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable
from importlib import metadata
from typing import Any

import numpy as np

from planish.measure.machine import processor

NAMES = ("numpy", "torch", "jax", "tvm")
Run = Callable[[], object]


def versions(without: list[str]) -> dict[str, str]:
    """Of all peers that are installed and wanted."""
    found = {}
    for name, package in zip(NAMES, ("numpy", "torch", "jax", "apache-tvm"), strict=True):
        try:
            if name not in without:
                found[name] = metadata.version(package)
        except metadata.PackageNotFoundError:
            print(f"{name} is not installed: not measured")
    return found


class Peers:
    """Those of `present`, with so many threads each."""

    def __init__(self, present: dict[str, str], threads: int) -> None:
        self.threads = threads
        self.torch = _torch(threads) if "torch" in present else None
        self.jax = _jax(threads) if "jax" in present else None
        self.tvm = _tvm(threads) if "tvm" in present else None

    def runs(self, case: Any, wanted: Any) -> dict[str, Run]:
        """Each peer's way of the case."""
        found: dict[str, Run] = {"numpy": lambda: case.numpy(*case.arrays)}
        if self.torch is not None and case.torch is not None:
            torch, tensors = self.torch, [self.torch.from_numpy(a) for a in case.arrays]
            found["torch"] = lambda: case.torch(torch, *tensors)
        traced = _traced(self.jax, case, wanted) if self.jax is not None else None
        if traced is not None:
            found["jax"] = traced
        if self.tvm is not None and _is_product(case):
            found["tvm"] = _scheduled(self.tvm, case, wanted, self.threads)
        return found


def _torch(threads: int) -> Any:
    import torch

    torch.set_num_threads(threads)
    return torch


def _jax(threads: int) -> Any:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("JAX_ENABLE_X64", "1")
    import jax

    # It makes as many threads as it sees processors when its client begins, whatever flags say.
    all_processors = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(all_processors)[:threads])
    jax.devices()
    os.sched_setaffinity(0, all_processors)
    return jax


def _traced(jax: Any, case: Any, wanted: Any) -> Run | None:
    """The case in JAX; None where its NumPy formulation cannot be traced (views by strides)."""
    found = case.numpy
    names = {**found.__globals__, "np": jax.numpy}
    moved = types.FunctionType(
        found.__code__, names, found.__name__, found.__defaults__, found.__closure__
    )
    compiled = jax.jit(moved)
    arrays = [jax.numpy.asarray(a) for a in case.arrays]
    try:
        result = np.asarray(compiled(*arrays))
    except (AttributeError, TypeError, jax.errors.JAXTypeError):
        return None
    if not np.allclose(result, wanted, rtol=2e-3, atol=2e-3):
        sys.exit(f"{case.group} {case.name}: JAX differs")
    return lambda: compiled(*arrays).block_until_ready()


def _tvm(threads: int) -> Any:
    os.environ.setdefault("TVM_NUM_THREADS", str(threads))
    import tvm

    return tvm


def _is_product(case: Any) -> bool:
    """Whether the case is `a @ b` of two matrices of floats."""
    a, *others = case.arrays
    plain = len(others) == 1 and a.ndim == others[0].ndim == 2 and a.dtype.kind == "f"
    return plain and case.group in ("square", "thin", "odd", "f64")


def _scheduled(tvm: Any, case: Any, wanted: Any, threads: int) -> Run:
    """The product by TVM, blocked and vectorised."""
    te = tvm.te
    a, b = case.arrays
    (m, k), n, kind = a.shape, b.shape[1], str(a.dtype)
    left, right = te.placeholder((m, k), kind, name="A"), te.placeholder((k, n), kind, name="B")
    axis = te.reduce_axis((0, k), "k")
    product = te.compute(
        (m, n), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="C"
    )
    schedule = tvm.s_tir.Schedule(te.create_prim_func([left, right, product]))
    block = schedule.get_sblock("C")
    i, j, along = schedule.get_loops(block)
    rows, row = schedule.split(i, [None, min(32, m)])
    columns, column = schedule.split(j, [None, min(32, n)])
    outer, inner = schedule.split(along, [None, 4])
    schedule.reorder(rows, columns, outer, inner, row, column)
    schedule.vectorize(column)
    if threads > 1:
        schedule.parallel(rows)
    schedule.decompose_reduction(block, outer)
    level = 4 if processor().vector == 64 else 3
    target = tvm.target.Target({"kind": "llvm", "mcpu": f"x86-64-v{level}"})
    function = tvm.compile(schedule.mod, target=target)["main"]
    given = [tvm.runtime.tensor(x) for x in (a, b, np.zeros((m, n), kind))]
    function(*given)
    if not np.allclose(given[2].numpy(), wanted, rtol=2e-3, atol=2e-3):
        sys.exit(f"{case.group} {case.name}: TVM differs")
    return lambda: function(*given)
