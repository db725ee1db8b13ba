from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from planish.base.errors import PlanishError, UsageError
from planish.llvm.toolchain import FrontEnd, Toolchain
from planish.model import corpus
from planish.model.corpus import build_corpus, load_corpus
from planish.model.packages import source_entries
from planish.model.projects import Program, Project, load_projects
from planish.proc.pool import Pool
from planish.search.protocol import Plan
from planish.tune import differential
from planish.tune.differential import Run, differs, expel, find_platform, prepare

CODE = """#include "lib.h"
int work(const int *a, int n) {
    int s = 0;
    for (int i = 0; i < n; i++) s += a[i] > 3 ? a[i] * 7 : a[i] / 3;
    return s;
}
"""
MAIN = """#include "lib.h"
int printf(const char *, ...);
int main(int argc, char **argv) {
    int a[16];
    for (int i = 0; i < 16; i++) a[i] = i * argc;
    printf("%d\\n", work(a, 16));
    return 3;
}
"""


def project(name: str, split: str = "train", **given: object) -> Project:
    sources, exclude = ("**/*.c",), ()
    return Project(name, name, "MIT", "test", split, sources, exclude, **given)  # type: ignore[arg-type]


class FakeFetcher:
    """Lays out a tiny project instead of fetching one; counts how often it is asked."""

    asked: ClassVar[list[str]] = []

    def __init__(self, folder: Path) -> None:
        pass

    def unpack(self, package: str, target: Path) -> tuple[str, Path]:
        self.asked.append(package)
        if package == "missing":
            raise PlanishError("the source package missing cannot be fetched")
        (target / "include").mkdir(parents=True, exist_ok=True)
        (target / "include" / "lib.h").write_text("int work(const int *, int);\n")
        (target / "work.c").write_text(CODE)
        (target / "main.c").write_text(MAIN.replace("return 3", f"return {len(package)}"))
        (target / "broken.c").write_text("int f( {\n")
        return "1.0", target


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corpus, "Fetcher", FakeFetcher)
    FakeFetcher.asked = []
    return tmp_path / "corpus"


def test_projects_become_modules_once_each(
    out: Path, front_end: FrontEnd, builder_pool: Pool
) -> None:
    chosen = [project("one"), project("missing"), project("second", "held-out")]
    said: list[str] = []
    index = build_corpus(chosen, out, front_end, builder_pool, say=said.append)
    assert index == load_corpus(out)
    assert {m.source for m in index.modules if m.project == "one"} == {"work.c", "main.c"}
    # work.c is the same file in both projects, and is one module
    assert [m.source for m in index.modules if m.project == "second"] == ["main.c"]
    assert index.projects["one"]["refused"] == 1
    assert list(index.failed) == ["missing"]
    assert all((out / "modules" / f"{m.sha}.bc").exists() for m in index.modules)
    build_corpus(chosen, out, front_end, builder_pool, say=said.append)
    assert FakeFetcher.asked == ["one", "missing", "second", "missing"]


def test_a_failing_configuration_costs_only_itself(
    out: Path, front_end: FrontEnd, builder_pool: Pool
) -> None:
    chosen = [project("one", configure=("echo no luck; false",)), project("second")]
    index = build_corpus(chosen, out, front_end, builder_pool, say=lambda words: None)
    assert "no luck" in index.failed["one"]
    assert set(index.projects) == {"second"}


@pytest.mark.parametrize("architecture", ["X86", "AArch64"])
def test_a_program_that_behaves_differently_is_seen(
    out: Path, toolchain: Toolchain, builder_pool: Pool, architecture: str
) -> None:
    front_end = toolchain.need_front_end()
    try:
        target = find_platform(architecture, front_end)
    except UsageError as error:
        pytest.skip(str(error))
    program = Program("demo", ("work.c", "main.c"), ("$PROGRAM", "$PROGRAM a b"))
    chosen = project("one", programs=(program,))
    build_corpus([chosen], out, front_end, builder_pool, say=lambda words: None)
    subject = prepare(chosen, program, out / "sources", target, toolchain, builder_pool)
    assert len(subject.expected) == 2
    good, bad = Plan(("default<Oz>",)), Plan(("no-such-pass",))
    assert differs(subject, good, builder_pool) == ""
    assert "invalid while building" in differs(subject, bad, builder_pool)
    wrong = replace(subject, expected=(Run("0", "x", 1.0), *subject.expected[1:]))
    assert "differs in: $PROGRAM" in differs(wrong, good, builder_pool)
    assert list(expel([subject], [good, bad], builder_pool, lambda words: None)) == [bad]


def test_a_program_that_no_longer_ends_is_told_from_one_that_differs(
    out: Path, toolchain: Toolchain, builder_pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = find_platform("X86", toolchain.need_front_end())
    program = Program("demo", ("work.c", "main.c"), ("$PROGRAM",))
    chosen = project("one", programs=(program,))
    build_corpus([chosen], out, toolchain.need_front_end(), builder_pool, say=lambda words: None)
    subject = prepare(chosen, program, out / "sources", target, toolchain, builder_pool)
    endless = replace(subject, program=replace(program, checks=("sleep 600",)))
    monkeypatch.setattr(differential, "_MORE_SECONDS", 0.1)
    found = differs(endless, Plan(("default<Oz>",)), builder_pool)
    assert found == "takes too long in: sleep 600"


def test_no_corpus_and_a_damaged_one_are_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no corpus"):
        load_corpus(tmp_path)
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(UsageError, match="cannot read"):
        load_corpus(tmp_path)


def test_the_list_that_ships_is_split_by_project() -> None:
    projects = load_projects(Path(__file__).parents[2] / "bench" / "corpus" / "projects.toml")
    splits = [p.split for p in projects]
    assert splits.count("train") >= 25
    assert splits.count("held-out") >= 12
    assert sum(len(p.programs) for p in projects if p.split == "held-out") >= 8
    assert all(p.licence and p.category for p in projects)


def test_a_list_that_does_not_fit_names_the_project(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text('[[project]]\nname = "x"\nlicence = "MIT"\ncategory = "c"\nsplit = "tests"\n')
    with pytest.raises(UsageError, match="x: the split is 'tests'"):
        load_projects(path)
    path.write_text('[[project]]\nname = "x"\nsplit = "train"\n')
    with pytest.raises(UsageError, match="project x: 'licence' is missing"):
        load_projects(path)


def test_apts_own_entries_are_asked_for_sources() -> None:
    made = source_entries(["Types: deb\nURIs: u\n"], ["# c\ndeb u main\ndeb-src u main\n"])
    assert made["0.sources"].startswith("Types: deb-src\n")
    assert made["lines.list"] == "deb-src u main\n"
