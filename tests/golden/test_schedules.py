"""Every schedule step on a small program: the nest before and after, as text."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import planish as pl
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule


def _matmul() -> Program:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (20, 30)), pl.tensor("B", (30, 40))
    return lower([pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))])


def _rows() -> Program:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (8, 16))
    s = pl.define("S", [m], pl.max(n, x[m, n]))
    return lower([pl.define("Y", [m, n], x[m, n] - s[m])])


def _scaled() -> Program:
    m, n, k = pl.axes("m n k")
    a, b, c = pl.tensor("A", (20, 30)), pl.tensor("B", (30, 40)), pl.tensor("c", (40,))
    twice = pl.define("S", [m, k], a[m, k] * 2.0)
    product = pl.define("C", [m, n], pl.sum(k, twice[m, k] * b[k, n]))
    return lower([pl.define("Y", [m, n], pl.relu(product[m, n] + c[n]))])


_STEPS: dict[str, tuple[Callable[[], Program], str]] = {
    "split": (_matmul, "split C m 8"),
    "reorder": (_matmul, "reorder C k m n"),
    "unroll": (_matmul, "unroll C k"),
    "vectorise": (_matmul, "reorder C m k n\nvectorise C n"),
    "parallel": (_matmul, "split C m 8\nparallel C m/8"),
    "tile": (_matmul, "tile C m=4 n=16 vector n"),
    "pack": (_matmul, "tile C m=4 n=16 vector n\nreorder C n/16 m/4\npack C B as n/16 k n"),
    "pack-at": (_matmul, "split C k 8\nreorder C k/8 m n k\npack C B at k/8 as k n"),
    "prefetch": (_matmul, "tile C m=4 n=16 vector n\nprefetch C C"),
    "fuse": (_rows, "fuse S Y m"),
    "inline": (_scaled, "inline S"),
    "epilogue": (_scaled, "epilogue C Y\ntile C m=4 n=16 vector n"),
    "split_reduction": (_matmul, "split_reduction C k 3"),
}


@pytest.mark.parametrize("name", sorted(_STEPS))
def test_steps_make_the_nests_they_are_known_for(
    name: str, golden: Callable[[str, str], None]
) -> None:
    make, text = _STEPS[name]
    program = make()
    parts = [f"# {step or 'plain'}\n{nest}" for step, nest in Schedule.parse(text).explain(program)]
    last = Schedule.parse(text).apply(program).program
    golden(f"schedule-{name}.txt", "\n\n".join([*parts, f"# program\n{last}"]) + "\n")
