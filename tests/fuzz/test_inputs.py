"""Damaged inputs: an error of Planish's own or a result, never another exception or a hang."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from planish.base.errors import PlanishError
from planish.llvm.pipeline import Pipeline
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Build, Inspect, Job
from planish.proc.pool import Call, Pool
from planish.store.lockfile import parse

RECIPE = (
    "passes: function(sroa<modify-cfg>),default<Oz>,@no-minsize\noptions: -a -b=1\nfunction f: dce"
)
LOCK = f'''version = 1

[[task]]
source = "a.c"
goal = "size"
target = "x86_64-unknown-linux-gnu"
hash = "00"
compiler = "LLVM 22.1.8"
baseline = 10
result = 9
unit = "bytes"
verdict = "unknown"
recipe = """
{RECIPE}"""
'''


def damaged(data: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(4)
    at = rng.randrange(len(data))
    if kind == 0:
        return data[:at]
    if kind == 1:
        return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :]
    if kind == 2:
        return data[:at] + data[at : at + 9] * 3 + data[at:]
    return data[:at] + rng.randbytes(4) + data[at + 4 :]


@pytest.mark.parametrize(
    ("text", "read"),
    [(RECIPE, Recipe.parse), (LOCK, parse), (RECIPE[8:60], Pipeline.parse)],
)
def test_damaged_text(text: str, read: Callable[[str], object]) -> None:
    rng = random.Random(1)
    errors = 0
    for _ in range(400):
        try:
            read(damaged(text.encode(), rng).decode(errors="replace"))
        except PlanishError as error:
            errors += 1
            assert len(str(error).splitlines()) >= 1
    assert errors > 50


def test_damaged_bitcode(sample_bitcode: bytes, builder_pool: Pool) -> None:
    rng = random.Random(2)
    calls = []
    for at in range(120):
        key = f"damaged-{at}"
        builder_pool.keep(key, damaged(sample_bitcode, rng))
        calls.append(Call((), Inspect(Job(key)), (key,)))
        calls.append(Call((), Build(Job(key), Recipe(("default<O1>",))), (key,)))
    replies = builder_pool.run(calls)
    assert len(replies) == len(calls)
    assert any(reply.failure is not None for reply in replies)
    for at in range(120):
        builder_pool.forget(f"damaged-{at}")


def test_a_folder_or_an_object_is_no_module(tmp_path: Path, builder_pool: Pool) -> None:
    for data in (b"\x7fELF" + bytes(60), b"BC\xc0\xde", b"define"):
        builder_pool.keep("junk", data)
        # Another flavour for each, so that no worker keeps an earlier one's data.
        [reply] = builder_pool.run([Call((), Inspect(Job("junk")), ("junk",))])
        assert reply.failure is not None
        builder_pool.close()
