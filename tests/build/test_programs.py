"""Recorded programs: kept, linked again, tuned as one module, replayed to the same bytes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import ziglang

from planish.base.errors import PlanishError
from planish.build import archives, report, report_data, units
from planish.build.blobs import Blobs
from planish.build.linking import find_link, relink
from planish.build.mending import mend
from planish.build.record import record
from planish.cli.main import main
from planish.measure.sizes import allocated_bytes
from planish.store import lockfile
from planish.store.store import Store
from planish.tune.session import Options, Session

_ZIG = Path(ziglang.__file__).parent / "zig"
_CLANG = f"{shlex.quote(str(_ZIG))} clang -isystem {shlex.quote(str(_ZIG.parent / 'lib/include'))}"
_FIRMWARE = Path(__file__).parents[2] / "examples" / "firmware"


def _exit_code(path: Path) -> int:
    path.chmod(0o755)
    return subprocess.run([path]).returncode


def test_a_recording_is_enough_to_link_the_program_again(program: Path) -> None:
    folder = program / units.FOLDER
    found = units.read(folder)
    for unit in found.units:
        assert Blobs(folder).get(unit.bitcode).startswith(b"BC") and unit.command[-1] == unit.source
    (link,) = found.links
    assert link.own == allocated_bytes((program / "prog").read_bytes())
    for name in ("start.o", "work.o", "libw.a"):
        (program / name).unlink()
    relink(link, Blobs(folder), {}, program / "again")
    assert (program / "again").read_bytes() == (program / "prog").read_bytes()
    with pytest.raises(PlanishError, match="no link makes"):
        find_link(found.links, "other")


@pytest.mark.skipif(shutil.which("ld") is None, reason="needs a linker")
def test_sources_compiled_and_linked_at_once_are_tuned_and_replayed(program: Path) -> None:
    words = "-Os -ffreestanding -fno-stack-protector -fno-pic -nostdlib -static start.c work.c"
    code, found = record(["sh", "-c", f"$CC {words} -o both"], program)
    assert code == 0 and [u.source for u in found.units] == ["start.c", "work.c"]
    plain = program / "both"
    relink(find_link(found.links, ""), Blobs(program / units.FOLDER), {}, program / "again")
    assert (program / "again").read_bytes() == plain.read_bytes()
    size, exits = allocated_bytes(plain.read_bytes()), _exit_code(plain)
    main(["tune", "--budget", "8", "-j", "1"])
    command = [sys.executable, "-m", "planish.entry", "cc", *words.split(), "-o"]
    for name in ("one", "two"):
        subprocess.run([*command, name], cwd=program, check=True)
    assert (program / "one").read_bytes() == (program / "two").read_bytes()
    assert allocated_bytes((program / "one").read_bytes()) < size
    assert _exit_code(program / "one") == exits and not list(program.glob("one-*"))


def test_contents_are_kept_once_and_swept(tmp_path: Path) -> None:
    blobs = Blobs(tmp_path)
    one, two = blobs.put(b"x" * 5000), blobs.put(b"y")
    assert blobs.put(b"x" * 5000) == one and blobs.size() < 200
    assert blobs.sweep({two}) == 1 and blobs.get(two) == b"y"
    with pytest.raises(PlanishError, match="lacks a part"):
        blobs.get(one)


def test_a_program_is_tuned_as_one_module_and_replayed(
    program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    before = _exit_code(program / "prog")
    main(["tune", "--whole-program", "--budget", "6", "--json"])
    told = json.loads(capfd.readouterr().out)
    tuned = program / "prog.planish"
    assert told["best"] == allocated_bytes(tuned.read_bytes()) < told["plain"]
    assert _exit_code(tuned) == before and b"nobody" not in tuned.read_bytes()
    (entry,) = lockfile.load(program / "planish.lock").entries
    assert entry.source == "prog"
    main(["tune", "--whole-program", "--replay", "-o", "again"])
    assert (program / "again").read_bytes() == tuned.read_bytes()
    lockfile.update(program / "planish.lock", [])
    (program / "planish.lock").unlink()
    with pytest.raises(SystemExit):
        main(["tune", "--whole-program", "--replay"])
    assert "no entry" in capfd.readouterr().err


def test_units_are_tuned_linked_reported_and_their_lines_resolve(
    program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(["tune", "--budget", "8", "--json"])
    told = json.loads(capfd.readouterr().out)
    (linked,) = told["linked"]
    assert told["after"] < told["before"] and linked["after"] < linked["before"]
    main(["report"])
    page = (program / "planish.html").read_text()
    assert "work.c" in page and "only_here" in page and "<svg" in page and "http" not in page
    assert (
        report_data.load(program / units.FOLDER)["curve"][-1][1] == told["before"] - told["after"]
    )
    objects = []
    for at in range(2):
        words = ["-Os", "-g", "-ffreestanding", "-fno-stack-protector", "-fno-pic", "-c", "work.c"]
        done = subprocess.run(
            [sys.executable, "-m", "planish.entry", "cc", *words, "-o", f"{at}.o"],
            env={**os.environ, "PLANISH_VERBOSE": "1"}, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0 and "replayed" in done.stderr, done.stderr
        objects.append((program / f"{at}.o").read_bytes())
    assert objects[0] == objects[1]
    assert _lines(program / "0.o") & set(range(2, 7)), "line tables name the source's lines"


def _lines(path: Path) -> set[int]:
    """Line numbers in the object's line table."""
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        programs = [dwarf.line_program_for_CU(cu) for cu in dwarf.iter_CUs()]
        return {e.state.line for p in programs if p for e in p.get_entries() if e.state}


