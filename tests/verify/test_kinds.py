"""Miscompiles of kinds that LLVM's history knows are refuted, their correct twins are proved."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from planish.base.records import Grade
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(bound=4, seconds=20)


# Each file: a source, a target that breaks it, and one that does not.
KINDS = sorted((Path(__file__).parents[1] / "golden" / "miscompiles").glob("*.ll"))


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(jobs=1, seconds=20) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.stem))
def test_miscompile_is_refuted_and_its_twin_proved(kind: Path, verifier: Verifier) -> None:
    assert len(KINDS) >= 14, "the files are where they are looked for"
    source, *targets = (part.encode() for part in re.split("^; .*$", kind.read_text(), flags=re.M))
    [wrong], [right] = (
        verifier.verify(source, target, limits=LIMITS).functions for target in targets
    )
    assert wrong.grade is Grade.REFUTED, wrong
    assert "confirmed by" in wrong.input
    assert right.grade in (Grade.PROVED, Grade.PROVED_TO_BOUND), right


def test_too_small_a_bound_proves_nothing(verifier: Verifier) -> None:
    source = """define i32 @f(i32 noundef %x) {
entry:
  br label %h
h:
  %i = phi i32 [ 0, %entry ], [ %j, %h ]
  %j = add i32 %i, 1
  %m = and i32 %x, 1
  %k = add i32 %m, 50
  %c = icmp ult i32 %j, %k
  br i1 %c, label %h, label %e
e:
  ret i32 %j
}"""
    wrong = "define i32 @f(i32 noundef %x) {\n  ret i32 7\n}"
    limits = Limits(bound=3, run=False)
    [one] = verifier.verify(source.encode(), wrong.encode(), limits=limits).functions
    assert one.grade is Grade.UNKNOWN
    assert "no path returns" in one.reason


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("%n = load i32, ptr %p\n  %q = alloca i8, i32 %n\n  ret i32 %n", "variable size"),
        ("%v = load fp128, ptr %p\n  %n = fptosi fp128 %v to i32\n  ret i32 %n", "fp128"),
        ("indirectbr ptr %p, [label %x]\nx:\n  ret i32 0", "indirectbr"),
    ],
)
def test_what_is_not_supported_is_named(body: str, named: str, verifier: Verifier) -> None:
    text = f"define i32 @f(ptr %p) {{\n  {body}\n}}".encode()
    other = text.replace(b"{\n", b"{\n  %changed = ptrtoint ptr %p to i64\n")
    [one] = verifier.verify(text, other, limits=LIMITS).functions
    assert one.grade is Grade.UNKNOWN and one.unsupported
    assert named in one.reason
