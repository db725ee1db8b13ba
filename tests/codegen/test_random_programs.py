"""Random programs under random schedules: machine code against the reference."""

from __future__ import annotations

import multiprocessing
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from programs import Case, make_case, same

from planish.base.errors import UsageError
from planish.codegen.guard import guarded
from planish.measure.machine import processor
from planish.tensor.reference import evaluate
from planish.tune.tensors import Kernel

_TARGETS = [("avx2", 32), ("avx512", 64)]


def _check(case: Case, **options: object) -> Kernel | None:
    """Run and compare; None where the schedule is refused."""
    wanted = evaluate(case.program, case.arrays)
    kernel = Kernel(case.program, store=False, **options)
    try:
        found = kernel(*case.arrays.values())
    except UsageError:
        return None
    results = found if isinstance(found, tuple) else (found,)
    for tensor, values in zip(case.program.outputs, results, strict=True):
        assert same(tensor.type, values, wanted[tensor.name]), (
            f"{case.program}\n{case.schedule}\n{kernel.loops}\nby {kernel.ledger.path}"
        )
    return kernel


@pytest.mark.parametrize(("target", "vector"), _TARGETS)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_machine_code_under_any_schedule(target: str, vector: int, seed: int) -> None:
    if processor().vector < vector:
        pytest.skip(f"this machine has no {target}")
    try:
        case = make_case(seed)
    except UsageError:
        return
    _check(case, schedule=case.schedule, target=target)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_machine_code_under_the_default_schedule(seed: int) -> None:
    if not processor().vector:
        pytest.skip("not an x86 machine with AVX2")
    try:
        case = make_case(seed)
    except UsageError:
        return
    assert _check(case) is not None, "the default schedule is never refused"
    with patch("planish.tune.default_schedule._WORTH_SHARING", 0):
        assert _check(case, threads=3) is not None, "nor is the one for several threads"


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 1 << 40))
def test_llvm_gives_the_same(seed: int) -> None:
    if not processor().vector:
        pytest.skip("not an x86 machine with AVX2")
    try:
        case = make_case(seed)
    except UsageError:
        return
    kernel = _check(case, schedule=case.schedule, path="llvm")
    assert kernel is None or kernel.ledger.path == "llvm"


def _run_guarded(seed: int, at_end: bool) -> None:
    """Every operand ends at (or begins behind) a page that must not be touched."""
    case = make_case(seed)
    kernel = Kernel(case.program, store=False)
    arrays = [guarded(a, at_end=at_end) for a in case.arrays.values()]
    outs = [guarded(np.zeros(t.shape, t.type.numpy), at_end=at_end) for t in case.program.outputs]
    kernel._run([*arrays, *outs])
    wanted = evaluate(case.program, case.arrays)
    for tensor, values in zip(case.program.outputs, outs, strict=True):
        assert same(tensor.type, values, wanted[tensor.name])


@pytest.mark.parametrize("at_end", [True, False])
def test_nothing_beyond_an_operand_is_touched(at_end: bool) -> None:
    if not processor().vector:
        pytest.skip("not an x86 machine with AVX2")
    context = multiprocessing.get_context("fork")
    seeds = []
    for seed in range(60):
        try:
            make_case(seed)
        except UsageError:
            continue
        seeds.append(seed)

    def run() -> None:
        for seed in seeds:
            _run_guarded(seed, at_end)

    process = context.Process(target=run)
    process.start()
    process.join(240)
    assert process.exitcode == 0
