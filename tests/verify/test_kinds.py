"""Miscompiles of kinds that LLVM's history knows are refuted, their correct twins are proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from planish.base.records import Grade
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(bound=4, seconds=20)


@dataclass(frozen=True)
class Kind:
    """A source, a target that breaks it, and one that does not."""

    name: str
    source: str
    wrong: str
    right: str


KINDS = (
    Kind(
        "select to logical and without freeze",
        """define i1 @f(i1 %c, i1 %b) {
  %r = select i1 %c, i1 true, i1 %b
  ret i1 %r
}""",
        """define i1 @f(i1 %c, i1 %b) {
  %r = or i1 %c, %b
  ret i1 %r
}""",
        """define i1 @f(i1 %c, i1 %b) {
  %z = freeze i1 %b
  %r = or i1 %c, %z
  ret i1 %r
}""",
    ),
    Kind(
        "nsw kept on reassociation",
        """define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add nsw i8 %a, %b
  %y = add nsw i8 %x, %c
  ret i8 %y
}""",
        """define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add nsw i8 %b, %c
  %y = add nsw i8 %a, %x
  ret i8 %y
}""",
        """define i8 @f(i8 noundef %a, i8 noundef %b, i8 noundef %c) {
  %x = add i8 %b, %c
  %y = add i8 %a, %x
  ret i8 %y
}""",
    ),
    Kind(
        "division hoisted above its guard",
        """define i32 @f(i32 noundef %a, i32 noundef %b) {
entry:
  %z = icmp eq i32 %b, 0
  br i1 %z, label %out, label %in
in:
  %q = udiv i32 %a, %b
  br label %out
out:
  %r = phi i32 [ 0, %entry ], [ %q, %in ]
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %a, i32 noundef %b) {
  %z = icmp eq i32 %b, 0
  %q = udiv i32 %a, %b
  %r = select i1 %z, i32 0, i32 %q
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %a, i32 noundef %b) {
  %z = icmp eq i32 %b, 0
  %s = select i1 %z, i32 1, i32 %b
  %q = udiv i32 %a, %s
  %r = select i1 %z, i32 0, i32 %q
  ret i32 %r
}""",
    ),
    Kind(
        "shift by the width",
        """define i32 @f(i32 noundef %x, i32 noundef %n) {
  %m = and i32 %n, 31
  %l = shl i32 %x, %m
  %k = sub i32 32, %m
  %j = and i32 %k, 31
  %h = lshr i32 %x, %j
  %r = or i32 %l, %h
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %x, i32 noundef %n) {
  %m = and i32 %n, 31
  %l = shl i32 %x, %m
  %k = sub i32 32, %m
  %h = lshr i32 %x, %k
  %r = or i32 %l, %h
  ret i32 %r
}""",
        """declare i32 @llvm.fshl.i32(i32, i32, i32)
define i32 @f(i32 noundef %x, i32 noundef %n) {
  %r = call i32 @llvm.fshl.i32(i32 %x, i32 %x, i32 %n)
  ret i32 %r
}""",
    ),
    Kind(
        "poison through phi",
        """define i32 @f(i1 noundef %c, i32 noundef %x) {
entry:
  br i1 %c, label %a, label %b
a:
  %p = add i32 %x, 1
  br label %b
b:
  %r = phi i32 [ 0, %entry ], [ %p, %a ]
  ret i32 %r
}""",
        """define i32 @f(i1 noundef %c, i32 noundef %x) {
entry:
  %p = add nuw i32 %x, 1
  br i1 %c, label %a, label %b
a:
  br label %b
b:
  %r = phi i32 [ 0, %entry ], [ %p, %a ]
  ret i32 %r
}""",
        """define i32 @f(i1 noundef %c, i32 noundef %x) {
  %p = add i32 %x, 1
  %r = select i1 %c, i32 %p, i32 0
  ret i32 %r
}""",
    ),
    Kind(
        "pointer comparison beyond the object",
        """define i1 @f(ptr noundef %p, i64 noundef %n) {
  %q = getelementptr i8, ptr %p, i64 %n
  %r = icmp ult ptr %q, %p
  ret i1 %r
}""",
        """define i1 @f(ptr noundef %p, i64 noundef %n) {
  %r = icmp slt i64 %n, 0
  ret i1 %r
}""",
        """define i1 @f(ptr noundef %p, i64 noundef %n) {
  %a = ptrtoint ptr %p to i64
  %b = add i64 %a, %n
  %r = icmp ult i64 %b, %a
  ret i1 %r
}""",
    ),
    Kind(
        "alias-ignorant store forwarding",
        """define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  %r = load i32, ptr %p
  ret i32 %r
}""",
        """define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  ret i32 1
}""",
        """define i32 @f(ptr noundef %p, ptr noundef %q) {
  store i32 1, ptr %p
  store i32 2, ptr %q
  %s = icmp eq ptr %p, %q
  %l = load i32, ptr %p
  %r = select i1 %s, i32 2, i32 %l
  ret i32 %r
}""",
    ),
    Kind(
        "two uses of one undef taken for the same",
        """define i32 @f(i32 noundef %x) {
  %f = freeze i32 undef
  %r = sub i32 %f, %f
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %x) {
  %r = sub i32 undef, undef
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %x) {
  ret i32 0
}""",
    ),
    Kind(
        "a store dropped before a call that may read it",
        """declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 1, ptr %p
  store i32 2, ptr %p
  ret void
}""",
        """declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 1, ptr %p
  ret void
}""",
        """declare void @g(ptr)
