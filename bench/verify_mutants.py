"""No mutant that execution shows to differ may be proved; most should be refuted.

    python bench/verify_mutants.py CORPUS --mutants 1000

Functions of the corpus are simplified by LLVM, then broken in one place: operands swapped, a
constant or a predicate changed, an operation replaced, a load moved across a store. Mutants that
running shows to differ on a defined input count.
"""

from __future__ import annotations

import argparse
import collections
import random
import re
import statistics
import time
from pathlib import Path

from planish.base.errors import PlanishError
from planish.base.records import Grade
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_library
from planish.proc.pool import Call, Pool
from planish.verify.verify import Limits, Verifier

_SIMPLIFY = "function(sroa,simplifycfg)"
_MOST_INSTRUCTIONS = 60
_EFFECT = re.compile(r"^\s*(%\S+ = )?(tail |musttail )?(call|invoke)", re.M)
_BINARY = re.compile(r"( = (?:sub|shl|lshr|ashr|udiv|sdiv|urem|srem)[a-z ]* i\d+) (\S+), (\S+)$")
_CONSTANT = re.compile(r"( = (?:add|sub|mul|and|or|xor|icmp)[a-z ]* i\d+ \S+,) (-?\d+)$")
_PREDICATES = {"slt": "sle", "ult": "ule", "eq": "ne", "ne": "eq", "sgt": "sge", "ugt": "ult"}
_OPERATIONS = {"add": "sub", "and": "or", "lshr": "ashr", "zext": "sext", "sext": "zext"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget", type=float, default=3600.0, help="Seconds for all of it.")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    files = sorted((given.corpus / "modules").glob("*.bc"))
    rng.shuffle(files)
    counts: collections.Counter[str] = collections.Counter()
    seconds: list[float] = []
    runs, full = Limits(3, given.seconds, proofs=False), Limits(3, given.seconds)
    started = time.monotonic()
    with (
        Pool(HANDLER, str(find_library()[0]), jobs=1, seconds=60) as pool,
        Verifier(seconds=given.seconds) as verifier,
    ):
        for path in files:
            if time.monotonic() - started > given.budget:
                break
            if sum(counts.values()) >= given.mutants:
                break
            for name, base, mutant, kind in _mutants(path, pool, rng):
                if sum(counts.values()) >= given.mutants:
                    break
                if time.monotonic() - started > given.budget:
                    break
                try:
                    [ran] = verifier.verify(base, mutant, limits=runs, functions=[name]).functions
                    if ran.grade is not Grade.REFUTED:
                        continue
                    [one] = verifier.verify(base, mutant, limits=full, functions=[name]).functions
                except PlanishError:  # the mutant is no valid IR
                    continue
                counts[one.grade.value] += 1
                seconds.append(one.seconds)
                if one.grade in (Grade.PROVED, Grade.PROVED_TO_BOUND):
                    print(f"PROVED WRONGLY: {path.name} {name} {kind}: {ran.input[:200]}")
    total = sum(counts.values())
    print(f"{total} mutants that running shows to differ")
    for grade, count in counts.most_common():
        print(f"  {grade}: {count} ({count / total:.1%})")
    if seconds:
        print(f"  median {statistics.median(seconds):.2f} s")


def _mutants(path: Path, pool: Pool, rng: random.Random) -> list[tuple[str, bytes, bytes, str]]:
    """(function, base module, mutant, what was done), a few for each module."""
    pool.keep(path.name, path.read_bytes())
    build = Build(Job(path.name, for_size=False), Recipe((_SIMPLIFY,)), emit=False, keep=("ll",))
    [reply] = pool.run([Call((), build, (path.name,))])
    if reply.failure is not None:
        return []
    text = reply.value.artefacts["ll"].decode(errors="surrogateescape")
    found = []
    for match in re.finditer(r"^define [^\n]*@([\w.]+)\([^\n]*\{\n(.*?)^\}", text, re.M | re.S):
        name, body = match[1], match[2]
        if body.count("\n") > _MOST_INSTRUCTIONS or _EFFECT.search(body):
            continue
        lines = body.split("\n")
        places = [at for at in range(len(lines)) if _broken(lines, at)]
        for at in rng.sample(places, min(4, len(places))):
            new, kind = _broken(lines, at) or ([], "")
            whole = text[: match.start(2)] + "\n".join(new) + text[match.end(2) :]
            found.append((name, text.encode(errors="surrogateescape"),
                          whole.encode(errors="surrogateescape"), kind))  # fmt: skip
    return found


def _broken(lines: list[str], at: int) -> tuple[list[str], str] | None:
    """The lines with one changed, and how; None where there is nothing to change."""
    line = lines[at]
    swapped = _BINARY.search(line)
    if swapped and swapped[2] != swapped[3]:
        new = f"{line[: swapped.start()]}{swapped[1]} {swapped[3]}, {swapped[2]}"
        return [*lines[:at], new, *lines[at + 1 :]], "operands swapped"
    constant = _CONSTANT.search(line)
    if constant:
        new = f"{line[: constant.start()]}{constant[1]} {int(constant[2]) + 1}"
        return [*lines[:at], new, *lines[at + 1 :]], "constant changed"
    compared = re.search(r" icmp (\w+) ", line)
    if compared and compared[1] in _PREDICATES:
        new = line.replace(compared[0], f" icmp {_PREDICATES[compared[1]]} ")
        return [*lines[:at], new, *lines[at + 1 :]], "predicate changed"
    operation = re.search(r" = (add|and|lshr|zext|sext) ", line)
    if operation and "nneg" not in line and " i1 " not in line:
        new = line.replace(operation[0], f" = {_OPERATIONS[operation[1]]} ")
        return [*lines[:at], new, *lines[at + 1 :]], "operation replaced"
    if " load " in line and at and lines[at - 1].lstrip().startswith("store "):
        return [*lines[: at - 1], line, lines[at - 1], *lines[at + 1 :]], "load moved up"
    return None


if __name__ == "__main__":
    main()
