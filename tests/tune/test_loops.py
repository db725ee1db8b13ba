"""Kernel tuning: legal spaces, checked results, never worse, stored and repeatable."""

from __future__ import annotations

import contextlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.base.records import Failure
from planish.cli.main import main
from planish.codegen.native import Native
from planish.measure.machine import processor
from planish.proc.pool import Call, Pool
from planish.search.moves import mutate
from planish.store.store import Store
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate, interpret
from planish.tune import loops
from planish.tune.kernel_worker import HANDLER, Run, Runner
from planish.tune.loop_space import LoopSpace
from planish.tune.stage_shape import Target

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")

_TARGET = Target(64, 31, 48 << 10, 2 << 20)


def _matmul(m_: int = 20, n_: int = 70, k_: int = 24) -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_)), pl.tensor("B", (k_, n_))
    return pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))


def _conv() -> Tensor:
    h, w, r, s, c, o = pl.axes("h w r s c o")
    x, f = pl.tensor("x", (6, 7, 3)), pl.tensor("f", (3, 3, 3, 20))
    return pl.define("y", [h, w, o], pl.sum([r, s, c], x[h + r, w + s, c] * f[r, s, c, o]))


@pytest.mark.parametrize("make", [lambda: _matmul(5, 20, 6), _conv])
def test_every_legal_plan_computes_the_program(make) -> None:
    import random

    program = lower([make()])
    space = LoopSpace(program, _TARGET)
    numbers = np.random.default_rng(0)
    arrays = {t.name: numbers.integers(-3, 4, t.shape).astype("f4") for t in program.inputs}
    wanted = evaluate(program, arrays)
    draw, plan = random.Random(0), space.start
    for _ in range(12):
        plan = mutate(space, plan, draw)
        assert space.legal(plan.actions)
        schedule = space.schedule(plan.actions)
        assert schedule is not None
        found = interpret(schedule.apply(program), arrays)
        for name, values in wanted.items():
            assert np.array_equal(found[name], values), schedule


def test_a_plan_makes_each_choice_once_in_one_order() -> None:
    space = LoopSpace(lower([_matmul()]), _TARGET)
    assert space.legal(("C pack=1", "C rows=4"))
    assert not space.legal(("C rows=4", "C pack=1"))
    assert not space.legal(("C rows=4", "C rows=8"))
    assert not space.legal(("C rows=16", "C vectors=8")), "128 results do not fit 31 registers"


@pytest.mark.parametrize("policy", ["genetic", "greedy", "random"])
def test_tuning_is_never_worse_and_its_schedule_works(policy: str) -> None:
    found = pl.tune_kernel(_matmul(), budget="12", policy=policy, store=False)
    assert found.ratio[1] <= 1.0 and found.best <= found.baseline
    curve = found.ledger.curve
    assert all(a >= b for a, b in pairwise(curve))
    kernel = pl.compile(_matmul(), schedule=str(found.schedule))
    numbers = np.random.default_rng(0)
    a = numbers.integers(-3, 4, (20, 24)).astype("f4")
    b = numbers.integers(-3, 4, (24, 70)).astype("f4")
    assert np.array_equal(kernel(a, b), a @ b)


def test_a_repeated_search_measures_nothing_anew() -> None:
    first = pl.tune_kernel(_matmul(), budget="10", seed=3)
    again = pl.tune_kernel(_matmul(), budget="10", seed=3)
    assert first.ledger.measured > 0 and again.ledger.measured == 0
    assert again.ledger.cached >= first.ledger.measured


@pytest.mark.parametrize("fails", [False, True])
def test_the_store_is_closed_however_a_search_ends(
    fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, closed = [], []
    start, end = Store.open_default.__func__, Store.close
    monkeypatch.setattr(
        Store, "open_default", classmethod(lambda cls: opened.append(start(cls)) or opened[-1])
    )
    monkeypatch.setattr(Store, "close", lambda self: closed.append(self) or end(self))
    if fails:
        monkeypatch.setattr(loops, "GeneticPolicy", 0)  # calling it raises once all is open
    with pytest.raises(TypeError) if fails else contextlib.nullcontext():
        pl.tune_kernel(_matmul(), budget="2")
    assert len(opened) == 1 and opened == closed


def test_a_kernel_that_computes_something_else_is_refused() -> None:
    """The worker compares with the rules' result: a false kernel must not pass for a fast one."""
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (20, 24)), pl.tensor("B", (24, 70))
    other = lower([pl.define("C", [m, n], pl.max(k, a[m, k] * b[k, n]))])

    class Cheat(Runner):
        def _native(self, program: Program, text: str, vector: int) -> Native:
            return super()._native(other if text == "unroll C k" else program, text, vector)

    import pickle

    worker = Cheat(None)
    blobs = {"p": pickle.dumps(lower([_matmul()]))}
    assert worker(Run("p", "", ("unroll C m",), processor().vector, 0.0), blobs).times
    with pytest.raises(ValueError, match="differs from the expert"):
        worker(Run("p", "", ("unroll C k",), processor().vector, 0.0), {})


def test_a_schedule_that_may_not_be_taken_is_an_outcome() -> None:
    import pickle

    honest = lower([_matmul()])
    with Pool(HANDLER, None, jobs=1) as pool:
        pool.keep("p", pickle.dumps(honest))
        good = Run("p", "", ("tile C m=4 n=16 vector n",), processor().vector, 0.0)
        [reply] = pool.run([Call((), good, ("p",))])
        assert reply.failure is None and len(reply.value.times) == 1
        [refused] = pool.run([Call((), Run("p", "", ("split C q 4",), 64, 0.0), ("p",))])
        assert refused.failure is Failure.INVALID


def test_mistakes_are_told() -> None:
    with pytest.raises(UsageError, match="unknown policy"):
        pl.tune_kernel(_matmul(), policy="magic")
    with pytest.raises(UsageError, match="budget"):
        pl.tune_kernel(_matmul(), budget="soon")


def test_the_command_writes_schedule_and_lockfile(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    steps, lock = tmp_path / "steps.txt", tmp_path / "planish.lock"
    main(
        ["tune-kernel", "mk,kn->mn", "--shape", "m=16,k=24,n=40", "--budget", "8",
         "-o", str(steps), "--lock", str(lock)]
    )  # fmt: skip
    assert "schedules" in capsys.readouterr().out
    assert 'goal = "time"' in lock.read_text()
    main(["compile", "mk,kn->mn", "--shape", "m=16,k=24,n=40", "--schedule", str(steps)])
    assert "GFLOP/s" in capsys.readouterr().out
