"""Texts that users keep: a change of theirs shall be seen. `make golden` rewrites the files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from planish.base.records import Grade, Ledger, Verdict
from planish.llvm.recipe import Recipe
from planish.store.lockfile import Lockfile
from planish.tune.clang import replay_script
from planish.tune.result import Result

RESULT = Result(
    source=Path("src/codec.c"),
    goal="size",
    unit="bytes",
    target="x86_64-unknown-linux-gnu",
    baseline=4017,
    best=3520,
    recipe=Recipe(
        ("function(gvn-sink,simplifycfg)", "default<Oz>", "@frame-pointer=non-leaf", "@no-minsize"),
        ("-disable-lsr", "-regalloc=basic"),
        (("main", "@tune-cpu=k8"), ("odd name", "sroa,simplifycfg")),
    ),
    artefact=b"",
    ledger=Ledger(),
    verdict=Verdict(Grade.UNKNOWN),
    functions=24,
    hash="464edfee96a2714d6859743ad37b73f0",
    compiler="LLVM 22.1.8",
    flags=("-Iinclude", "-DNAME=\"x y\"", "-O2"),
)  # fmt: skip

TEXTS: dict[str, Callable[[], str]] = {
    "planish.lock": lambda: Lockfile().with_entry(RESULT.entry(Path())).render(),
    "replay.sh": lambda: replay_script(RESULT) + "\n",
    "recipe.txt": lambda: str(RESULT.recipe) + "\n",
}


@pytest.mark.parametrize("name", TEXTS)
def test_texts_are_as_they_were(name: str, golden: Callable[[str, str], None]) -> None:
    golden(name, TEXTS[name]())
