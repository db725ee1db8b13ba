"""`planish tune --goal time` on programs that have work to do, against -O2 and against -O3.

Sources and compilers are those of `bench/builds.py`. For each program and level: the build is
recorded, the search runs (each candidate in turn with the build's own program, a warm-up, at least
seven rounds), and the winner has to win again in a fresh comparison. Printed is that comparison:
the ratio of medians with its 95 % interval, or that nothing beat the noise. What is measured is
kept below --folder: run it again to go on.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import common
from build_projects import PROJECTS
from builds import tools

from planish.model.packages import Fetcher

_LEVELS = ("O2", "O3")


@dataclass(frozen=True)
class Case:
    """A program of `build_projects` and what it is to do; `big` is a text of a few megabytes."""

    name: str
    run: str


CASES = (
    Case("bzip2", "$PROGRAM -9 -c big > /dev/null"),
    Case("gzip", "$PROGRAM -9 -c big > /dev/null"),
    Case("xxhash", "for i in 1 2 3 4 5 6 7 8; do $PROGRAM -H1 big big big big; done > /dev/null"),
)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--folder", type=Path, default=Path("builds"))
    options.add_argument("--seconds", type=float, default=1e6, help="start nothing after so many")
    names = [case.name for case in CASES]
    options.add_argument("--programs", nargs="+", default=names, choices=names)
    given = options.parse_args()
    folder = given.folder.resolve()
    place = tools(folder / "tools")
    end = time.monotonic() + given.seconds
    rows = []
    for case in CASES:
        for level in _LEVELS if case.name in given.programs else ():
            kept = folder / f"{case.name}-{level}.json"
            if not kept.exists():
                if time.monotonic() > end:
                    print(f"{case.name} -{level}: out of time; run it again to go on")
                    continue
                kept.write_text(json.dumps(_race(case, level, folder, place)))
            rows.append(_row(case, level, json.loads(kept.read_text())))
    common.show(
        "Run time of the tuned program over the build's own (95 % interval)",
        ("program", "against", "kept", "best candidate of the search", "candidates"), rows,
    )  # fmt: skip


def _race(case: Case, level: str, folder: Path, place: Path) -> dict[str, Any]:
    project = next(p for p in PROJECTS if p.name == case.name)
    source = folder / "sources" / case.name
    Fetcher(folder / "apt").unpack(case.name, source)
    tree = folder / "times" / f"{case.name}-{level}"
    shutil.rmtree(tree, ignore_errors=True)
    shutil.copytree(source, tree, symlinks=True)
    text = b"".join(p.read_bytes() for p in sorted(source.rglob("*.[ch]")) if p.is_file())
    (tree / "big").write_bytes((text * (4_000_000 // len(text) + 1))[:4_000_000])
    environment = {
        **os.environ, "FLAGS": f"-{level} -g", "PLANISH_CC": str(place / "clang"),
        "PLANISH_CXX": str(place / "clang++"), "PLANISH_CACHE": str(folder / "cache"),
    }  # fmt: skip
    subprocess.run(["sh", "-ec", project.prepare], cwd=tree, env=environment, check=True)
    build = f"{project.configure}; {project.build}"
    _planish(["record", "--", "sh", "-ec", build], tree, environment)
    words = ["tune", "--goal", "time", "--json", "--program", project.program, "--run", case.run]
    found: dict[str, Any] = json.loads(_planish(words, tree, environment))
    return found


def _planish(words: list[str], tree: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "planish.entry", *words], cwd=tree, env=environment,
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    if done.returncode not in (0, 2) or (not done.stdout and words[0] == "tune"):
        raise SystemExit(f"planish {words[0]} fails in {tree}")
    return done.stdout


def _row(case: Case, level: str, found: dict[str, Any]) -> tuple[str, ...]:
    best = min(found["tried"], key=lambda each: float(each["ratio"][0]))
    kept = _interval(found["ratio"]) if found["ratio"] else "nothing: inside the noise"
    return case.name, f"-{level}", kept, _interval(best["ratio"]), str(len(found["tried"]))


def _interval(ratio: list[float]) -> str:
    return f"{ratio[0]:.3f} [{ratio[1]:.3f}, {ratio[2]:.3f}]"


if __name__ == "__main__":
    main()