define void @f(ptr noundef %p) {
  store i32 2, ptr %p
  ret void
}""",
    ),
    Kind(
        "a load moved across a store",
        """define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  store i32 %v, ptr %q
  %r = load i32, ptr %p
  ret i32 %r
}""",
        """define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  %r = load i32, ptr %p
  store i32 %v, ptr %q
  ret i32 %r
}""",
        """define i32 @f(ptr noundef %p, ptr noundef %q, i32 noundef %v) {
  store i32 %v, ptr %q
  %r = load i32, ptr %p, align 1
  ret i32 %r
}""",
    ),
    Kind(
        "a load of unknown memory speculated",
        """define i32 @f(ptr noundef %p, i1 noundef %c) {
entry:
  br i1 %c, label %in, label %out
in:
  %v = load i32, ptr %p
  br label %out
out:
  %r = phi i32 [ 0, %entry ], [ %v, %in ]
  ret i32 %r
}""",
        """define i32 @f(ptr noundef %p, i1 noundef %c) {
  %v = load i32, ptr %p
  %r = select i1 %c, i32 %v, i32 0
  ret i32 %r
}""",
        """define i32 @f(ptr noundef %p, i1 noundef %c) {
entry:
  br i1 %c, label %in, label %out
out:
  ret i32 0
in:
  %v = load i32, ptr %p
  ret i32 %v
}""",
    ),
    Kind(
        "signed comparison taken for unsigned",
        """define i1 @f(i32 noundef %x) {
  %s = sext i32 %x to i64
  %r = icmp slt i64 %s, 100
  ret i1 %r
}""",
        """define i1 @f(i32 noundef %x) {
  %r = icmp ult i32 %x, 100
  ret i1 %r
}""",
        """define i1 @f(i32 noundef %x) {
  %r = icmp slt i32 %x, 100
  ret i1 %r
}""",
    ),
    Kind(
        "exact and nneg claimed",
        """define i32 @f(i32 noundef %x) {
  %a = lshr i32 %x, 2
  %b = shl i32 %a, 2
  ret i32 %b
}""",
        """define i32 @f(i32 noundef %x) {
  %a = lshr exact i32 %x, 2
  %b = shl i32 %a, 2
  ret i32 %b
}""",
        """define i32 @f(i32 noundef %x) {
  %b = and i32 %x, -4
  ret i32 %b
}""",
    ),
    Kind(
        "a loop's last round lost",
        """define i32 @f(i32 noundef %n) {
entry:
  br label %h
h:
  %i = phi i32 [ 0, %entry ], [ %j, %b ]
  %s = phi i32 [ 0, %entry ], [ %t, %b ]
  %c = icmp ult i32 %i, %n
  br i1 %c, label %b, label %e
b:
  %t = add i32 %s, 3
  %j = add i32 %i, 1
  br label %h
e:
  ret i32 %s
}""",
        """define i32 @f(i32 noundef %n) {
  %m = sub i32 %n, 1
  %r = mul i32 %m, 3
  ret i32 %r
}""",
        """define i32 @f(i32 noundef %n) {
  %r = mul i32 %n, 3
  ret i32 %r
}""",
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(jobs=1, seconds=20) as made:
        yield made


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_miscompile_is_refuted_and_its_twin_proved(kind: Kind, verifier: Verifier) -> None:
    source = kind.source.encode()
    [wrong] = verifier.verify(source, kind.wrong.encode(), limits=LIMITS).functions
    [right] = verifier.verify(source, kind.right.encode(), limits=LIMITS).functions
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
