"""What a replay costs over a plain compile: `planish opt --replay` against `clang -Oz -c`.

Two cases, each interleaved and run as a user would: one file alone, where starting Python and
loading libLLVM weigh most; and all files of a project in one command, against the same files
compiled by clang, as many at once. Prints the ratio of wall times with its quartiles.
"""

from __future__ import annotations

import argparse
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import common

from planish.llvm.toolchain import find_toolchain
from planish.model.corpus import flags_below, load_corpus, source_folder

_EXAMPLE = Path(__file__).parent.parent / "examples" / "lzss.c"


def main() -> None:
    given = _arguments()
    front_end = find_toolchain().need_front_end()
    target = [f"--target={front_end.default_triple()}"] if front_end.default_triple() else []
    clang = [*front_end.command, *target, *front_end.headers(""), "-Oz", "-c"]
    rows = []
    for name, sources, flags in _cases(given):
        with tempfile.TemporaryDirectory() as folder:
            plain = [
                [*clang, *flags, str(path), "-o", f"{folder}/{at}.o"]
                for at, path in enumerate(sources)
            ]
            planish = [str(Path(sys.executable).with_name("planish")), "opt", *map(str, sources)]
            planish += ["-o", f"{folder}/out/", "--lock", f"{folder}/planish.lock"]
            planish += ["-j", str(given.jobs)]
            (Path(folder) / "out").mkdir()
            _run([*planish, "--budget", "2", "--", *flags])
            pairs = []
            for _ in range(given.repeats):
                before = _time_plain(plain, given.jobs)
                started = time.perf_counter()
                _run([*planish, "--replay", "--", *flags])
                pairs.append((before, time.perf_counter() - started))
        low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
        rows.append(
            (
                name,
                len(sources),
                f"{statistics.median(a for a, _ in pairs):.2f} s",
                f"{statistics.median(b for _, b in pairs):.2f} s",
                f"{middle:.2f}x [{low:.2f}, {high:.2f}]",
            )
        )
    columns = ("case", "files", "clang -Oz", "replay", "ratio [quartiles]")
    common.show(f"Replay over a plain compile, {given.jobs} jobs", columns, rows)


def _arguments() -> argparse.Namespace:
    options = common.parser(__doc__ or "")
    options.add_argument("--project", default="lua5.4", help="project of the corpus")
    options.add_argument("--repeats", type=int, default=7)
    return options.parse_args()


def _cases(given: argparse.Namespace) -> list[tuple[str, list[Path], list[str]]]:
    cases: list[tuple[str, list[Path], list[str]]] = [("one small file", [_EXAMPLE], [])]
    if (given.corpus / "index.json").exists():
        root = source_folder(given.corpus, given.project)
        chosen = [m for m in load_corpus(given.corpus).modules if m.project == given.project]
        flags = flags_below(root, chosen[0].flags)
        cases.append((given.project, [root / module.source for module in chosen], flags))
        largest = max(chosen, key=lambda module: module.instructions)
        cases.append((f"{Path(largest.source).name} alone", [root / largest.source], flags))
    return cases


def _time_plain(commands: list[list[str]], jobs: int) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(_run, commands))
    return time.perf_counter() - started


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{shlex.join(command[:6])} ... fails:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