def test_a_baseline_that_beats_the_builds_own_object_is_replayed(program: Path) -> None:
    own = (program / "work.o").read_bytes()
    main(["tune", "--budget", "1", "--policy", "random", "--seed", "1"])
    (entry,) = (e for e in lockfile.load(program / "planish.lock").entries if e.source == "work.c")
    plain = replace(entry, recipe="", result=entry.baseline)
    lockfile.update(program / "planish.lock", [plain])
    words = "-Os -g -ffreestanding -fno-stack-protector -fno-pic -c work.c -o again.o"
    command = [sys.executable, "-m", "planish.entry", "cc", *words.split()]
    subprocess.run(command, cwd=program, check=True)
    replayed = allocated_bytes((program / "again.o").read_bytes())
    assert replayed == entry.baseline < allocated_bytes(own)


def test_the_part_of_a_recipe_that_breaks_the_tests_is_expelled(
    program: Path, tmp_path: Path
) -> None:
    lock = program / "planish.lock"
    main(["tune", "--budget", "32"])  # at 8 the luck of a draw decides whether there is a recipe
    entry = next(e for e in lockfile.load(lock).entries if e.source == "work.c")
    bad = next(word for word in entry.recipe.split() if word.startswith("-"))

    def test() -> bool:
        held = {e.source: e.recipe for e in lockfile.load(lock).entries}
        return bad not in held.get("work.c", "")

    found = [u for u in units.load(program / units.FOLDER) if u.source == "work.c"]
    with Session(jobs=1, store=Store(tmp_path / "s.db")) as session:
        (mended,) = mend(session, found, Options(), lock, test)
        assert mended.expelled == (bad,) and test()
        assert session.store is not None and bad in session.store.expelled(session.compiler)
    entry = next(e for e in lockfile.load(lock).entries if e.source == "work.c")
    assert bad not in entry.recipe, "it was tuned again without"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("target", ["thumbv7m-none-eabi", "aarch64-none-elf", "riscv32-none-elf"])
def test_firmware_for_another_processor(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(_FIRMWARE, tmp_path / "fw")
    monkeypatch.chdir(tmp_path / "fw")
    monkeypatch.setenv("PLANISH_CC", _CLANG)
    monkeypatch.setenv("PLANISH_LD", f"{shlex.quote(str(_ZIG))} ld.lld")
    code, found = record(["make", "-s", f"TARGET={target}"], Path.cwd())
    assert code == 0 and len(found.units) == 3 and found.links[0].direct
    folder = Path(units.FOLDER).resolve()
    relink(found.links[0], Blobs(folder), {}, Path("again.elf"))
    assert Path("again.elf").read_bytes() == Path("firmware.elf").read_bytes()
    if target.startswith("riscv"):
        return  # no code generator in libLLVM: each build starts clang, too slow for a test
    main(["tune", "--budget", "3", "--json"])
    told = json.loads(capfd.readouterr().out)
    assert told["linked"] and told["after"] < told["before"]
    assert all(each["after"] <= each["before"] and not each["problem"] for each in told["linked"])


def test_members_of_archives_are_read(tmp_path: Path) -> None:
    parts = {"a.o": b"1", "a_name_that_is_longer_than_a_header_holds.o": b"", "b.o": b"22"}
    for name, data in parts.items():
        (tmp_path / name).write_bytes(data)
    for kind in ("rcs", "rcsT"):
        path = tmp_path / f"{kind}.a"
        command = [str(_ZIG), "ar", kind, str(path), *parts]
        subprocess.run(command, cwd=tmp_path, check=True)
        data = path.read_bytes()
        assert archives.is_archive(data)
        assert {Path(n).name: c for n, c in archives.members(data, tmp_path)} == parts
    with pytest.raises(PlanishError):
        list(archives.members((tmp_path / "rcs.a").read_bytes()[:-1], tmp_path))


@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs chromium")
def test_the_report_renders_in_a_browser(tmp_path: Path) -> None:
    unit: dict[str, object] = {"source": "<b>.c", "problem": "why & how", "own": 0, "result": None}
    document = {
        "goal": "size", "budget": "32 builds", "policy": "coreset", "seed": 0, "builds": 9,
        "left": 3.0, "curve": [[0, 0], [9, 5]], "linked": [], "notes": [],
        "units": [{**unit, "functions": {}}],
    }  # fmt: skip
    path = tmp_path / "page.html"
    path.write_text(report.page(document, "a <title>"), encoding="utf-8")
    done = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/p",
         "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert "&lt;b&gt;.c" in done.stdout and "why &amp; how" in done.stdout
    assert "<h2>Ledger</h2>" in done.stdout
