"""Functions cut out of modules: one body each, valid, buildable, and the same wherever they come
from."""

from __future__ import annotations

from pathlib import Path

from planish.llvm.frontend import compile_to_bitcode
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Extract, Extracted, Inspect, Job
from planish.llvm.toolchain import FrontEnd
from planish.proc.pool import Call, Pool

_C = """
static int thrice(int x) { return 3 * x + 1; }
static const int primes[4] = {1, 2, 3, 5};
int counter;
int sum(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += thrice(a[i]); return s; }
int pick(int at) { counter++; return primes[at & 3] + thrice(at); }
"""
# Constructors of a class without bases: clang makes one an alias of the other.
_CPP = """
struct Counter { int n; Counter(int n); ~Counter(); int more(); };
Counter::Counter(int n) : n(n) {}
Counter::~Counter() { n = 0; }
int Counter::more() { Counter other(n); return ++n + other.n; }
"""


def _extract(pool: Pool, data: bytes, smallest: int = 1) -> dict[str, Extracted]:
    pool.keep("whole", data)
    [reply] = pool.run([Call((), Extract(Job("whole"), smallest), ("whole",))])
    assert reply.failure is None, reply.reason
    return {each.name: each for each in reply.value}


def _check(pool: Pool, found: dict[str, Extracted]) -> None:
    for name, each in found.items():
        pool.keep(name, each.bitcode)
        job = Job(name)
        [facts] = pool.run([Call((), Inspect(job), (name,))])
        assert facts.value.functions == (name,)
        assert facts.value.instructions == each.instructions
        assert facts.value.identity == each.identity
        [built] = pool.run([Call((), Build(job, Recipe(("default<Oz>",))), (name,))])
        assert built.failure is None and built.value.size > 0


def test_each_function_stands_alone(
    builder_pool: Pool, front_end: FrontEnd, tmp_path: Path
) -> None:
    (tmp_path / "a.c").write_text(_C)
    found = _extract(builder_pool, compile_to_bitcode(front_end, tmp_path / "a.c", ()))
    assert list(found) == ["sum", "thrice", "pick"]
    _check(builder_pool, found)
    assert b"primes" not in found["sum"].bitcode
    assert set(_extract(builder_pool, found["pick"].bitcode)) == {"pick"}


def test_aliases_become_what_they_stand_for(
    builder_pool: Pool, front_end: FrontEnd, tmp_path: Path
) -> None:
    (tmp_path / "a.cpp").write_text(_CPP)
    found = _extract(builder_pool, compile_to_bitcode(front_end, tmp_path / "a.cpp", ()))
    assert len(found) >= 3
    _check(builder_pool, found)


def test_equal_functions_of_two_modules_are_one_content(
    builder_pool: Pool, front_end: FrontEnd, tmp_path: Path
) -> None:
    (tmp_path / "a.c").write_text(_C)
    (tmp_path / "b.c").write_text("int other(int x) { return x; }\n" + _C)
    one, two = (
        _extract(builder_pool, compile_to_bitcode(front_end, tmp_path / name, ()))
        for name in ("a.c", "b.c")
    )
    assert one["thrice"].identity == two["thrice"].identity
    assert one["sum"].identity == two["sum"].identity
    assert "sum" not in _extract(builder_pool, one["thrice"].bitcode)


def test_small_functions_are_left_out(builder_pool: Pool, sample_bitcode: bytes) -> None:
    every = _extract(builder_pool, sample_bitcode)
    middle = sorted(each.instructions for each in every.values())[len(every) // 2]
    some = _extract(builder_pool, sample_bitcode, middle)
    assert {n: e for n, e in every.items() if e.instructions >= middle} == some
