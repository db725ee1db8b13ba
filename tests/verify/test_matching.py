"""What of the target stands for what of the source: slots, sizes, and what passes inferred."""

from __future__ import annotations

import pytest

from planish.base.records import Grade
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(seconds=5, run=False)


def _verify(verifier: Verifier, before: str, after: str) -> FunctionVerdict:
    report = verifier.verify(before.encode(), after.encode(), limits=LIMITS, functions=["f"])
    return report.functions[0]


SLOTS = """declare void @g(ptr)
declare void @h(ptr)
define i32 @f(i32 noundef %a, i32 noundef %b) {
  %1 = alloca i32
  %2 = alloca i32
  %3 = alloca i32
  %4 = alloca i32
  store i32 %a, ptr %1
  store i32 %b, ptr %2
  store i32 %a, ptr %3
  store i32 %b, ptr %4
  call void @g(ptr %3)
  call void @h(ptr %4)
  %5 = load i32, ptr %1
  %6 = load i32, ptr %2
  %7 = load i32, ptr %3
  %8 = add i32 %5, %6
  %9 = add i32 %7, %8
  ret i32 %9
}"""
LEFT = """declare void @g(ptr)
declare void @h(ptr)
define i32 @f(i32 noundef %a, i32 noundef %b) {
  %1 = alloca i32
  %2 = alloca i32
  store i32 %b, ptr %1
  store i32 %a, ptr %2
  call void @g(ptr %2)
  call void @h(ptr %1)
  %3 = load i32, ptr %2
  %4 = add i32 %a, %b
  %5 = add i32 %3, %4
  ret i32 %5
}"""


def test_slots_are_matched_by_the_calls_that_get_them(verifier: Verifier) -> None:
    assert _verify(verifier, SLOTS, LEFT).grade is Grade.PROVED
    for wrong in (
        LEFT.replace("store i32 %b, ptr %1", "store i32 %a, ptr %1"),
        LEFT.replace("@g(ptr %2)", "@g(ptr %1)"),
        LEFT.replace("load i32, ptr %2", "load i32, ptr %1"),
    ):
        assert _verify(verifier, SLOTS, wrong).grade is not Grade.PROVED


COPY = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr noundef %p, ptr noundef %q) {
  %1 = alloca i64
  store i64 4, ptr %1
  %2 = load i64, ptr %1
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 %2, i1 false)
  ret void
}"""
COPIED = """declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
define void @f(ptr noundef %p, ptr noundef %q) {
  call void @llvm.memcpy.p0.p0.i64(ptr %p, ptr %q, i64 4, i1 false)
  ret void
}"""


@pytest.mark.parametrize("size", [3, 4, 5])
def test_a_size_that_comes_through_a_variable_is_known(size: int, verifier: Verifier) -> None:
    found = _verify(verifier, COPY, COPIED.replace("i64 4", f"i64 {size}"))
    assert (found.grade is Grade.PROVED) == (size == 4)


def test_a_volatile_copy_is_an_effect(verifier: Verifier) -> None:
    copy, copied = (text.replace("i1 false", "i1 true") for text in (COPY, COPIED))
    assert _verify(verifier, copy, copied).grade is Grade.PROVED
    for wrong in (copied.replace("i64 4", "i64 3"), COPIED):
        assert _verify(verifier, copy, wrong).grade is not Grade.PROVED


RESULT = """declare ptr @malloc(i64)
define {}ptr @f(i64 noundef %n) {{
  %p = {}call {}ptr @malloc(i64 noundef %n)
  ret ptr %p
}}"""


def test_that_a_result_is_no_poison_is_believed_and_said(verifier: Verifier) -> None:
    before = RESULT.format("", "", "")
    found = _verify(verifier, before, RESULT.format("noundef ", "tail ", "noundef "))
    assert found.grade is Grade.PROVED
    assert "what is inferred of callees' results is believed" in found.assumptions
    assert _verify(verifier, before, RESULT.format("noundef ", "tail ", "")).grade is not (
        Grade.PROVED
    )


LOCAL = """declare void @g(ptr noundef, i32 noundef)
define internal i32 @f(ptr noundef %p, i32 noundef {}%a) {{
  {}
}}
define i32 @caller(ptr noundef %p) {{
  %r = call i32 @f(ptr noundef %p, i32 noundef 1)
  ret i32 %r
}}"""
PLAIN = """%c = icmp ult i32 %a, 2
  br i1 %c, label %y, label %n
y:
  call void @g(ptr noundef %p, i32 noundef 1)
  ret i32 1
