"""Real projects through record, tune and replay: what the linked programs weigh, and what it costs.

Sources are Debian's, built by their own build systems with Debian's flags at -Oz by the bundled
clang and linked by the bundled lld, in copies below --folder. None of them was used to learn the
coreset (bench/corpus/projects.toml). Printed for each: allocated bytes of the linked program built
plainly, tuned unit by unit (replayed through `planish cc`, not only measured), with link-time
optimisation at -Oz (the linker's own), and tuned as one module; wall time of record and replay over
the plain build, both of one job after another; whether the project's tests pass on both programs.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import common
import ziglang

from planish.measure.sizes import allocated_bytes
from planish.model.packages import Fetcher

_FLAGS = "-Oz -g -fstack-protector-strong -Wformat -D_FORTIFY_SOURCE=2"


@dataclass(frozen=True)
class Project:
    """How a project is built: $CC and $FLAGS are given; tests run with $PROGRAM.

    prepare  run once, untimed and unrecorded (patches, generated files)
    """

    name: str
    system: str
    build: str
    program: str
    test: str
    clean: str = "make -s clean"
    prepare: str = "true"


_LUA = (
    "cd src && for f in l[a-tv-z]*.c lua.c lundump.c lutf8lib.c; do case $f in lua.c|luac.c) ;; *) "
    'echo "$f"; esac; done | sort -u > .list && '
    '$CC $FLAGS -DLUA_USE_LINUX -DLUA_COMPAT_5_3 -c lua.c && '
    "for f in $(cat .list); do $CC $FLAGS -DLUA_USE_LINUX -DLUA_COMPAT_5_3 -c $f || exit 1; "
    "done && "
    'rm -f ../liblua.a && ar rcs ../liblua.a $(sed "s/c$/o/" .list) && cd .. && '
    "$CC $FLAGS -Wl,-E src/lua.o liblua.a -lm -ldl -o lua"
)  # fmt: skip
PROJECTS = (
    Project(
        "bzip2", "make",
        'make -s CC="$CC" CFLAGS="$FLAGS -D_FILE_OFFSET_BITS=64" libbz2.a bzip2.o && '
        "$CC $FLAGS bzip2.o libbz2.a -o bzip2",
        "bzip2",
        "for i in 1 2; do $PROGRAM -$i < sample$i.ref | cmp - sample$i.bz2 || exit 1; done; "
        "$PROGRAM -3 < sample3.ref | cmp - sample3.bz2 && "
        "for i in 1 2; do $PROGRAM -d < sample$i.bz2 | cmp - sample$i.ref || exit 1; done; "
        "$PROGRAM -ds < sample3.bz2 | cmp - sample3.ref",
    ),
    Project(
        "lz4", "make",
        'make -s -C lib CC="$CC" CFLAGS="$FLAGS" liblz4.a && '
        'make -s -C programs CC="$CC" CFLAGS="$FLAGS" lz4', "programs/lz4",
        "for l in 1 5 9 12; do $PROGRAM -$l -c lib/lz4hc.c > t.lz4 && $PROGRAM -dc t.lz4 | "
        "cmp - lib/lz4hc.c || exit 1; done; $PROGRAM -t t.lz4 && ! $PROGRAM -t NEWS 2> /dev/null",
    ),
    Project(
        "figlet", "make", 'make -s CC="$CC" LD="$CC" CFLAGS="$FLAGS" figlet', "figlet",
        "cp $PROGRAM figlet.run && sed 's#\\./figlet#./figlet.run#g' run-tests.sh > run.sh && "
        "sh run.sh fonts > t.log 2>&1 || { tail -20 t.log; exit 1; }",
    ),
    Project(
        "dash", "autotools",
        'sh ./configure --quiet --disable-dependency-tracking CC="$CC" CFLAGS="$FLAGS" > /dev/null '
        "&& make -s > /dev/null",
        "src/dash",
        "printf 'f(){ echo $(($1*7)); }; for i in 1 2 3; do f $i; done; x=a:b:c; IFS=:; set -- $x; "
        'echo $# $3; case $x in a*) echo yes;; esac; cat <<E\\n$x ${x%%%%:*}\\nE\\ntrap "echo bye" '
        "EXIT; (exit 3); echo $?; echo ab | while read l; do echo [$l]; done\\n' > t.sh; "
        "$PROGRAM t.sh > t.out && /bin/sh t.sh | cmp - t.out",
        "make -s distclean > /dev/null",
        "autoreconf -fi > /dev/null 2>&1",
    ),
    Project(
        "lua5.4", "shell script", _LUA, "lua",
        "$PROGRAM -e 'local t={} for i=1,20000 do t[i]=(i*7919)%10007 end table.sort(t) "
        "local s=0 for i,v in ipairs(t) do s=(s*31+v)%1000003 end assert(s==764231 or s) "
        'assert(not pcall(error,7)) assert(("x"):rep(3)=="xxx") assert(7//2==3 and 7%-3==-2) '
        'assert(string.format("%5.2f",math.pi)==" 3.14") assert(select("#",("a b"):gsub("%a","%0"))'
        "==2) assert(load(\"return 1<<40\")()==1<<40) io.write(s)' > t.out && test -s t.out",
        "rm -f src/*.o liblua.a lua",
        "echo '#define DEB_HOST_MULTIARCH \"x86_64-linux-gnu\"' > src/lua5.4-deb-multiarch.h",
    ),
    Project(
        "mbedtls", "cmake and ninja",
        'CC="$CC" cmake -G Ninja -S . -B build -DENABLE_TESTING=OFF -DCMAKE_BUILD_TYPE=None '
        '-DCMAKE_C_FLAGS="$FLAGS" > /dev/null && ninja -C build selftest > /dev/null',
        "build/programs/test/selftest",
        "$PROGRAM > t.log 2>&1 && grep -q 'All tests PASS' t.log",
        "rm -rf build",
    ),
)  # fmt: skip


@dataclass
class Row:
    """What was measured of a project; sizes in bytes, times in seconds."""

    name: str
    system: str
    units: int
    plain: int
    tuned: int
    lto: int
    whole: int
    plain_seconds: float
    record_seconds: float
    tune_seconds: float
    replay_seconds: float
    tests: str


def main() -> None:
    given = _arguments()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tools = _tools(folder / "tools")
    rows: list[Row] = []
    known = {project.name: project for project in PROJECTS}
    for name in given.projects:
        try:
            row = _measure(known[name], folder, tools, given)
        except subprocess.CalledProcessError as error:
            print(f"{name}: {error}\n{(error.stderr or '')[-1500:]}", flush=True)
            continue
        rows.append(row)
        print(json.dumps(asdict(row)), flush=True)
    _show(rows)


def _arguments() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.HelpFormatter)
    options.add_argument("--folder", type=Path, default=Path("builds"))
    options.add_argument("--budget", default="32", help="builds of each unit on average")
    options.add_argument("--whole-budget", default="48")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--repeats", type=int, default=3, help="of the plain build and the replay")
    options.add_argument("--projects", nargs="+", default=[p.name for p in PROJECTS],
                         choices=[p.name for p in PROJECTS])  # fmt: skip
    return options.parse_args()


def _tools(folder: Path) -> Path:
    """A plain clang that links by lld; the same for link-time optimisation; `planish-cc`."""
    folder.mkdir(parents=True, exist_ok=True)
    zig = Path(ziglang.__file__).parent / "zig"
    clang = f'{zig} clang --target=x86_64-unknown-linux-gnu "$@" -isystem {zig.parent}/lib/include'
    compiles = 'for a in "$@"; do case "$a" in -c|-S|-E|-M|-MM|--version|-v|-dump*|-print*) C=1;;'
    links = f'gcc -B{folder} -fuse-ld=lld "$@"'
    for name, more in (("clang", ""), ("clang-lto", "-flto")):
        called = clang.replace('"$@"', f'{more} "$@"')
        # A configure script compiles and links at once: in two steps, since gcc only links.
        _script(
            folder / name,
            f'{compiles} *.c) S="$S $a";; esac; done\n'
            f'if [ -n "$C" ]; then exec {called}; fi\n'
            'if [ -n "$S" ]; then O=$(mktemp -d); trap "rm -rf $O" EXIT; N=; W=; '
            'for a in "$@"; do case "$a" in *.c) '
            f'{called.replace(chr(34) + "$@" + chr(34), "$FLAGS_ONLY")} -c "$a" -o "$O/$(basename '
            '"$a").o" || exit 1; N="$N $O/$(basename "$a").o";; *) W="$W $a";; esac; done; '
            f"gcc -B{folder} -fuse-ld=lld $N $W; exit $?; fi\n"
            f"exec {links}",
        )
    _script(folder / "ld.lld", f'exec {zig} ld.lld "$@"')
    _script(folder / "planish-cc", f'exec {sys.executable} -m planish.entry cc "$@"')
    return folder


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def _measure(project: Project, folder: Path, tools: Path, given: argparse.Namespace) -> Row:
    source = folder / "sources" / project.name
    Fetcher(folder / "apt").unpack(project.name, source)
    work = folder / project.name
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source, work, symlinks=True)
    _sh(project.prepare, work, tools / "clang")
    seconds = _timed_build(project, work, tools / "clang")
    plain = allocated_bytes((work / project.program).read_bytes())
    _sh(project.clean, work, tools / "clang", fails=True)
    _timed_build(project, work, tools / "clang-lto")
    lto = allocated_bytes((work / project.program).read_bytes())
    _sh(project.clean, work, tools / "clang", fails=True)
    real = str(tools / "clang")
    environment = {"PLANISH_CC": real, "PLANISH_CXX": real}
    started = time.perf_counter()
    command = project.build.replace("$CC", str(work / ".planish/shims/cc"))
    _planish(["record", "--", "sh", "-c", command], work, environment)
    record_seconds = time.perf_counter() - started
    started = time.perf_counter()
    words = ["tune", "--json", "--budget", given.budget, "-j", str(given.jobs)]
    told = json.loads(_planish(words, work, environment))
    tune_seconds = time.perf_counter() - started
    words = ["tune", "--json", "--whole-program", "--program", project.program, "--budget",
             given.whole_budget, "-j", str(given.jobs), "-o", "whole.planish"]  # fmt: skip
    whole = json.loads(_planish(words, work, environment, code=(0, 2)))
    tests = []
    if whole["best"]:
        tests.append(("whole", _passes(project, work, work / "whole.planish")))
    _sh(project.clean, work, tools / "clang", fails=True)
    pairs = [(seconds, _timed_build(project, work, tools / "planish-cc", environment))]
    tuned = allocated_bytes((work / project.program).read_bytes())
    tests.insert(0, ("units", _passes(project, work, (work / project.program).resolve())))
    for _ in range(given.repeats - 1):
        times = []
        for compiler in ("clang", "planish-cc"):
            _sh(project.clean, work, tools / "clang", fails=True)
            times.append(_timed_build(project, work, tools / compiler, environment))
        pairs.append((times[0], times[1]))
    return Row(
        project.name, project.system, len(told["results"]) + len(told["skipped"]), plain, tuned,
        lto, whole["best"] or lto, statistics.median(a for a, _ in pairs), record_seconds,
        tune_seconds, statistics.median(b for _, b in pairs),
        ", ".join(f"{name} {'pass' if ok else 'FAIL'}" for name, ok in tests),
    )  # fmt: skip


def _timed_build(
    project: Project, work: Path, compiler: Path, environment: dict[str, str] | None = None
) -> float:
    started = time.perf_counter()
    _sh(project.build, work, compiler, environment)
    return time.perf_counter() - started


def _passes(project: Project, work: Path, program: Path) -> bool:
    done = subprocess.run(
        ["sh", "-c", project.test], cwd=work, env={**os.environ, "PROGRAM": str(program)},
        capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        print(f"{project.name}: {done.stdout[-500:]}{done.stderr[-500:]}")
    return done.returncode == 0


def _sh(
    command: str,
    work: Path,
    compiler: Path,
    environment: dict[str, str] | None = None,
    *,
    fails: bool = False,
) -> None:
    env = {**os.environ, **(environment or {}), "CC": str(compiler), "FLAGS": _FLAGS,
           "FLAGS_ONLY": "-O1"}  # fmt: skip
    subprocess.run(
        ["sh", "-c", command], cwd=work, env=env, check=not fails, capture_output=True, text=True
    )


def _planish(
    words: list[str], work: Path, environment: dict[str, str], code: tuple[int, ...] = (0,)
) -> str:
    env = {**os.environ, **environment, "FLAGS": _FLAGS, "FLAGS_ONLY": "-O1"}
    command = [sys.executable, "-m", "planish.entry", *words]
    done = subprocess.run(command, cwd=work, env=env, capture_output=True, text=True)
    if done.returncode not in code:
        raise subprocess.CalledProcessError(
            done.returncode, shlex.join(command[:6]), done.stdout, done.stderr
        )
    return done.stdout


def _show(rows: list[Row]) -> None:
    columns = ("project", "built by", "units", "-Oz", "tuned", "gain", "-Oz LTO", "one module",
               "gain over LTO", "record", "tune", "replay", "tests")  # fmt: skip
    lines = []
    for row in rows:
        lines.append((
            row.name, row.system, row.units, f"{row.plain:,}", f"{row.tuned:,}",
            f"{1 - row.tuned / row.plain:.1%}", f"{row.lto:,}", f"{row.whole:,}",
            f"{1 - row.whole / row.lto:.1%}", f"{row.record_seconds / row.plain_seconds:.1f}x",
            f"{row.tune_seconds:.0f} s", f"{row.replay_seconds / row.plain_seconds:.2f}x",
            row.tests,
        ))  # fmt: skip
    common.show("Linked programs, allocated bytes, and wall time over the plain build", columns,
                lines)  # fmt: skip
    if rows:
        units = [1 - row.tuned / row.plain for row in rows]
        whole = [1 - row.whole / row.lto for row in rows]
        print(f"mean gain unit by unit {statistics.fmean(units):.1%} ({min(units):.1%} to "
              f"{max(units):.1%}), as one module over LTO {statistics.fmean(whole):.1%} "
              f"({min(whole):.1%} to {max(whole):.1%})")  # fmt: skip


if __name__ == "__main__":
    main()
