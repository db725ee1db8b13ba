"""Builds a second: in process, against spawning `opt` for each, by module size.

Both run `default<Oz>` on the same modules, interleaved, one at a time, and write bitcode; `opt` is
the one that came with libLLVM. Prints the median ratio with its quartiles.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job
from planish.llvm.toolchain import find_toolchain
from planish.model.corpus import read_bitcode
from planish.proc.pool import Call, Pool
from planish.tune.samples import draw

_CLASSES = ((1, 100), (100, 500), (500, 2_000), (2_000, 10_000))
_EACH = 6
_REPEATS = 5


def main() -> None:
    given = common.parser(__doc__ or "").parse_args()
    toolchain = find_toolchain()
    opt = toolchain.library.parent.parent / "bin" / "opt"
    if not opt.exists():
        sys.exit(f"there is no {opt}: this bench compares with the opt beside libLLVM")
    rows = []
    with (
        Pool(HANDLER, str(toolchain.library)) as pool,
        tempfile.TemporaryDirectory() as folder,
    ):
        for low, high in _CLASSES:
            modules = draw(given.corpus, "train", _EACH, given.seed, smallest=low, largest=high)
            ours, theirs, ratios = [], [], []
            for module in modules:
                path = Path(folder) / "in.bc"
                data = read_bitcode(given.corpus, module)
                path.write_bytes(data)
                pool.keep(module.sha, data)
                for repeat in range(_REPEATS + 1):
                    spawned = _spawn(opt, path)
                    in_process = _build(pool, module.sha)
                    if repeat:  # the first pair warms up
                        theirs.append(spawned)
                        ours.append(in_process)
                        ratios.append(spawned / in_process)
            quartiles = statistics.quantiles(ratios, n=4)
            rows.append(
                (
                    f"{low:,} to {high:,}",
                    f"{1 / statistics.median(theirs):.1f}",
                    f"{1 / statistics.median(ours):.1f}",
                    "{1:.1f}x [{0:.1f}, {2:.1f}]".format(*quartiles),
                )
            )
    columns = ("IR instructions", "spawning opt", "in process", "ratio [quartiles]")
    common.show("Builds a second, default<Oz> to bitcode, one core", columns, rows)


def _spawn(opt: Path, path: Path) -> float:
    started = time.perf_counter()
    subprocess.run([opt, "-passes=default<Oz>", path, "-o", path.with_suffix(".out")], check=True)
    return time.perf_counter() - started


def _build(pool: Pool, key: str) -> float:
    build = Build(Job(key), Recipe(("default<Oz>",)), emit=False)
    started = time.perf_counter()
    pool.run([Call((), build, (key,))])
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
