"""Schedules against their programs, and the laws behind the steps, proved over symbolic bounds."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from planish.base.errors import Unreadable, UsageError
from planish.base.records import Grade
from planish.verify import schedules

PROOFS = Path(__file__).parents[2] / "proofs"
HEAD = "einsum mk,kn->mn m=10,k=12,n=9 f32\n"


@pytest.mark.parametrize(
    ("steps", "grade", "reassociated"),
    [
        ("split Z k 5\nreorder Z k/5 m n k\n", Grade.PROVED, ()),
        ("split Z m 4\nsplit Z n 4\nreorder Z m/4 n/4 m n k\n", Grade.PROVED, ()),
        ("reorder Z n m\nvectorise Z k\n", Grade.REFUTED, ("Z",)),
        ("split_reduction Z k 4\n", Grade.REFUTED, ("Z_parts", "Z")),
        ("reorder Z m\nreorder Z m k\n", Grade.REFUTED, ()),
    ],
)
def test_a_schedule_is_proved_or_refused_for_a_reason(
    steps: str, grade: Grade, reassociated: tuple[str, ...]
) -> None:
    program, schedule = schedules.read_task(HEAD + steps.replace("Z", _stage()))
    found = schedules.check(program, schedule)
    assert found.verdict.grade is grade, found
    assert found.reassociated == tuple(n.replace("Z", _stage()) for n in reassociated)
    assert bool(found.reason) is (grade is Grade.REFUTED)
    if reassociated:
        allowed = schedules.check(program, schedule, reassociate=True)
        assert allowed.verdict.grade is Grade.PROVED and allowed.reassociated


def test_whole_numbers_may_be_summed_in_any_order() -> None:
    text = HEAD.replace("f32", "i32") + f"split_reduction {_stage()} k 4\n"
    assert schedules.check(*schedules.read_task(text)).verdict.grade is Grade.PROVED


@pytest.mark.parametrize(
    "text", ["", "einsum", "einsum mk m=0", "einsum mk,kn->mn m=2,k=2", "x y z"]
)
def test_a_file_that_names_no_program_is_told(text: str) -> None:
    with pytest.raises(UsageError):
        schedules.read_task(text)


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("reorder Z q m", "unknown loop of Z 'q'"),
        ("split Y k 4", "unknown stage 'Y'"),
        ("split Z k four", "cannot read the schedule step"),
        ("splt Z k 4", "unknown schedule step 'splt'"),
    ],
)
def test_a_step_that_names_what_is_not_there_is_no_refutation(step: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words.replace("Z", _stage())):
        schedules.check(*schedules.read_task(HEAD + step.replace("Z", _stage())))


def _stage() -> str:
    return schedules.read_task(HEAD)[0].stages[0].name


# -- the laws ------------------------------------------------------------------------------------


def _proved(claim: object, *, under: object = True) -> bool:
    import z3

    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(under, z3.Not(claim))
    return bool(solver.check() == z3.unsat)


def test_split_covers_an_axis_once() -> None:
    """Blocks b*step of length min(step, n - b*step) hold each i below n in one block only."""
    z3 = pytest.importorskip("z3")
    n, i, b, c = z3.Ints("n i b c")
    for step in (2, 3, 8, 48):  # the step is a number in every schedule; n is any

        def holds(block: object, step: int = step) -> object:
            start = block * step
            length = z3.If(n - start < step, n - start, z3.IntVal(step))
            return z3.And(block >= 0, start < n, start <= i, i < start + length)

        inside = z3.And(i >= 0, i < n)
        assert _proved(holds(i / step), under=inside)
        assert _proved(b == c, under=z3.And(holds(b), holds(c)))
        assert _proved(inside, under=holds(b))
        assert not _proved(b == c, under=z3.And(b >= 0, c >= 0, b * step <= i, c * step <= i))


def test_reorder_keeps_every_sum_in_order_unless_two_of_its_axes_change_places() -> None:
    """Points that meet in one element of the output: is their order kept?"""
    z3 = pytest.importorskip("z3")
    i, j, k, m = z3.Ints("i j k m")
    a, b, c, d = z3.Ints("a b c d")

    def before(x: tuple[object, ...], y: tuple[object, ...]) -> object:
        if not x:
            return z3.BoolVal(False)
        return z3.Or(x[0] < y[0], z3.And(x[0] == y[0], before(x[1:], y[1:])))

    meet = z3.And(i == a, j == b)  # output axes i, j; reduction axes k, m
    first = z3.And(meet, before((i, j, k, m), (a, b, c, d)))
    for new, other in (((k, i, j, m), (c, a, b, d)), ((j, k, m, i), (b, c, d, a)),
                       ((k, m, j, i), (c, d, b, a))):  # fmt: skip
        assert _proved(before(new, other), under=first)
    assert not _proved(before((i, j, m, k), (a, b, d, c)), under=first)
    # Blocks of a reduction outside, the rest inside: still in order.
    assert _proved(before((k / 8, i, j, k), (c / 8, a, b, c)),
                   under=z3.And(meet, before((i, j, k), (a, b, c))))  # fmt: skip


def test_fuse_reads_only_what_has_been_written() -> None:
    """A consumer at (i, j) that reads the producer at (i, r) finds it done when both share i."""
    z3 = pytest.importorskip("z3")
    i, j, r, p, n = z3.Ints("i j r p n")

    def before(x: tuple[object, ...], y: tuple[object, ...]) -> object:
        if not x:
            return z3.BoolVal(False)
        return z3.Or(x[0] < y[0], z3.And(x[0] == y[0], before(x[1:], y[1:])))

    under = z3.And(r >= 0, r < n, j >= 0, j < n)
    # A place is (i, 0 producer or 1 consumer, inner).
    assert _proved(before((i, z3.IntVal(0), r), (i, z3.IntVal(1), j)), under=under)
    assert not _proved(before((p, z3.IntVal(0), r), (i, z3.IntVal(1), j)), under=under)


@pytest.mark.skipif(shutil.which("coqc") is None, reason="no Coq (Debian: apt-get install coq)")
def test_the_theorems_are_accepted_and_rest_on_nothing(tmp_path: Path) -> None:
    source = tmp_path / "schedules.v"
    text = (PROOFS / "schedules.v").read_text()
    assert "Admitted" not in text and "Axiom" not in text
    names = ("split_exact", "split_tail", "split_min", "reorder", "fuse", "split_reduction")
    source.write_text(text + "".join(f"\nPrint Assumptions {name}." for name in names))
    done = subprocess.run(["coqc", "schedules.v"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Closed under the global context") == len(names)
