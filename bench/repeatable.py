"""Whether every element of the vocabulary builds the same bytes in every process.

A lockfile promises them. Each element is built alone (before -Oz, as a suffix of every function,
or as an option) over real modules, in several fresh processes with one order of work and as many
with another. Prints the elements whose objects differ; exits with 1 if there is one.
"""

from __future__ import annotations

import random
import sys
from collections import defaultdict

import common

from planish.base.hashing import digest
from planish.llvm import vocabulary
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_toolchain
from planish.model.corpus import read_bitcode
from planish.proc.pool import Call, Pool
from planish.tune.samples import draw

_OZ = "default<Oz>"
_SECONDS = 60.0


def main() -> None:
    options = common.parser(__doc__ or "")
    options.add_argument("--processes", type=int, default=3, help="for each order of work")
    options.add_argument("--arch", default="X86")
    given = options.parse_args()
    modules = draw(given.corpus, "train", given.modules, given.seed, smallest=200, largest=6_000)
    toolchain = find_toolchain()
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    with Pool(HANDLER, str(toolchain.library), jobs=given.jobs, seconds=_SECONDS) as pool:
        words = vocabulary.load(toolchain.library, pool.info.version, given.arch)
        work = []
        for module in modules:
            pool.keep(module.source, read_bitcode(given.corpus, module))
            work += [(module.source, *item) for item in _builds(words)]
        for turn in range(2 * given.processes):
            if turn == given.processes:
                random.Random(given.seed).shuffle(work)
            pool.close()
            calls = [
                Call(recipe.options, Build(Job(m), recipe, everywhere, keep=("obj",)), (m,))
                for m, _, recipe, everywhere in work
            ]
            for index, reply in pool.stream(calls):
                name, word = work[index][:2]
                code = reply.value.artefacts["obj"] if reply.failure is None else b"failed"
                found[word, name].add(digest(code))
            print(f"{turn + 1} of {2 * given.processes}: {len(work):,} builds", flush=True)
    differ: dict[str, list[str]] = defaultdict(list)
    for (word, name), codes in found.items():
        if len(codes) > 1:
            differ[word].append(f"{name} ({len(codes)} ways)")
    rows = [(word, len(names), names[0]) for word, names in sorted(differ.items())]
    count = len({word for word, _ in found})
    common.show(
        f"{count} elements over {len(modules)} modules: {len(rows)} build other bytes in another "
        "process", ("element", "modules", "first"), rows,
    )  # fmt: skip
    sys.exit(1 if rows else 0)


def _builds(words: vocabulary.Vocabulary) -> list[tuple[str, Recipe, str]]:
    """Each element's name, a recipe that has it, and what every function gets behind that."""
    found = [(word, Recipe((word, _OZ)), "") for word in words.module]
    found += [(f"suffix {word}", Recipe((_OZ,)), word) for word in words.function]
    found += [(word, Recipe((_OZ, word)), "") for word in words.attributes]
    return found + [(word, Recipe((_OZ,), (word,)), "") for word in words.options]


if __name__ == "__main__":
    main()