n:
  ret i32 0"""
SURE = """call void @g(ptr noundef %p, i32 noundef 1)
  ret i32 1"""


@pytest.mark.parametrize(
    ("promise", "holds"),
    [
        ("range(i32 0, 2) ", True), ("range(i32 1, 2) ", True), ("range(i32 0, 3) ", False),
        ("range(i32 -1, 1) ", False), ("", False),
    ],
)  # fmt: skip
def test_what_callers_of_a_local_function_pass_is_believed_and_said(
    promise: str, holds: bool, verifier: Verifier
) -> None:
    before, after = LOCAL.format("", PLAIN), LOCAL.format(promise, SURE)
    found = _verify(verifier, before, after)
    assert (found.grade is Grade.PROVED) == holds
    if holds:
        assert "what is inferred of a local function's arguments is believed" in found.assumptions
    # What others may call can be passed anything.
    shown = [text.replace("define internal", "define") for text in (before, after)]
    assert _verify(verifier, *shown).grade is not Grade.PROVED


def test_null_is_ruled_out_where_no_caller_passes_it(verifier: Verifier) -> None:
    before = LOCAL.format("", PLAIN.replace("ult i32 %a, 2", "ne ptr %p, null"))
    after = LOCAL.format("", SURE)
    promised = after.replace("@f(ptr noundef %p, i32 noundef %a)",
                             "@f(ptr noundef nonnull %p, i32 noundef %a)")  # fmt: skip
    assert _verify(verifier, before, promised).grade is Grade.PROVED
    assert _verify(verifier, before, after).grade is not Grade.PROVED


BRANCHES = """declare double @g(ptr, i32 noundef)
define void @f(ptr noundef %p, i32 noundef %a, i1 noundef %c) {
  br i1 %c, label %y, label %n
y:
  call double @g(ptr %p, i32 noundef 7)
  ret void
n:
  call double @g(ptr null, i32 noundef 1)
  call double @g(ptr %p, i32 noundef %a)
  ret void
}"""
MERGED = """declare double @g(ptr, i32 noundef)
define void @f(ptr noundef %p, i32 noundef %a, i1 noundef %c) {
  br i1 %c, label %e, label %n
n:
  call double @g(ptr null, i32 noundef 1)
  br label %e
e:
  %v = phi i32 [ 7, %0 ], [ %a, %n ]
  call double @g(ptr %p, i32 noundef %v)
  ret void
}"""


def test_calls_of_two_paths_may_be_made_one(verifier: Verifier) -> None:
    assert _verify(verifier, BRANCHES, MERGED).grade is Grade.PROVED
    for wrong in (
        MERGED.replace("[ 7,", "[ 6,"),
        MERGED.replace("i1 %c, label %e, label %n", "i1 %c, label %n, label %e")
        .replace("[ 7, %0 ], [ %a, %n ]", "[ %a, %0 ], [ 7, %n ]"),
        MERGED.replace("ptr null, i32 noundef 1", "ptr null, i32 noundef 2"),
    ):  # fmt: skip
        assert _verify(verifier, BRANCHES, wrong).grade is not Grade.PROVED


MONTH = """declare {0}i32 @month()
declare void @g(i32 noundef)
define void @f() {{
  %m = call i32 @month()
  %n = add {1}i32 %m, 1
  call void @g(i32 noundef %n)
  ret void
}}"""


def test_the_range_of_a_result_is_believed_and_said(verifier: Verifier) -> None:
    before = MONTH.format("", "nsw ")
    found = _verify(verifier, before, MONTH.format("range(i32 0, 12) ", "nuw nsw "))
    assert found.grade is Grade.PROVED
    assert "what is inferred of callees' results is believed" in found.assumptions
    for promise in ("", "range(i32 -1, 12) "):
        wrong = MONTH.format(promise, "nuw nsw ")
        assert _verify(verifier, before, wrong).grade is not Grade.PROVED


@pytest.mark.parametrize(
    ("promise", "holds"), [("range(i32 0, 2)", True), ("range(i32 1, 2)", False)]
)
def test_a_promise_of_a_result_has_to_be_kept(
    promise: str, holds: bool, verifier: Verifier
) -> None:
    before = "define i32 @f(i32 noundef %a) {\n  %r = and i32 %a, 1\n  ret i32 %r\n}"
    after = before.replace("define", f"define {promise}").replace("%a, 1", "%a, 1 ")
    found = _verify(verifier, before, after)
    assert (found.grade is Grade.PROVED) == holds


def test_no_object_has_the_address_null(verifier: Verifier) -> None:
    before = """declare void @g(ptr noundef)
define void @f(ptr noundef %p) {
  %q = getelementptr inbounds i8, ptr %p, i64 -48
  call void @g(ptr noundef %q)
  ret void
}"""
    after = before.replace("g(ptr noundef %q", "g(ptr noundef nonnull %q")
    assert _verify(verifier, before, after).grade is Grade.PROVED
    plain = (text.replace(" inbounds", "") for text in (before, after))
    assert _verify(verifier, *plain).grade is not Grade.PROVED


STORED = """declare ptr @malloc(i64)
declare void @g()
define void @f(ptr noundef %q, i64 noundef %n) {{
  %p = call {}ptr @malloc(i64 noundef %n)
  store ptr {}, ptr %q
  call void @g()
  ret void
}}"""


def test_what_is_believed_of_a_result_holds_where_it_was_stored(verifier: Verifier) -> None:
    before = STORED.format("", "%p")
    assert _verify(verifier, before, STORED.format("noundef ", "%p")).grade is Grade.PROVED
    assert _verify(verifier, before, STORED.format("noundef ", "%q")).grade is not Grade.PROVED
