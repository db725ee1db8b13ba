"""Kernel tuning: legal spaces, checked results, never worse, stored and repeatable."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.base.records import Measurement, Outcome
from planish.cli.main import main
from planish.measure.machine import processor
from planish.search.moves import mutate
from planish.store.store import Store
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate, interpret
from planish.tune import loops
from planish.tune.kernel_evaluator import kernel_key
from planish.tune.kernel_policies import POLICIES
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


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "cost-model"])
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


def _mlp(batch: int = 24, width: int = 40, inner: int = 40) -> Tensor:
    b, i, j, o = pl.axes("b i j o")
    x, w1 = pl.tensor("x", (batch, width)), pl.tensor("w1", (width, inner))
    w2 = pl.tensor("w2", (inner, width))
    hidden = pl.define("hidden", [b, j], pl.relu(pl.sum(i, x[b, i] * w1[i, j])))
    return pl.define("y", [b, o], pl.sum(j, hidden[b, j] * w2[j, o]))


def _attention(heads: int = 3, length: int = 10, width: int = 8) -> Tensor:
    h, q, k, d = pl.axes("h q k d")
    a, b, v = (pl.tensor(name, (heads, length, width)) for name in "QKV")
    s = pl.define("S", [h, q, k], pl.sum(d, a[h, q, d] * b[h, k, d]))
    e = pl.define("E", [h, q, k], pl.exp(s[h, q, k] - pl.max(k, s[h, q, k])))
    total = pl.define("total", [h, q], pl.sum(k, e[h, q, k]))
    return pl.define("O", [h, q, d], pl.sum(k, e[h, q, k] * v[h, k, d]) / total[h, q])


@pytest.mark.parametrize("make", [_mlp, _attention])
def test_fusion_is_searched_as_well(make) -> None:
    program = lower([make()])
    space = LoopSpace(program, _TARGET)
    fusions = [action for action in space.all_actions if " fuse=" in action]
    usual = space.schedule(())
    assert usual is not None and fusions
    numbers = np.random.default_rng(0)
    arrays = {t.name: numbers.random(t.shape).astype("f4") for t in program.inputs}
    wanted = evaluate(program, arrays)
    texts = set()
    for action in fusions:
        schedule = space.schedule((action,))
        assert schedule is not None
        texts.add(tuple(str(s) for s in schedule.steps if s.name == "fuse"))
        found = interpret(schedule.apply(program), arrays)
        assert all(np.allclose(found[n], values, rtol=1e-4) for n, values in wanted.items())
    assert tuple(str(s) for s in usual.steps if s.name == "fuse") not in texts


def test_a_program_of_several_statements_is_tuned() -> None:
    for policy in ("genetic", "cost-model"):
        found = pl.tune_kernel(_mlp(), budget="8", policy=policy, store=False)
        assert found.ledger.measured >= 4 and found.best <= found.baseline
    kernel = pl.compile(_mlp(), schedule=str(found.schedule))
    numbers = np.random.default_rng(0)
    x, w1, w2 = (numbers.random(s).astype("f4") for s in ((24, 40), (40, 40), (40, 40)))
    assert np.allclose(kernel(x, w1, w2), np.maximum(x @ w1, 0) @ w2, rtol=1e-4)


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
        monkeypatch.setattr(loops, "make_policy", 0)  # calling it raises once all is open
    with pytest.raises(TypeError) if fails else contextlib.nullcontext():
        pl.tune_kernel(_matmul(), budget="2")
    assert opened and {*map(id, opened)} == {*map(id, closed)}


def test_offline_uses_only_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="no measurement of this kernel on this machine"):
        pl.tune_kernel(_matmul(), offline=True)
    pl.tune_kernel(_matmul(), budget="12", policy="random")
    monkeypatch.setattr(loops, "kernel_pool", None)  # starting a worker raises
    found = pl.tune_kernel(_matmul(), offline=True)
    with Store.open_default() as store:
        known = store.outcomes(kernel_key(lower([_matmul()]), processor().vector, False))
    assert found.ledger.measured == 0 and found.ledger.cached == len(known) > 1
    assert found.best == known[str(found.schedule)].value <= found.baseline
    assert found.ratio[2] <= 1.0


def _stored(program: Program, ratios: dict[str, float], machine: str) -> None:
    """Put records of a machine into the store: seconds by schedule text."""
    with Store.open_default() as store:
        key = kernel_key(program, processor().vector, False, machine)
        for text, value in ratios.items():
            measured = Measurement(value, "s", {}, (value,) * 9, machine)
            store.put(key, Outcome(text, measured, identity=text))


def test_records_of_another_machine_are_used_only_when_asked_for() -> None:
    program = lower([_matmul()])
    space = LoopSpace(program, Target.of(processor(), processor().vector))
    rules = str(space.schedule(()))
    better = str(space.schedule((space.all_actions[0],)))
    _stored(program, {rules: 2e-3, better: 1e-3}, "another")
    with pytest.raises(UsageError, match="no measurement"):
        pl.tune_kernel(_matmul(), offline=True)
    found = pl.tune_kernel(_matmul(), budget="1")
    assert found.ledger.cached == 0 and found.baseline < 1e-3, "measured here, not taken over"
    asked = pl.tune_kernel(_matmul(), offline=True, machine="another")
    assert str(asked.schedule) == better and asked.best == 1e-3
    assert "another" in asked.ledger.policy
    with pytest.raises(UsageError, match="offline only"):
        pl.tune_kernel(_matmul(), machine="another")


def test_a_record_whose_steps_are_no_longer_known_is_passed_over() -> None:
    """Old and new kinds of candidates share the store: what cannot be read does no harm."""
    program = lower([_matmul()])
    space = LoopSpace(program, Target.of(processor(), processor().vector))
    rules = str(space.schedule(()))
    _stored(program, {rules: 2e-3, "split C m 7\nsplit C m 7": 1e-3}, "")
    found = pl.tune_kernel(_matmul(), offline=True)
    assert str(found.schedule) == rules and found.ratio == (1.0, 1.0, 1.0)


def test_a_killed_search_goes_on_where_it_was() -> None:
    code = (
        "import planish as pl; m, n, k = pl.axes('m n k');"
        "a, b = pl.tensor('A', (20, 24)), pl.tensor('B', (24, 70));"
        "t = pl.define('C', [m, n], pl.sum(k, a[m, k] * b[k, n]));"
        "pl.tune_kernel(t, budget='3000,60s', policy='random', seed=5)"
    )
    search = subprocess.Popen([sys.executable, "-c", code])
    key = kernel_key(lower([_matmul()]), processor().vector, False)
    try:
        end = time.monotonic() + 30
        known = 0
        while known < 10 and time.monotonic() < end:
            time.sleep(0.1)
            with Store.open_default() as store:
                known = len(store.outcomes(key))
    finally:
        search.kill()
        search.wait()
    assert known >= 10
    with Store.open_default() as store:
        known = len(store.outcomes(key))
    found = pl.tune_kernel(_matmul(), budget="12", policy="random", seed=5)
    assert found.ledger.cached >= 8 and found.ledger.measured <= 4


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
