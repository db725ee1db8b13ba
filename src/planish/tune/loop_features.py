"""What a cost model sees of a stage's loops: sizes, tiles, blocks, footprints against the caches.

Features come from the choices that make the schedule, without building it: thousands of
candidates are described in a few milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.tune.stage_rules import StageRules

Floats = NDArray[np.float64]

KINDS = ("elementwise", "across", "streamed", "tiled")
CHOICES = ("rows", "vectors", "unroll", "pack", "depth", "height", "outer", "prefetch")
_LATENCY = 8

_OF_CHOICES = (
    "rows", "vectors", "results", "registers", "rows left", "columns left", "loads per operation",
    "cycles", "unroll", "unroll left", "pack", "packs a copy per panel", "log depth", "log height",
    "blocks of depth", "blocks of height", "outer", "prefetch", "log panel of L1", "log rows of L1",
    "log block of L2", "log operand of L2", "log trips of the kernel",
)  # fmt: skip
_OF_STAGE = (
    *(f"is {kind}" for kind in KINDS), "log rows length", "log columns length", "log depth length",
    "log inner length", "log batch", "element bytes", "share of the work", "log work", "collides",
    "is a product", "has weights", "has a window", "columns lie apart", "is heavy",
    "other stages",
)  # fmt: skip
FEATURES = (*_OF_STAGE, *_OF_CHOICES, *(f"{name}, over the rules'" for name in _OF_CHOICES))


def default_choices(rules: StageRules) -> dict[str, int]:
    """What the rules choose, with a neutral value for every choice that the kind has not."""
    neutral = dict.fromkeys(CHOICES, 0) | {"rows": 1, "vectors": 1, "unroll": 1}
    return neutral | rules.choices()


def stage_features(
    rules: StageRules, share: float, stages: int, given: Mapping[str, NDArray[Any]]
) -> Floats:
    """Rows of FEATURES, one for each candidate.

    share   of the program's operations that are this stage's; `stages` is how many there are
    given   each of CHOICES as an array of shape (n,)
    """
    own = _choice_columns(rules, given)
    default = {name: np.array([value]) for name, value in default_choices(rules).items()}
    base = _choice_columns(rules, default)
    count = len(given["rows"])
    fixed = np.broadcast_to(_stage_row(rules, share, stages), (count, len(_OF_STAGE)))
    return np.hstack([fixed, own, own - base])


def _stage_row(rules: StageRules, share: float, stages: int) -> Floats:
    stage, extents = rules.stage, rules.extents
    rows, columns, depth, inner, batch = _lengths(rules)
    tiled = rules.kind == "tiled"
    product = rules.product() if tiled else None
    apart = any(rules.stride(a, rules.vector) not in (0, 1) for a in stage.reads)
    work = prod(extents.values()) * max(1, len(stage.reads))
    return np.array(
        [
            *(float(rules.kind == kind) for kind in KINDS),
            *(np.log2([rows, columns, depth, inner, batch])),
            stage.body.type.size, share, np.log2(max(work, 1)),
            float(tiled and rules.collides()), float(product is not None),
            float(tiled and product is None and rules.weights() is not None),
            float(tiled and product is None and rules.strided_window() is not None),
            float(apart), float(rules.is_heavy()), stages - 1,
        ]
    )  # fmt: skip


def _lengths(rules: StageRules) -> tuple[int, int, int, int, int]:
    """Lengths of the rows' axis, the vectors', all reductions, the innermost one, and the rest."""
    stage, extents = rules.stage, rules.extents
    rows = extents[rules.rows_axis] if rules.rows_axis else 1
    columns = extents[rules.vector] if rules.vector else 1
    bound = [extents[a] for a in stage.bound if a != rules.vector]
    rest = [extents[a] for a in stage.axes if a not in (rules.vector, rules.rows_axis)]
    return rows, columns, prod(bound), bound[-1] if bound else 1, prod(rest)


def _choice_columns(rules: StageRules, given: Mapping[str, NDArray[Any]]) -> Floats:
    many, across, depth, inner, batch = _lengths(rules)
    lanes, size = rules.lanes, rules.stage.body.type.size
    target = rules.target
    rows = np.minimum(given["rows"], many)
    all_vectors = max(1, -(-across // lanes))
    vectors = np.minimum(given["vectors"], all_vectors)
    width = vectors * lanes
    results = rows * vectors
    row_passes, column_passes = -(-many // rows), -(-all_vectors // vectors)
    unroll = np.minimum(given["unroll"], inner)
    deep = np.where((given["depth"] > unroll) & (given["depth"] < inner), given["depth"], inner)
    high = np.where((given["height"] > rows) & (given["height"] < many), given["height"], many)
    panel, block = deep * width * size, high * deep * size
    cycles = row_passes * column_passes * np.maximum.reduce(
        [results, rows + vectors, np.full_like(results, _LATENCY)]
    ) / (many * all_vectors)  # fmt: skip
    columns = [
        rows, vectors, results, (results + vectors + 1) / target.registers,
        row_passes * rows / many - 1, column_passes * width / across - 1,
        (rows + vectors) / results, cycles, unroll, (inner % unroll) / unroll,
        given["pack"] == 1, given["pack"] == 2, _log(deep), _log(high), deep < inner, high < many,
        given["outer"], given["prefetch"], _log(panel / target.l1),
        _log(rows * deep * size / target.l1), _log(block / target.l2),
        _log(np.full(len(rows), max(depth * across * size, 1) / target.l2)),
        _log(row_passes * column_passes * max(batch, 1)),
    ]  # fmt: skip
    return np.stack([np.asarray(column, np.float64) for column in columns], 1)


def _log(values: NDArray[Any]) -> Floats:
    found: Floats = np.log2(np.maximum(values, 1e-9))
    return found
