"""csmith's programs under random recipes, against -O0: what differs, and what became of it.

    python bench/csmith.py --programs 1000 --work FOLDER

Needs Debian's csmith, libcsmith-dev and gcc. The reference is gcc -O0 with UBSan in trap mode: a
program that traps, faults or takes too long is screened out. Each of the rest is compiled by
Planish's front end and built by random recipes of the vocabulary; output and exit code must be
those of the reference. A difference is bisected to the shortest part of the recipe that shows it
and kept with the program. Finished programs are appended to FOLDER/results.jsonl, so that a run
that was stopped goes on.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
import tempfile
from collections import Counter
from pathlib import Path

import common

from planish.llvm import frontend, vocabulary
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import FrontEnd, find_toolchain
from planish.proc.command import run_command
from planish.proc.pool import Call, Pool
from planish.search.protocol import Plan
from planish.tune.pass_space import PassSpace, to_recipe
from planish.tune.safety import culprits, without

_SHAPE = (
    "--max-funcs 5 --max-block-size 3 --max-block-depth 3 --max-expr-complexity 6 "
    "--no-packed-struct"
)
_INCLUDE = Path("/usr/include/csmith")
_SECONDS = 5.0
_SANITIZERS = "-fsanitize=undefined -fsanitize-undefined-trap-on-error"


def main() -> None:
    options = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--programs", type=int, default=1000)
    options.add_argument("--recipes", type=int, default=2, help="for each program")
    options.add_argument("--first", type=int, default=1, help="first seed of csmith")
    options.add_argument("--work", type=Path, default=Path("csmith-work"))
    given = options.parse_args()
    if not _INCLUDE.is_dir():
        sys.exit("csmith is missing; apt-get install csmith libcsmith-dev")
    given.work.mkdir(parents=True, exist_ok=True)
    log = given.work / "results.jsonl"
    rows = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    done = {row["seed"] for row in rows}
    toolchain = find_toolchain()
    front_end = toolchain.need_front_end()
    with Pool(HANDLER, str(toolchain.library), jobs=1, seconds=30) as pool, log.open("a") as out:
        words = vocabulary.load(toolchain.library, pool.info.version, "X86")
        space = PassSpace(Plan(()), (*words.module, *words.attributes), words.options)
        seed = given.first - 1
        while sum(row["outcome"] != "screened out" for row in rows) < given.programs:
            seed += 1
            if seed in done:
                continue
            row = {"seed": seed, **_program(seed, given, front_end, pool, space)}
            rows.append(row)
            out.write(json.dumps(row) + "\n")
            out.flush()
    _show(rows)


def _show(rows: list[dict[str, object]]) -> None:
    counts = Counter(str(row["outcome"]) for row in rows)
    recipes: Counter[str] = Counter()
    for row in rows:
        recipes.update(row.get("recipes", {}))  # type: ignore[arg-type]
    common.show("programs of csmith", ("outcome", "count"), counts.most_common())
    common.show("recipes", ("outcome", "count"), recipes.most_common())
    for row in rows:
        if row["outcome"] == "differs":
            print(f"seed {row['seed']}: {row['culprits']}: {row['words']}")


def _program(
    seed: int, given: argparse.Namespace, front_end: FrontEnd, pool: Pool, space: PassSpace
) -> dict[str, object]:
    with tempfile.TemporaryDirectory(prefix="planish-csmith-") as name:
        folder = Path(name)
        source = folder / "p.c"
        made = run_command(f"cd {folder} && csmith --seed {seed} {_SHAPE} -o {source}", seconds=30)
        if not made.ok:
            return {"outcome": "screened out", "why": "csmith"}
        flags = f"-w -I{_INCLUDE}"
        whole = run_command(f"gcc -O0 {flags} {_SANITIZERS} {source} -o {folder}/reference")
        if not whole.ok:
            return {"outcome": "screened out", "why": "gcc"}
        expected = _run(folder / "reference")
        if not expected.startswith("0 "):
            return {"outcome": "screened out", "why": expected[:20]}
        blob = f"csmith{seed}"
        pool.keep(blob, frontend.compile_to_bitcode(front_end, source, flags.split()))
        counts: Counter[str] = Counter()
        found: dict[str, object] = {}
        rng = random.Random(seed)
        for _ in range(given.recipes):
            recipe = _recipe(space, rng)
            outcome = _outcome(recipe, blob, folder, expected, pool)
            counts[outcome.split(":")[0]] += 1
            if outcome.startswith("differs"):
                found = _blame(recipe, blob, folder, expected, pool, front_end, source, flags)
                kept = given.work / f"{seed}.c"
                kept.write_bytes(source.read_bytes())
                found["recipe"] = str(recipe)
        pool.forget(blob)
        return {"outcome": "differs" if found else "same", "recipes": counts, **found}


def _recipe(space: PassSpace, rng: random.Random) -> Recipe:
    actions = space.actions(space.start)
    passes = [action for action in actions if not action.startswith("-")]
    options = [action for action in actions if action.startswith("-")]
    chosen = [rng.choice(passes) for _ in range(rng.randint(3, 25))]
    if rng.random() < 0.5:
        chosen.append("default<Oz>")
    some = tuple(rng.sample(options, k=rng.randint(0, 3)))
    return to_recipe(Plan((*chosen, *(some if space.legal(some) else ()))))


def _outcome(recipe: Recipe, blob: str, folder: Path, expected: str, pool: Pool) -> str:
    build = Build(Job(blob), recipe, keep=("obj",))
    [reply] = pool.run([Call(recipe.options, build, (blob,))])
    if reply.failure is not None:
        return f"not built ({reply.failure})"
    (folder / "p.o").write_bytes(reply.value.artefacts["obj"])
    linked = run_command(shlex.join(["gcc", str(folder / "p.o"), "-o", str(folder / "p")]))
    if not linked.ok:
        return "not linked"
    got = _run(folder / "p")
    return "same" if got == expected else f"differs: {got} instead of {expected}"


def _run(program: Path) -> str:
    done = run_command(shlex.quote(str(program)), seconds=_SECONDS)
    ending = "timeout" if done.timed_out else str(done.code)
    return f"{ending} {done.output.decode(errors='replace').strip()[-60:]}"


def _blame(
    recipe: Recipe, blob: str, folder: Path, expected: str, pool: Pool,
    front_end: FrontEnd, source: Path, flags: str,
) -> dict[str, object]:  # fmt: skip
    """Whether the front end alone explains it, and the elements without which all is well."""
    plain = _outcome(Recipe(), blob, folder, expected, pool)
    if plain != "same":
        return {"culprits": [], "words": f"with no pass at all: {plain}"}

    def passes(part: Recipe) -> bool:
        return not _outcome(part, blob, folder, expected, pool).startswith("differs")

    found, _ = culprits(recipe, passes)
    rest = without(recipe, found)
    return {
        "culprits": found,
        "words": _outcome(recipe, blob, folder, expected, pool)[:200],
        "rest": _outcome(rest, blob, folder, expected, pool)[:40],
    }


if __name__ == "__main__":
    main()
