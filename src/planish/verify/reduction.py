"""A recipe that breaks a function, made small: the shortest pass list, and the smallest module."""

from __future__ import annotations

import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from planish.base.errors import RecipeError
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_library
from planish.proc.command import run_command
from planish.proc.pool import Call, Pool

_BUILD_SECONDS = 60.0
Passes = tuple[str, ...]


def run_passes(data: bytes, passes: Passes, pool: Pool) -> bytes:
    """A module after a pipeline, as bitcode; raises RecipeError where LLVM fails on it."""
    pool.keep("module", data)
    job = Job("module", for_size=False)
    call = Call((), Build(job, Recipe(passes), emit=False, keep=("bc",)), ("module",))
    [reply] = pool.run([call])
    if reply.failure is not None:
        raise RecipeError(f"the passes fail: {reply.failure}: {reply.reason.splitlines()[0]}")
    return bytes(reply.value.artefacts["bc"])


def open_pool() -> Pool:
    """The worker that runs pipelines."""
    return Pool(HANDLER, str(find_library()[0]), jobs=1, seconds=_BUILD_SECONDS)


def shortest(passes: Passes, breaks: Callable[[Passes], bool]) -> tuple[str, Passes]:
    """The first pass that breaks, and a list from which no single pass can be dropped.

    breaks  whether these passes, in this order, give what is refuted; the whole list does
    """
    good, bad = 0, len(passes)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (good, middle) if breaks(passes[:middle]) else (middle, bad)
    kept = passes[:bad]
    at = len(kept) - 2
    while at >= 0:
        fewer = kept[:at] + kept[at + 1 :]
        if breaks(fewer):
            kept = fewer
        at -= 1
    return passes[bad - 1], kept


def find_reducer() -> str | None:
    """LLVM's own reducer of the version of libLLVM, where there is one."""
    beside = find_library()[0].parents[1] / "bin" / "llvm-reduce"
    return str(beside) if beside.is_file() else None


def smaller(data: bytes, test: Sequence[str], *, seconds: float) -> bytes:
    """A smaller module on which `test FILE` still ends with 0, as textual IR.

    data     the module, bitcode or text
    seconds  after which what has been reached is taken
    The module itself where there is no llvm-reduce or nothing was gained.
    """
    reducer = find_reducer()
    if reducer is None:
        return data
    with tempfile.TemporaryDirectory(prefix="planish-reduce-") as name:
        folder = Path(name)
        (folder / "module.bc").write_bytes(data)
        script = folder / "test.sh"
        best = folder / "best"
        # What is interesting is kept at once, so that a stop loses nothing.
        keep = f'cp "$1" {shlex.quote(str(best))}'
        script.write_text(f'#!/bin/sh\n{shlex.join(test)} "$1" >/dev/null 2>&1 && {keep}\n')
        script.chmod(0o755)
        module, out = str(folder / "module.bc"), str(folder / "out.ll")
        words = [reducer, f"--test={script}", module, "-o", out]
        run_command(f"cd {shlex.quote(name)} && {shlex.join(words)}", seconds=seconds)
        for path in (folder / "out.ll", best):
            if path.is_file():
                return path.read_bytes()
    return data


def is_refuted(passes: Passes, function: str) -> list[str]:
    """The command that ends with 0 for a module on which the passes break the function."""
    planish = [sys.executable, "-m", "planish.entry", "verify"]
    inner = shlex.join([*planish, "--no-store", "--seconds", "5", "--passes", ",".join(passes),
                        "-f", function])  # fmt: skip
    return ["/bin/sh", "-c", f'{inner} "$1"; test $? -eq 1', "sh"]
