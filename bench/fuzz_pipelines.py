"""10,000 random pipelines over real modules: what fails, how, and whether anything is left over.

Prints counts by kind of failure. Exits with 1 when the parent sees an exception, a call takes
longer than the limit, or a worker process is left behind.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator

import common

from planish.llvm import vocabulary
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_toolchain
from planish.model.corpus import read_bitcode
from planish.proc.pool import Call, Pool, Reply
from planish.search.protocol import Plan
from planish.tune.pass_space import PassSpace, to_recipe
from planish.tune.samples import draw

_SECONDS = 10.0
_GRACE = 2.0


def main() -> None:
    options = common.parser(__doc__ or "")
    options.add_argument("--pipelines", type=int, default=10_000)
    given = options.parse_args()
    modules = draw(given.corpus, "train", given.modules, given.seed, smallest=30, largest=1_500)
    blobs = [read_bitcode(given.corpus, module) for module in modules]
    toolchain = find_toolchain()
    counts: Counter[str] = Counter()
    examples: dict[str, str] = {}
    slowest = 0.0
    started = time.monotonic()
    with Pool(HANDLER, str(toolchain.library), jobs=given.jobs, seconds=_SECONDS) as pool:
        words = vocabulary.load(toolchain.library, pool.info.version, "X86")
        space = PassSpace(Plan(()), (*words.module, *words.attributes), words.options)
        calls = list(_calls(space, blobs, pool, given.pipelines, given.seed))
        last = time.monotonic()
        for index, reply in pool.stream(calls):
            now = time.monotonic()
            slowest, last = max(slowest, now - last), now
            kind = _kind(reply)
            counts[kind] += 1
            examples.setdefault(kind, f"{calls[index].request.recipe}: {reply.reason}"[:160])
    seconds = time.monotonic() - started
    rows = [(kind, n, f"{n / len(calls):.2%}") for kind, n in counts.most_common()]
    common.show(
        f"{len(calls):,} random pipelines, {seconds:.0f} s", ("outcome", "count", "share"), rows
    )
    for kind, example in examples.items():
        if kind != "built":
            print(f"first {kind}: {example!r}")
    orphans = _children()
    print(f"longest wait for a result: {slowest:.1f} s (limit {_SECONDS:.0f} s a build)")
    print(f"processes left over: {len(orphans)}")
    sys.exit(1 if orphans or slowest > _SECONDS + _GRACE else 0)


def _calls(
    space: PassSpace, blobs: list[bytes], pool: Pool, count: int, seed: int
) -> Iterator[Call]:
    rng = random.Random(seed)
    for at, data in enumerate(blobs):
        pool.keep(str(at), data)
    actions = space.actions(space.start)
    passes = [action for action in actions if not action.startswith("-")]
    options = [action for action in actions if action.startswith("-")]
    # Few option sets, as a search has them: each needs worker processes of its own.
    sets = [()] + [tuple(rng.sample(options, k=rng.randint(1, 5))) for _ in range(19)]
    sets = [chosen if space.legal(chosen) else () for chosen in sets]
    for _ in range(count):
        chosen = tuple(rng.choice(passes) for _ in range(rng.randint(1, 20)))
        recipe = to_recipe(Plan((*chosen, *rng.choice(sets))))
        at = rng.randrange(len(blobs))
        yield Call(recipe.options, Build(Job(str(at)), recipe), (str(at),))


def _kind(reply: Reply) -> str:
    return "built" if reply.failure is None else reply.failure.value


def _children() -> list[str]:
    done = subprocess.run(
        ["ps", "--ppid", str(os.getpid()), "-o", "pid=,args="], capture_output=True, text=True
    )
    return [line for line in done.stdout.splitlines() if "zygote" in line]


if __name__ == "__main__":
    main()
