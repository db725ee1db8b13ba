"""The quick reference, which kernels are checked against while they are timed."""

from __future__ import annotations

import numpy as np
import pytest
from tensor.programs import make_case

import planish as pl
from planish.tensor.program import lower
from planish.tensor.quick import evaluate_quick
from planish.tensor.reference import evaluate


@pytest.mark.parametrize("seed", range(60))
def test_the_quick_reference_agrees_with_the_slow_one(seed: int) -> None:
    case = make_case(seed)
    wanted = evaluate(case.program, case.arrays)
    found = evaluate_quick(case.program, case.arrays)
    for name, values in wanted.items():
        assert values.dtype == found[name].dtype
        assert np.allclose(found[name], values, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_the_quick_reference_takes_large_stages_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    from planish.tensor import quick

    monkeypatch.setattr(quick, "_POINTS", 100)
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (13, 7)), pl.tensor("B", (7, 9))
    program = lower([pl.define("C", [m, n], pl.min(k, a[m, k] + b[k, n]) * 2.0)])
    numbers = np.random.default_rng(0)
    arrays = {t.name: numbers.random(t.shape, np.float32) for t in program.inputs}
    found, wanted = evaluate_quick(program, arrays), evaluate(program, arrays)
    assert np.array_equal(found["C"], wanted["C"])
