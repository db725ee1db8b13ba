"""Kernels are believed only as far as they were checked: planted cheats must be found out."""

from __future__ import annotations

import pickle
import statistics
from collections.abc import Callable

import numpy as np
import pytest

import planish as pl
from planish.base.errors import PlanishError
from planish.base.records import Failure, Outcome
from planish.codegen.native import Call as Phase
from planish.codegen.native import Image, build_image
from planish.measure.machine import processor
from planish.measure.quiet import Conditions
from planish.proc.pool import Call, Pool, Reply
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule
from planish.tune import loops
from planish.tune.kernel_evaluator import Floor, KernelEvaluator
from planish.tune.kernel_requests import HANDLER, Measure, Measured
from planish.tune.kernel_worker import Arena, Runner
from planish.tune.loop_space import LoopSpace
from planish.tune.roofline import least_operations, least_seconds
from planish.tune.stage_shape import Target

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")

Kernel = Callable[[], object]


def _product(m_: int = 20, n_: int = 70, k_: int = 24) -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (m_, k_)), pl.tensor("B", (k_, n_))
    return pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n]))


def _image(program: Program) -> bytes:
    return build_image(Schedule().apply(program), processor().vector).to_bytes()


def _run(cheat: Callable[[Kernel, Arena], Kernel]) -> Measured:
    """Measure an honest baseline against what `cheat` makes of the honest kernel."""
    program = lower([_product()])

    class Cheat(Runner):
        bound = 0

        def bind(self, image: Image, arena: Arena) -> Kernel:
            honest = super().bind(image, arena)
            self.bound += 1
            return honest if self.bound == 1 else cheat(honest, arena)

    image = _image(program)
    found = Cheat(None)(Measure("p", image, image, 0.001, 5), {"p": pickle.dumps(program)})
    assert isinstance(found, Measured)
    return found


def _nothing(honest: Kernel, arena: Arena) -> Kernel:
    return lambda: None


def _stale(honest: Kernel, arena: Arena) -> Kernel:
    """Computes once, and gives that result ever after."""
    kept: list[np.ndarray] = []

    def call() -> None:
        if not kept:
            honest()
            kept.append(arena._guarded[0].inner.copy())
        arena._guarded[0].inner[...] = kept[0]

    return call


def _only_first(honest: Kernel, arena: Arena) -> Kernel:
    """Right in the check before the timing, and idle in it."""
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        if len(calls) == 1:
            honest()

    return call


def _partly(honest: Kernel, arena: Arena) -> Kernel:
    """Leaves the last element out."""

    def call() -> None:
        last = arena._guarded[0].inner[-1, -1].copy()
        honest()
        arena._guarded[0].inner[-1, -1] = last

    return call


def _outside(honest: Kernel, arena: Arena) -> Kernel:
    def call() -> None:
        honest()
        arena._guarded[0].whole[-1] ^= 1

    return call


def _inputs(honest: Kernel, arena: Arena) -> Kernel:
    def call() -> None:
        honest()
        arena._inputs[0][0, 0] += 0.5

    return call


def _wrong(honest: Kernel, arena: Arena) -> Kernel:
    def call() -> None:
        honest()
        arena._guarded[0].inner[3, 3] += 1

    return call


def test_an_honest_kernel_passes() -> None:
    found = _run(lambda honest, arena: honest)
    assert len(found.baseline) == len(found.candidate) >= 3 and min(found.candidate) > 0


