"""Effects that stay in order: volatile and atomic accesses, assembly, exceptions, large copies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from planish.base.records import Grade
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(bound=2, seconds=20, run=False)
_HEAD = """declare void @g(ptr)
declare i32 @__gxx_personality_v0(...)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare noalias ptr @malloc(i64)
"""
_PERSONALITY = "personality ptr @__gxx_personality_v0"
_TWICE = ("  %v = load volatile i32, ptr %p\n  %w = load volatile i32, ptr %p\n"
          "  %r = add i32 %v, %w\n  ret i32 %r")  # fmt: skip
_STORE = "  store i32 1, ptr %p\n  {}\n  ret i32 0"
_THROWS = """  %s = alloca i32
  store i32 {before}, ptr %p
  invoke void @g(ptr %s) to label %ok unwind label %pad
ok:
  %v = load i32, ptr %s
  ret i32 %v
pad:
  %l = landingpad {{ ptr, i32 }} cleanup
  store i32 {after}, ptr %p
  resume {{ ptr, i32 }} %l"""
_COPY = """  %s = alloca [64 x i32]
  call void @llvm.memcpy.p0.p0.i64(ptr %s, ptr %p, i64 {}, i1 false)
  call void @g(ptr %s)
  ret i32 0"""

# (source, a target that breaks it, one that does not)
CASES = {
    "volatile loads are all done": (
        _TWICE,
        "  %v = load volatile i32, ptr %p\n  %r = add i32 %v, %v\n  ret i32 %r",
        _TWICE.replace("add i32 %v, %w", "add i32 %w, %v"),
    ),
    "nothing moves over a fence": (
        _STORE.format("fence seq_cst\n  store i32 2, ptr %p"),
        "  fence seq_cst\n  store i32 2, ptr %p\n  ret i32 0",
        _STORE.format("fence seq_cst\n  store i32 2, ptr %p\n  %x = load i32, ptr %p"),
    ),
    "an atomic operation keeps its ordering": (
        _STORE.format("%a = atomicrmw add ptr %p, i32 1 seq_cst"),
        _STORE.format("%a = atomicrmw add ptr %p, i32 1 monotonic"),
        "  %z = getelementptr i8, ptr %p, i64 0\n" + _STORE.format(
            "%a = atomicrmw add ptr %z, i32 1 seq_cst"),
    ),
    "assembly sees the memory": (
        _STORE.format('call void asm sideeffect "", "~{memory}"()'),
        '  call void asm sideeffect "", "~{memory}"()\n  store i32 1, ptr %p\n  ret i32 0',
        _STORE.format('%z = load i32, ptr %p\n  call void asm sideeffect "", "~{memory}"()'),
    ),
    "what an exception leaves in memory": (
        _THROWS.format(before=1, after=2),
        _THROWS.format(before=1, after=3),
        _THROWS.format(before=1, after=2).replace("cleanup\n", "cleanup\n  store i32 9, ptr %p\n"),
    ),
    "what a callee sees that may throw": (
        _THROWS.format(before=1, after=2),
        _THROWS.format(before=3, after=2),
        _THROWS.format(before=1, after=2).replace("ok:", "ok:\n  %u = load i32, ptr %s"),
    ),
    "a copy of many bytes": (
        _COPY.format("%n"),
        _COPY.format("%m"),
        "  %z = add i64 %n, 0\n" + _COPY.format("%z"),
    ),
    "a call that only allocates leaves memory alone": (
        "  store i32 1, ptr %p\n  %x = call ptr @malloc(i64 4) memory(inaccessiblemem: readwrite)"
        "\n  %v = load i32, ptr %p\n  store ptr %x, ptr %q\n  ret i32 %v",
        "  store i32 1, ptr %p\n  %x = call ptr @malloc(i64 8) memory(inaccessiblemem: readwrite)"
        "\n  store ptr %x, ptr %q\n  ret i32 1",
        "  store i32 1, ptr %p\n  %x = call ptr @malloc(i64 4) memory(inaccessiblemem: readwrite)"
        "\n  store ptr %x, ptr %q\n  ret i32 1",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(jobs=1, seconds=20) as made:
        yield made


def _module(body: str) -> bytes:
    head = "define i32 @f(ptr noundef %p, ptr noundef %q, i64 noundef %n, i64 noundef %m)"
    return f"{_HEAD}{head} {_PERSONALITY} {{\n{body}\n}}".encode()


@pytest.mark.parametrize("name", CASES)
def test_an_effect_that_changes_is_not_proved_and_its_twin_is(
    name: str, verifier: Verifier
) -> None:
    source, wrong, right = map(_module, CASES[name])
    [bad] = verifier.verify(source, wrong, limits=LIMITS).functions
    [good] = verifier.verify(source, right, limits=LIMITS).functions
    assert bad.grade is Grade.UNKNOWN, bad
    assert "not confirmed" in bad.reason  # a counterexample, rather than something unsupported
    assert good.grade is Grade.PROVED, good
