"""Real projects through record, tune and replay: what the linked programs weigh, and what it costs.

Sources are Debian's, built by their own build systems with Debian's flags at -Oz by the bundled
clang and linked by the bundled lld (`build_projects.py`). None of them was used to learn the
coreset (bench/corpus/projects.toml). Printed for each: allocated bytes of the linked program built
plainly, tuned unit by unit (replayed through `planish cc`, not only measured), with link-time
optimisation at -Oz (the linker's own), and tuned as one module; wall time of record and tuning,
and of the replayed build over the plain one, in turn and both of one job after another: the first
with nothing kept of earlier replays, and again; whether the project's own test suite passes on
both programs.

What is measured is kept below --folder, step by step: run it again to go on after --seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ziglang
from build_projects import PROJECTS, Project
from build_table import show

from planish.measure.sizes import allocated_bytes
from planish.model.packages import Fetcher

_FLAGS = "-Oz -g -fstack-protector-strong -Wformat -Wdate-time -D_FORTIFY_SOURCE=2"
# Of one length, since paths in assertions are part of a program.
_TREES = ("plain", "ltoOz", "tuned")


class OutOfTimeError(Exception):
    """The time is up; what was measured is kept."""


@dataclass
class Bench:
    """One project on its way.

    kept  what is known by now, as it stands in NAME.json
    """

    project: Project
    folder: Path
    tools: Path
    given: argparse.Namespace
    end: float
    kept: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> Path:
        return self.folder / f"{self.project.name}.json"

    def tree(self, name: str) -> Path:
        return self.folder / self.project.name / name

    def size(self, name: str) -> int:
        return allocated_bytes((self.tree(name) / self.project.program).read_bytes())

    def environment(self, name: str, keep: bool = True) -> dict[str, str]:
        """Of a tree: its compilers, and for the tuned one what stands behind them.

        keep  whether replays find what earlier ones have built
        """
        lto = "-lto" if name == "ltoOz" else ""
        clang = {"CC": str(self.tools / f"clang{lto}"), "CXX": str(self.tools / f"clang++{lto}")}
        if name == "tuned":
            behind = {f"PLANISH_{role}": words for role, words in clang.items()}
            shims = self.tree(name) / ".planish" / "shims"
            clang = {"CC": str(shims / "cc"), "CXX": str(shims / "c++"), **behind,
                     "PLANISH_CACHE": str(self.folder / "cache"),
                     "PLANISH_KEEP": "on" if keep else "off"}  # fmt: skip
        path = os.pathsep.join([str(self.tools), os.environ["PATH"]])
        return {**os.environ, **clang, "FLAGS": _FLAGS, "PATH": path}


def main() -> None:
    given = _arguments()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    place = tools(folder / "tools")
    end = time.monotonic() + given.seconds
    rows = []
    for project in PROJECTS:
        if project.name not in given.projects:
            continue
        bench = Bench(project, folder, place, given, end)
        if bench.file.exists():
            bench.kept = json.loads(bench.file.read_text())
        try:
            _measure(bench)
        except OutOfTimeError as late:
            print(f"{project.name}: out of time before {late}; run it again to go on", flush=True)
            break
        except subprocess.CalledProcessError as error:
            print(f"{project.name}: {error}\n{(error.output or '')[-1500:]}"
                  f"{(error.stderr or '')[-1500:]}", flush=True)  # fmt: skip
            continue
        rows.append((project, bench.kept))
    if not given.plain:
        show(rows)


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.HelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("builds"))
    options.add_argument("--budget", default="32", help="builds of each unit on average")
    options.add_argument("--whole-budget", default="48")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--repeats", type=int, default=5, help="of the plain build and the replay")
    options.add_argument("--seconds", type=float, default=1e6, help="stop after so many")
    options.add_argument("--plain", action="store_true", help="the plain build and its tests only")
    names = [project.name for project in PROJECTS]
    options.add_argument("--projects", nargs="+", default=names, choices=names)
    return options.parse_args()


def tools(folder: Path) -> Path:
    """clang and clang++ that link by lld, the same for link-time optimisation, and archivers."""
    folder.mkdir(parents=True, exist_ok=True)
    zig = Path(ziglang.__file__).parent / "zig"
    headers = f"-isystem {zig.parent}/lib/include"
    _script(folder / "ld.lld", f'exec {zig} ld.lld "$@"')
    # Of the compiler's version, since archives of bitcode are read for their symbols.
    for name in ("ar", "ranlib", "llvm-ar", "llvm-ranlib"):
        _script(folder / name, f'exec {zig} {name.removeprefix("llvm-")} "$@"')
    for name, driver in (("clang", "gcc"), ("clang++", "g++")):
        for suffix, more in (("", ""), ("-lto", " -flto")):
            _script(
                folder / f"{name}{suffix}",
                f"exec {zig} clang --driver-mode={driver} --target=x86_64-unknown-linux-gnu{more} "
                f'-B{folder} -fuse-ld=lld -Qunused-arguments "$@" {headers}',
            )
    return folder


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _measure(bench: Bench) -> None:
    steps: tuple[tuple[str, Callable[[Bench], dict[str, Any]]], ...] = (
        ("plain", _plain), ("lto", _lto), ("record", _record), ("tune", _tune), ("whole", _whole),
        ("replay", _replay), ("times", _times),
    )  # fmt: skip
    for name, step in steps[:1] if bench.given.plain else steps:
        if name in bench.kept.get("done", []):
            continue
        if time.monotonic() > bench.end:
            raise OutOfTimeError(name)
        known = step(bench)
        done = [*bench.kept.get("done", []), name]
        bench.kept = {**bench.kept, **known, "done": done}
        bench.file.write_text(json.dumps(bench.kept, indent=1))
        print(f"{bench.project.name} {name}: {json.dumps(known)}", flush=True)


def _plain(bench: Bench) -> dict[str, Any]:
    source = bench.folder / "sources" / bench.project.name
    version, _ = Fetcher(bench.folder / "apt").unpack(bench.project.name, source)
    for name in _TREES:
        shutil.rmtree(bench.tree(name), ignore_errors=True)
        shutil.copytree(source, bench.tree(name), symlinks=True)
        _sh(bench, name, bench.project.prepare)
    seconds = _build(bench, "plain")
    _sh(bench, "plain", bench.project.test)
    return {"version": version, "plain": bench.size("plain"), "plain_seconds": seconds}


def _lto(bench: Bench) -> dict[str, Any]:
    _build(bench, "ltoOz")
    return {"lto": bench.size("ltoOz")}


def _record(bench: Bench) -> dict[str, Any]:
    started = time.perf_counter()
    words = ["record", "--", "sh", "-ec", f"{bench.project.configure}; {bench.project.build}"]
    _planish(bench, words)
    seconds = time.perf_counter() - started
    if bench.size("tuned") != bench.kept["plain"]:
        print(f"{bench.project.name}: recorded {bench.size('tuned')} bytes, built plainly "
              f"{bench.kept['plain']}", flush=True)  # fmt: skip
    return {"record_seconds": seconds}


def _tune(bench: Bench) -> dict[str, Any]:
    """Stopped when the time is up, and gone on with by the next run: outcomes are in the store."""
    started = time.perf_counter()
    words = ["tune", "--json", "--budget", bench.given.budget, "-j", str(bench.given.jobs)]
    before = bench.kept.get("tune_seconds", 0.0)
    try:
        told = json.loads(_planish(bench, words))
    except OutOfTimeError:
        bench.kept["tune_seconds"] = before + time.perf_counter() - started
        bench.file.write_text(json.dumps(bench.kept, indent=1))
        raise
    return {
        "units": len(told["results"]) + len(told["skipped"]),
        "kept_units": len(told["results"]), "skipped": told["skipped"],
        "tune_seconds": before + time.perf_counter() - started,
    }  # fmt: skip


def _whole(bench: Bench) -> dict[str, Any]:
    given, program = bench.given, bench.project.program
    words = ["tune", "--json", "--whole-program", "--program", program, "-o", "whole.planish",
             "--budget", given.whole_budget, "-j", str(given.jobs)]  # fmt: skip
    started = time.perf_counter()
    told = json.loads(_planish(bench, words, code=(0, 2)))
    known = {"whole": told["best"], "our_lto": told["lto"], "whole_problem": told["problem"],
             "whole_seconds": time.perf_counter() - started, "whole_tests": "none"}  # fmt: skip
    if told["best"]:
        tree = bench.tree("tuned")
        shutil.copy2(tree / "whole.planish", tree / bench.project.program)
        known["whole_tests"] = _tests(bench)
    return known


def _replay(bench: Bench) -> dict[str, Any]:
    _sh(bench, "tuned", bench.project.clean)
    _sh(bench, "tuned", bench.project.build)
    return {"tuned": bench.size("tuned"), "tests": _tests(bench)}


def _times(bench: Bench) -> dict[str, Any]:
    """Of the plain build, a first replay, and one that finds what others have built."""
    rounds = []
    for _ in range(bench.given.repeats):
        times = []
        for name, keep in (("plain", True), ("tuned", False), ("tuned", True)):
            _sh(bench, name, bench.project.clean)
            started = time.perf_counter()
            _sh(bench, name, bench.project.build, keep)
            times.append(time.perf_counter() - started)
        rounds.append(times)
    return {"rounds": rounds}


def _build(bench: Bench, name: str) -> float:
    """Configure and build, as a recording does at once."""
    started = time.perf_counter()
    _sh(bench, name, bench.project.configure)
    _sh(bench, name, bench.project.build)
    return time.perf_counter() - started


def _tests(bench: Bench) -> str:
    try:
        _sh(bench, "tuned", bench.project.test)
    except subprocess.CalledProcessError as error:
        print(f"{bench.project.name}: {error.stdout[-800:]}{error.stderr[-800:]}", flush=True)
        return "FAIL"
    return "pass"


def _sh(bench: Bench, name: str, command: str, keep: bool = True) -> None:
    subprocess.run(
        ["sh", "-ec", command], cwd=bench.tree(name), env=bench.environment(name, keep),
        check=True, capture_output=True, text=True,
    )  # fmt: skip


def _planish(bench: Bench, words: list[str], code: tuple[int, ...] = (0,)) -> str:
    """In the tuned tree; interrupted, as a user would, when the time is up."""
    command = [sys.executable, "-m", "planish.entry", *words]
    with subprocess.Popen(
        command, cwd=bench.tree("tuned"), env=bench.environment("tuned"), text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    ) as running:  # fmt: skip
        try:
            said, errors = running.communicate(timeout=max(bench.end - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            running.send_signal(signal.SIGINT)
            running.communicate()
            raise OutOfTimeError(words[0]) from None
    if running.returncode not in code:
        raise subprocess.CalledProcessError(running.returncode, words[0], said, errors)
    return said


if __name__ == "__main__":
    main()