@pytest.mark.parametrize(
    ("cheat", "told"),
    [(_nothing, "differs"), (_stale, "differs"), (_only_first, "differs"), (_partly, "differs"),
     (_wrong, "differs"), (_outside, "outside"), (_inputs, "changes its inputs")],
)  # fmt: skip
def test_a_cheat_is_refused(cheat: Callable[[Kernel, Arena], Kernel], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        _run(cheat)


def _evaluator(pool: Pool, program: Program, floor: Floor | None = None) -> KernelEvaluator:
    target = Target.of(processor(), processor().vector)
    return KernelEvaluator(pool, LoopSpace(program, target), processor().vector, floor=floor)


def test_machine_code_that_does_nothing_crashes_or_hangs_is_an_outcome() -> None:
    """In real workers: each is refused with its reason, and the next one is measured."""
    program = lower([_product()])
    honest = _image(program)
    image = Image.from_bytes(honest)

    def of(code: bytes) -> bytes:
        return Image(code, (Phase(0, ((0,) * 3,)),), 0, (), image.origin).to_bytes()

    with Pool(HANDLER, None, jobs=1, seconds=2.0) as pool:
        pool.keep("p", pickle.dumps(program))

        def reply(code: bytes) -> Reply:
            [found] = pool.run([Call("m", Measure("p", honest, code, 0.001, 1), ("p",))])
            return found

        assert "differs from NumPy" in reply(of(b"\xc3")).reason  # ret
        assert reply(of(b"\x0f\x0b")).failure is Failure.CRASH  # ud2
        assert reply(of(b"\xeb\xfe")).failure is Failure.TIMEOUT  # jump to itself
        assert reply(honest).failure is None


def test_each_batch_is_measured_by_a_process_of_its_own() -> None:
    """What one batch of candidates did to its process cannot reach the next."""
    with Pool(HANDLER, None, jobs=1) as pool:
        evaluator = _evaluator(pool, lower([_product()]))
        assert evaluator.baseline().ok
        before = {worker.pid for worker in pool._idle.values() if worker.flavour != "build"}
        plan = evaluator._space.start.acting(evaluator._space.all_actions[:1])
        assert [outcome.failure for outcome in evaluator([plan])] == [None]
        assert not before
        assert all(worker.flavour == "build" for worker in pool._idle.values())


def test_faster_than_physics_is_rejected_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    from planish.tune import roofline

    asked: list[float] = []

    def peak(vector: int, seen: float = 0.0) -> float:
        asked.append(seen)
        return 1e11

    monkeypatch.setattr(roofline, "peak_flops", peak)
    program = lower([_product(64, 64, 64)])
    least = least_seconds(program, 1e11)
    assert least == pytest.approx(2 * 64**3 / 1e11 / 1.1)
    floor = Floor(program, 64, False)
    assert floor.refuses(least * 1.01) == ""
    assert max(asked) == 0.0
    assert "needs at least" in floor.refuses(least * 0.5)
    assert max(asked) > 1e11, "the peak is measured again before it is held against a kernel"
    with Pool(HANDLER, None, jobs=1) as pool:
        evaluator = _evaluator(pool, program, floor)
        fast = Measured((1e-6,) * 3, (least * 0.5,) * 3, (1e-5, 1e-5))
        outcome = evaluator._outcome("x", Reply(fast))
    assert isinstance(outcome, Outcome) and outcome.failure is Failure.REJECTED
    assert "needs at least" in outcome.reason


def test_operations_that_can_be_shared_do_not_count() -> None:
    """The floor is for the cheapest way to compute the program, not for the way it is written."""
    m, n = pl.axes("m n")
    x = pl.tensor("x", (64, 32))
    v = pl.tensor("v", (64,))
    once = lower([pl.define("y", [m, n], x[m, n] * (v[m] * v[m]))])
    assert least_operations(once) == 64 * 32 + 64


def test_a_candidate_that_needs_more_workspace_does_not_take_the_baselines() -> None:
    program = lower([_product(48, 128, 64)])
    packed = Schedule.parse("tile C m=4 n=32 vector n\npack C B as n/32 k n")
    wide = build_image(packed.apply(program), processor().vector).to_bytes()
    runner, plain = Runner(None), _image(program)
    for _ in range(3):
        found = runner(Measure("p", plain, wide, 0.001, 1), {"p": pickle.dumps(program)})
        assert isinstance(found, Measured) and len(found.candidate) >= 3


def test_a_busy_machine_is_flagged_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loops, "conditions", lambda: Conditions(1.5, 2))
    found = pl.tune_kernel(_product(), budget="2", store=False)
    assert any("1.5 of 2 processors" in words for words in found.ledger.warnings)
    with pytest.raises(PlanishError, match="too busy"):
        pl.tune_kernel(_product(), budget="2", store=False, loaded="refuse")


def test_cold_caches_are_slower() -> None:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (512, 256))
    program = lower([pl.define("y", [n], pl.sum(m, x[m, n]))])
    image, blobs = _image(program), {"p": pickle.dumps(program)}
    runner = Runner(None)

    def median(cold: bool) -> float:
        found = runner(Measure("p", image, image, 0.1, 1, cold), blobs)
        assert isinstance(found, Measured)
        return statistics.median(found.candidate)

    assert median(True) > 1.1 * median(False)
