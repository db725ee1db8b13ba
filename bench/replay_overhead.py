"""What a replay costs over a plain compile: `planish opt --replay` and `planish cc` against clang.

Two cases, each interleaved and run as a user would: one file alone, where starting Python and
loading libLLVM weigh most; and all files of a project in one command, against the same files
compiled by clang, as many at once. Prints the ratio of wall times with its quartiles.

"first" is a replay with nothing kept of earlier ones; "again" finds the builds that an earlier
replay on this machine kept, as every later build of unchanged files does. clang has no such store.
"""

from __future__ import annotations

import argparse
import os
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
    program = str(Path(sys.executable).with_name("planish"))
    rows = []
    for name, sources, flags in _cases(given):
        with tempfile.TemporaryDirectory() as folder:
            lock = f"{folder}/planish.lock"
            objects = [f"{folder}/{at}.o" for at in range(len(sources))]
            words = [
                [*flags, str(path), "-o", output]
                for path, output in zip(sources, objects, strict=True)
            ]
            (Path(folder) / "out").mkdir()
            opt = [program, "opt", *map(str, sources), "-o", f"{folder}/out/", "--lock", lock]
            opt += ["-j", str(given.jobs)]
            _run([*opt, "--budget", "2", "--", *flags])
            plain = [[*clang, *rest] for rest in words]
            real = {"PLANISH_CC": shlex.join([*front_end.command, *target, *front_end.headers("")])}
            ours = {
                "opt --replay, first": ([[*opt, "--replay", "--no-store", "--", *flags]], {}),
                "opt --replay, again": ([[*opt, "--replay", "--", *flags]], {}),
                "cc, first": (
                    [[program, "cc", "-Oz", "-c", *rest] for rest in words],
                    {**real, "PLANISH_LOCK": lock, "PLANISH_KEEP": "off"},
                ),
                "cc, again": (
                    [[program, "cc", "-Oz", "-c", *rest] for rest in words],
                    {**real, "PLANISH_LOCK": lock},
                ),
                "cc, handed on": (
                    [[program, "cc", "-Oz", "-c", *rest] for rest in words],
                    {**real, "PLANISH_LOCK": os.devnull},
                ),
            }
            times: dict[str, list[tuple[float, float]]] = {how: [] for how in ours}
            for _ in range(given.repeats):
                for how, (commands, environment) in ours.items():
                    before = _time(plain, given.jobs, {})
                    times[how].append((before, _time(commands, given.jobs, environment)))
        for how, pairs in times.items():
            low, middle, high = statistics.quantiles([b / a for a, b in pairs], n=4)
            rows.append(
                (
                    name,
                    len(sources),
                    how,
                    f"{statistics.median(a for a, _ in pairs):.2f} s",
                    f"{statistics.median(b for _, b in pairs):.2f} s",
                    f"{middle:.2f}x [{low:.2f}, {high:.2f}]",
                )
            )
    columns = ("case", "files", "planish", "clang -Oz", "time", "ratio [quartiles]")
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


def _time(commands: list[list[str]], jobs: int, environment: dict[str, str]) -> float:
    started = time.perf_counter()
    with ThreadPoolExecutor(jobs) as threads:
        list(threads.map(lambda words: _run(words, environment), commands))
    return time.perf_counter() - started


def _run(command: list[str], environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **(environment or {})}
    )
    if done.returncode:
        sys.exit(f"{shlex.join(command[:6])} ... fails:\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    main()
