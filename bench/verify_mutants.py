"""No mutant that execution shows to differ may be proved; most should be refuted.

    python bench/verify_mutants.py CORPUS --mutants 1000 --work FOLDER

Functions of the corpus are simplified by LLVM, freed of all that makes poison (flags, metadata,
alignments) and broken in one place: operands swapped, a constant, a predicate or an operation
changed, a load moved across a store, a store dropped, a flag (nsw, nuw, nneg, samesign) taken for
granted that was not there, by the rewrite that it allows: an extension distributed over the
arithmetic, zext made sext, an unsigned comparison signed. What counts as a mutant that differs is
judged apart from the verifier: a C program, compiled by gcc with inputs of its own, calls all
versions and compares results and memory. Finished functions are appended to FOLDER/mutants.jsonl,
so that a run that was stopped goes on.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import random
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

from mutant_runs import C_TYPES, module_of, that_differ

from planish.base.records import Grade
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_library
from planish.proc.pool import Call, Pool
from planish.verify.verify import Limits, Verifier

_SIMPLIFY = "function(sroa,simplifycfg)"
_MOST_INSTRUCTIONS = 120
_MOST_OF_ONE = 32  # mutants of one function
_MOST_FUNCTIONS = 12  # of one module
_FLAGS = re.compile(r" (nsw|nuw|nusw|inbounds|exact|disjoint|nneg|samesign|noalias|nonnull|noundef"
                    r"|writeonly|readonly|readnone|signext|zeroext|dso_local|internal"
                    r"|captures\([^)]*\)|dereferenceable(_or_null)?\(\d+\)"
                    r"|range\([^)]*\))")  # fmt: skip
_METADATA = re.compile(r", ![\w.]+ !\d+")
_ALIGN = re.compile(r", align \d+$", re.M)
# What is outside of a function alone, undefined in ways that running hides, or no plain type.
_LEFT_OUT = re.compile(r"@|call|invoke|alloca|undef|poison|freeze|unreachable|float|double|half"
                       r"|x86_|<|\[|\{ |div|rem|volatile|atomic| (shl|lshr|ashr) \S+ \S+, %"
                       r"|ptrtoint|inttoptr|i128")  # fmt: skip
_HEAD = re.compile(r"^define (.*?)@([\w.]+)\(([^)]*)\)[^{]*\{$")
_BINARY = re.compile(r"( = (?:sub|shl|lshr|ashr) i\d+) (\S+), (\S+)$")
_CONSTANT = re.compile(r"( = (?:add|sub|mul|and|or|xor|icmp)[a-z ]* i\d+ \S+,) (-?\d+)$")
_PREDICATES = {"slt": "sle", "ult": "ule", "eq": "ne", "ne": "eq", "sgt": "sge", "ugt": "ult"}
_OPERATIONS = {"add": "sub", "and": "or", "lshr": "ashr", "sext": "zext"}
_EXTENDED = re.compile(r"(%\S+) = ([sz])ext (i\d+) (%\S+) to (i\d+)$")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--mutants", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--work", type=Path, default=Path("verify-work"))
    given = parser.parse_args()
    given.work.mkdir(parents=True, exist_ok=True)
    files = sorted((given.corpus / "modules").glob("*.bc"))
    random.Random(given.seed).shuffle(files)
    log = given.work / "mutants.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {row["module"] for row in rows}
    limits = Limits(3, given.seconds)
    with (
        Pool(HANDLER, str(find_library()[0]), jobs=1, seconds=60) as pool,
        Verifier(jobs=given.jobs, seconds=given.seconds) as verifier,
        log.open("a") as out,
    ):
        for path in files:
            if sum(1 for row in rows if row["grade"]) >= given.mutants:
                break
            if path.name in done:
                continue
            new = [{"module": path.name, "function": "", "kind": "", "grade": "", "seconds": 0.0}]
            for name, base, mutants in _functions(path, pool, random.Random(path.name)):
                differing = that_differ(base, [text for text, _ in mutants], pool)
                if not differing:
                    continue
                kinds = [mutants[at][1] for at in differing]
                before = module_of({f"f{at}": base for at in range(len(differing))})
                after = module_of({f"f{at}": mutants[i][0] for at, i in enumerate(differing)})
                report = verifier.verify(before.encode(), after.encode(), limits=limits)
                for one, kind in zip(report.functions, kinds, strict=True):
                    new.append({"module": path.name, "function": name, "kind": kind,
                                "grade": one.grade.value, "seconds": round(one.seconds, 3),
                                "reason": one.reason[:200]})  # fmt: skip
                    if one.grade in (Grade.PROVED, Grade.PROVED_TO_BOUND):
                        (given.work / f"proved-{path.stem}-{name}.ll").write_text(before + after)
            rows += new
            out.write("".join(json.dumps(row) + "\n" for row in new))
            out.flush()
    _print([row for row in rows if row["grade"]])


def _print(rows: list[dict[str, object]]) -> None:
    total = len(rows)
    functions = {(row["module"], row["function"]) for row in rows}
    print(f"{total} mutants of {len(functions)} functions, which running shows to differ")
    for grade, count in collections.Counter(row["grade"] for row in rows).most_common():
        print(f"  {grade}: {count} ({count / total:.1%})")
    for kind, count in collections.Counter(row["kind"] for row in rows).most_common():
        refuted = sum(1 for r in rows if r["kind"] == kind and r["grade"] == Grade.REFUTED.value)
        print(f"  {kind}: {count}, refuted {refuted / count:.0%}")
    if rows:
        print(f"  median {statistics.median(float(str(row['seconds'])) for row in rows):.2f} s")
    for row in rows:
        if row["grade"] in (Grade.PROVED.value, Grade.PROVED_TO_BOUND.value):
            print(f"PROVED, THOUGH RUNNING DIFFERS: {row}")


def _functions(
    path: Path, pool: Pool, rng: random.Random
) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """(name, plain text of the function, [(mutant, what was done)]), a few for each module."""
    pool.keep(path.name, path.read_bytes())
    build = Build(Job(path.name, for_size=False), Recipe((_SIMPLIFY,)), emit=False, keep=("ll",))
    [reply] = pool.run([Call((), build, (path.name,))])
    pool.forget(path.name)
    if reply.failure is not None:
        return []
    text = reply.value.artefacts["ll"].decode(errors="replace")
    found = []
    for match in re.finditer(r"^define [^\n]*\{\n.*?^\}", text, re.M | re.S):
        whole = _ALIGN.sub(", align 1", _METADATA.sub("", _FLAGS.sub("", match[0])))
        lines = [line.partition(" ; preds")[0].rstrip() for line in whole.split("\n")]
        head = _HEAD.match(lines[0])
        if len(lines) > _MOST_INSTRUCTIONS or not head or _LEFT_OUT.search("\n".join(lines[1:])):
            continue
        kinds = [kind.split()[0] for kind in head[3].split(", ") if kind]
        result = head[1].split()[-1]
        if result not in C_TYPES or len(kinds) > 6 or any(kind not in C_TYPES for kind in kinds):
            continue
        lines[0] = f"define {result} @NAME({head[3]}) {{"
        mutants = _mutants(lines, rng)
        if mutants:
            found.append((head[2], "\n".join(lines), mutants))
    return rng.sample(found, min(_MOST_FUNCTIONS, len(found)))


def _mutants(lines: list[str], rng: random.Random) -> list[tuple[str, str]]:
    """(mutant, what was done), the kinds in turn, each at places that chance picks."""
    kinds: dict[str, list[str]] = {}
    for at in range(1, len(lines)):
        for new, kind in _broken(lines, at):
            kinds.setdefault(kind, []).append("\n".join(new))
    for some in kinds.values():
        rng.shuffle(some)
    turns = itertools.zip_longest(
        *([(text, kind) for text in some] for kind, some in kinds.items())
    )
    return [one for turn in turns for one in turn if one is not None][:_MOST_OF_ONE]


def _broken(lines: list[str], at: int) -> Iterator[tuple[list[str], str]]:
    """The lines with one changed, and how, for each way there is."""
    for new, kind in _changed(lines[at]):
        yield [*lines[:at], *([new] if new else []), *lines[at + 1 :]], kind
    for new, flag in _claimed(lines, at):
        yield [*lines[:at], *new, *lines[at + 1 :]], f"{flag} taken for granted"
    if lines[at].lstrip().startswith("store "):
        moved = _moved(lines, at)
        if moved:
            yield moved, "load moved across a store"


def _changed(line: str) -> Iterator[tuple[str, str]]:
    """What can be put in place of a line."""
    swapped = _BINARY.search(line)
    if swapped and swapped[2] != swapped[3]:
        yield (
            f"{line[: swapped.start()]}{swapped[1]} {swapped[3]}, {swapped[2]}",
            "operands swapped",
        )
    constant = _CONSTANT.search(line)
    if constant:
        number = int(constant[2]) + 1
        yield f"{line[: constant.start()]}{constant[1]} {number}", "constant changed"
    compared = re.search(r" icmp (\w+) ", line)
    if compared and compared[1] in _PREDICATES:
        new = line.replace(compared[0], f" icmp {_PREDICATES[compared[1]]} ")
        yield new, "predicate changed"
    operation = re.search(r" = (add|and|lshr|sext) ", line)
    if operation and " i1 " not in line:
        new = line.replace(operation[0], f" = {_OPERATIONS[operation[1]]} ")
        yield new, "operation replaced"
    if line.lstrip().startswith("store "):
        yield "", "store dropped"


def _claimed(lines: list[str], at: int) -> Iterator[tuple[list[str], str]]:
    """What may stand in place of a line if an instruction had a flag that it has not."""
    line = lines[at]
    compared = re.search(r" icmp ([su])(?=[lg])", line)
    if compared:
        other = "u" if compared[1] == "s" else "s"
        yield [line.replace(compared[0], f" icmp {other}")], "samesign"
    extended = _EXTENDED.search(line)
    if not extended or extended[3] == "i1":
        return
    result, sign, narrow, value, wide = extended.groups()
    if sign == "z":
        yield [line.replace(" = zext ", " = sext ")], "nneg"
    made = re.compile(rf"{value} = (add|sub|mul) {narrow} (\S+), (\S+)$")
    match = next((found for one in lines[:at] if (found := made.search(one))), None)
    if match:
        parts = [f"  %wide.{i} = {sign}ext {narrow} {match[2 + i]} to {wide}" for i in range(2)]
        yield ([*parts, f"  {result} = {match[1]} {wide} %wide.0, %wide.1"],
               "nsw" if sign == "s" else "nuw")  # fmt: skip


def _moved(lines: list[str], at: int) -> list[str]:
    """The store below the next load of its block; nothing where there is none."""
    for there in range(at + 1, len(lines)):
        line = lines[there]
        if " = load " in line:
            return [*lines[:at], *lines[at + 1 : there + 1], lines[at], *lines[there + 1 :]]
        if line.lstrip().startswith(("store ", "br ", "ret ", "switch ")) or not line:
            break
    return []


if __name__ == "__main__":
    main()
