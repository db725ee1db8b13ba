"""Build systems of users: each is recorded, tuned, and replayed by what it wrote down."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from planish.build import units
from planish.build.record import record
from planish.cli.main import main
from planish.store import lockfile

_UTIL = """
static int helper(int x) { int s = 0; for (int i = 0; i < x * 3; i++) s += i % 7; return s; }
int util(int x) { return helper(x) + helper(x + 1) + helper(x * 2); }
int other(int x) { switch (x) { case 1: return util(3); case 2: return 9; default: return x / 3; } }
"""
_MAIN = """
#include <stdio.h>
int util(int);
int main(void) { return printf("%d", util(5)) < 0; }
"""


@dataclass(frozen=True)
class System:
    """Files of a project, how it is configured, built and cleaned, and where the program lies."""

    tools: tuple[str, ...]
    files: dict[str, str]
    configure: str
    build: str
    clean: str
    program: str


_MAKEFILE = (
    "CFLAGS = -O2\nprog: util.o main.o\n\t$(CC) $^ -o $@\nclean:\n\trm -f *.o prog\n.PHONY: clean\n"
)
_MAKE = System(("make",), {"Makefile": _MAKEFILE}, "true", "make -j4", "make clean", "./prog")
_SYSTEMS = {
    "cmake and ninja": System(
        ("cmake", "ninja"),
        {"CMakeLists.txt": "cmake_minimum_required(VERSION 3.13)\nproject(p C)\n"
         "add_library(u STATIC util.c)\nadd_executable(prog main.c)\n"
         "target_link_libraries(prog u)\n"},
        "cmake -G Ninja -S . -B b -DCMAKE_BUILD_TYPE=Release", "ninja -C b",
        "ninja -C b -t clean", "b/prog",
    ),
    "meson": System(
        ("meson", "ninja"),
        {"meson.build": "project('p', 'c', default_options: ['optimization=2'])\n"
         "u = static_library('u', 'util.c')\nexecutable('prog', 'main.c', link_with: u)\n"},
        "meson setup b", "ninja -v -C b", "ninja -C b -t clean", "b/prog",
    ),
    "autoconf": System(
        ("autoconf", "make"),
        {"configure.ac": "AC_INIT([p],[1])\nAC_PROG_CC\n"
         "AC_CONFIG_FILES([Makefile])\nAC_OUTPUT\n",
         "Makefile.in": f"CC = @CC@\n{_MAKEFILE}"},
        "autoconf && ./configure -q", "make -j4", "make clean", "./prog",
    ),
    "cargo": System(
        ("cargo",),
        {"Cargo.toml": '[package]\nname = "prog"\nversion = "0.1.0"\nedition = "2021"\n'
         'build = "build.rs"\n',
         # What the cc crate does, which cannot be fetched here.
         "build.rs": 'use std::{env, process::Command};\nfn main() {\n'
         '    let out = env::var("OUT_DIR").unwrap();\n'
         '    let cc = env::var("CC").unwrap_or("cc".into());\n'
         '    let object = format!("{out}/util.o");\n'
         '    let made = Command::new(cc).args(["-O2", "-ffunction-sections", "-fdata-sections", '
         '"-fPIC", "-o", &object, "-c", "util.c"]).status().unwrap();\n'
         '    assert!(made.success());\n'
         '    let made = Command::new("ar").args(["cqs", &format!("{out}/libutil.a"), &object])'
         '.status().unwrap();\n    assert!(made.success());\n'
         '    println!("cargo:rustc-link-search=native={out}");\n'
         '    println!("cargo:rustc-link-lib=static=util");\n}\n',
         "src/main.rs": "extern \"C\" { fn util(x: i32) -> i32; }\n"
         "fn main() { println!(\"{}\", unsafe { util(5) }); }\n"},
        "true", "cargo build --offline -vv", "rm -rf target", "target/debug/prog",
    ),
}  # fmt: skip


def _write(folder: Path, system: System) -> None:
    for name, text in {**system.files, "util.c": _UTIL, "main.c": _MAIN}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def _sh(command: str, folder: Path, **environment: str) -> str:
    done = subprocess.run(
        ["sh", "-ec", command], cwd=folder, env={**os.environ, **environment}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture
def gcc(monkeypatch: pytest.MonkeyPatch) -> str:
    found = shutil.which("gcc")
    if found is None:
        pytest.skip("needs gcc")
    for name in ("CC", "CXX", "PLANISH_CC", "PLANISH_CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PLANISH_CC", found)
    return found


@pytest.mark.parametrize("name", _SYSTEMS)
def test_a_build_system_is_recorded_tuned_and_replayed(
    name: str, gcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    system = _SYSTEMS[name]
    for tool in system.tools:
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    _write(tmp_path, system)
    monkeypatch.chdir(tmp_path)
    code, found = record(["sh", "-ec", f"{system.configure} && {system.build}"], tmp_path)
    assert code == 0
    assert "util.c" in [unit.path.name for unit in found.units]
    said = _sh(system.program, tmp_path)
    main(["tune", "--budget", "8"])
    held = {Path(e.source).name: e for e in lockfile.load(tmp_path / "planish.lock").entries}
    assert "util.c" in held
    _sh(system.clean, tmp_path)
    # What was configured knows the shims; others are told the compiler.
    shims = {"CC": str(tmp_path / units.FOLDER / "shims" / "cc")}
    log = _sh(system.build, tmp_path, PLANISH_VERBOSE="1", **shims)
    assert "planish cc: replayed" in log, log
    assert _sh(system.program, tmp_path) == said


def test_any_number_of_jobs_and_any_folder_give_the_same_bytes(
    gcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "elsewhere" / "bb"
    for folder in (first, second):
        folder.mkdir(parents=True)
        _write(folder, _MAKE)
    monkeypatch.chdir(first)
    code, _ = record(["make", "-j4"], first)
    assert code == 0
    main(["tune", "--budget", "8"])
    shutil.copy(first / "planish.lock", second)
    ours = f"CC={sys.executable} -m planish.entry cc"
    made = []
    for folder, number in ((first, 1), (second, 4)):
        _sh("make -s clean", folder)
        log = _sh(f"make -j{number} '{ours}'", folder, PLANISH_VERBOSE="1")
        assert "replayed" in log, log
        paths = [*folder.glob("*.o"), folder / "prog"]
        made.append({path.name: path.read_bytes() for path in paths})
    assert made[0] == made[1] and set(made[0]) == {"util.o", "main.o", "prog"}


def test_ccache_in_front_and_behind(
    gcc: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("ccache") is None:
        pytest.skip("needs ccache")
    _write(tmp_path, _MAKE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CCACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("PLANISH_CC", f"ccache {gcc}")
    code, _ = record(["make", "CC=cc"], tmp_path)
    assert code == 0
    main(["tune", "--budget", "8"])
    ours = f"{sys.executable} -m planish.entry cc"
    _sh("make -s clean", tmp_path)
    assert "replayed" in _sh(f"make 'CC={ours}'", tmp_path, PLANISH_VERBOSE="1")
    behind = (tmp_path / "util.o").read_bytes()
    monkeypatch.setenv("PLANISH_CC", gcc)
    script = tmp_path / "planish-cc"
    script.write_text(f'#!/bin/sh\nexec {ours} "$@"\n')
    script.chmod(0o755)
    extra = {"CCACHE_EXTRAFILES": str(tmp_path / "planish.lock")}
    for _ in range(2):
        _sh("make -s clean", tmp_path)
        _sh(f"make 'CC=ccache {script}'", tmp_path, **extra)
        assert (tmp_path / "util.o").read_bytes() == behind
    hits = re.search(r"Hits:\s+(\d+)", _sh("ccache -s", tmp_path))
    assert hits and int(hits[1]) > 0
