"""Differential runs: what is called again and again, allocated, linked in memory, and excused."""

from __future__ import annotations

import subprocess
import sys

import pytest

from planish.base.records import Grade
from planish.verify.cones import cones
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(seconds=5, proofs=False)


def _run(verifier: Verifier, before: str, after: str, name: str = "f") -> FunctionVerdict:
    report = verifier.verify(before.encode(), after.encode(), limits=LIMITS, functions=[name])
    return report.functions[0]


HEAP = """declare ptr @malloc(i64)
declare ptr @realloc(ptr, i64)
declare void @free(ptr)
define i32 @f(i32 noundef %n) {{
  %p = call ptr @malloc(i64 8)
  store i32 %n, ptr %p
  %q = call ptr @realloc(ptr %p, i64 64)
  %z = getelementptr i8, ptr %q, i64 60
  store i32 {}, ptr %z
  %v = load i32, ptr %q
  {}
  ret i32 %v
}}"""


def test_what_allocates_is_run_on_a_heap_of_its_own(verifier: Verifier) -> None:
    frees = "call void @free(ptr %q)"
    assert _run(verifier, HEAP.format(1, frees), HEAP.format(2, frees)).grade is Grade.TESTED
    # What stays allocated is looked at, too.
    kept, other = HEAP.format(1, ""), HEAP.format(2, "")
    assert _run(verifier, kept, kept.replace("i64 64)", "i64 80)")).grade is Grade.UNKNOWN
    assert "left in memory differs" in _run(verifier, kept, other).reason


LIST = """define i32 @f(ptr noundef %p) {{
entry:
  br label %loop
loop:
  %at = phi ptr [ %p, %entry ], [ %next, %more ]
  %sum = phi i32 [ 0, %entry ], [ %new, %more ]
  %end = icmp eq ptr %at, null
  br i1 %end, label %out, label %more
more:
  %place = getelementptr i8, ptr %at, i64 8
  %v = load i32, ptr %place
  %new = {} i32 %sum, %v
  %next = load ptr, ptr %at
  br label %loop
out:
  ret i32 %sum
}}"""


def test_links_in_memory_are_followed(verifier: Verifier) -> None:
    before = LIST.format("add")
    assert _run(verifier, before, before.replace("%sum, %v", "%v, %sum")).grade is Grade.TESTED
    found = _run(verifier, before, LIST.format("xor"))
    assert found.grade is Grade.REFUTED and "confirmed by running both" in found.input


COUNT = """@n = internal global i32 0
define i32 @f(i32 noundef %x) {{
  %old = load i32, ptr @n
  %new = add i32 %old, {}
  store i32 %new, ptr @n
  ret i32 %new
}}"""


def test_each_call_of_what_keeps_state_begins_anew(verifier: Verifier) -> None:
    before = COUNT.format("%x")
    after = before.replace("%old, %x", "%x, %old")
    found = _run(verifier, before, after)
    assert found.grade is Grade.TESTED and int(str(found.verdict.detail).split()[1]) <= 48


FAULTS = """define i32 @f(ptr noundef %p, i32 noundef %n) {{
  %m = and i32 %n, 1
  %c = icmp eq i32 %m, 0
  br i1 %c, label %bad, label %good
bad:
  %v = load i32, ptr inttoptr (i64 16 to ptr)
  ret i32 %v
good:
  %w = load i32, ptr %p
  %r = add i32 %w, {}
  ret i32 %r
}}"""


def test_a_fault_ends_one_call_only(verifier: Verifier) -> None:
    before = FAULTS.format("%n")
    found = _run(verifier, before, before.replace("%w, %n", "%n, %w"))
    assert found.grade is Grade.TESTED and int(str(found.verdict.detail).split()[1]) > 100
    assert _run(verifier, before, FAULTS.format("7")).grade is Grade.REFUTED


ENDLESS = """define i32 @f(i32 noundef %n) {{
entry:
  br label %loop
loop:
  %i = phi i32 [ 0, %entry ], [ %j, %loop ]
  %j = add i32 %i, 1
  %c = icmp {} i32 %j, %n
  br i1 %c, label %loop, label %out
out:
  ret i32 %j
}}"""


def test_a_loop_that_no_longer_ends_is_refuted(verifier: Verifier) -> None:
    before = (
        ENDLESS.format("ult")
        .replace("%n)", "%m)")
        .replace("  br label %loop\nloop", "  %n = and i32 %m, 15\n  br label %loop\nloop", 1)
    )
    found = _run(verifier, before, before.replace("%j = add i32 %i, 1", "%j = and i32 %i, 1"))
    assert found.grade is Grade.REFUTED and "timeout" in found.input


ALIASED = """define i32 @f(ptr noundef {0}%p, ptr noundef {0}%q) {{
  store i32 1, ptr %p{1}
  store i16 2, ptr %q{2}
  {3}
  ret i32 %v
}}
!0 = !{{!"root"}}
!1 = !{{!"int", !0}}
!2 = !{{!"short", !0}}
!3 = !{{!1, !1, i64 0}}
!4 = !{{!2, !2, i64 0}}
"""


def test_inputs_that_aliasing_rules_may_rule_out_refute_nothing(verifier: Verifier) -> None:
    loads, knows = "%v = load i32, ptr %p", "%v = add i32 0, 1"
    for promise in (("noalias ", "", ""), ("", ", !tbaa !3", ", !tbaa !4")):
        before, after = (ALIASED.format(*promise, body) for body in (loads, knows))
        assert _run(verifier, before, after).grade is Grade.TESTED
    before, after = (ALIASED.format("", "", "", body) for body in (loads, knows))
    assert _run(verifier, before, after).grade is Grade.REFUTED


MODULE = """@t = private constant [2 x i32] [i32 1, i32 2]
define i32 @f(i32 %n) #0 {
  %r = call i32 @g(i32 %n), !range !0
  ret i32 %r
}
define internal i32 @g(i32 %n) {
  %p = getelementptr i32, ptr @t, i32 %n
  %v = load i32, ptr %p
  %r = call i32 @h(i32 %v)
  ret i32 %r
}
define internal i32 @h(i32 %n) {
  %r = call i32 @g(i32 %n)
  ret i32 %r
}
define i32 @k(i32 %n) {
  ret i32 %n
}
attributes #0 = { nounwind }
!0 = !{i32 0, i32 9}
"""


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("i32 2]", "i32 3]", {"f", "g", "h"}),
        ("i32 9}", "i32 8}", {"f"}),
        ("nounwind", "willreturn", {"f"}),
        ("@h(i32 %v)", "@h(i32 7)", {"f", "g", "h"}),
        ("ret i32 %n", "ret i32 1", {"k"}),
        ("#0", "#7", set()),
        ("!0", "!9", set()),
        ("@k", "@l", {"k"}),
    ],
)
def test_a_verdict_depends_on_what_a_function_refers_to(
    old: str, new: str, changed: set[str]
) -> None:
    before, after = cones(MODULE), cones(MODULE.replace(old, new))
    assert {name for name in before if before[name] != after.get(name)} == changed


def test_the_pages_of_a_run_are_clear_of_a_heap_wherever_linux_begins_it() -> None:
    """An interpreter at a fixed address has its heap within the first GiB behind it."""
    code = """
import ctypes
from planish.verify import calling, heap, native
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
first, step = 0x0100_0000, 0x0010_0000
for at in range(first, 0x4800_0000, step):  # what is taken already stays as it is
    libc.mmap(at, step, 0, calling._PAGE_FLAGS, -1, 0)
calling._map(native.ZONE, native.ZONE_SIZE)
calling._map(heap.START, heap.SIZE)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
