"""`planish opt`: search, replay, explain."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from planish.base.errors import PlanishError, UsageError
from planish.base.records import Budget

_LOCK = "planish.lock"


@click.command("opt", no_args_is_help=True)
@click.argument("sources", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--goal",
    default="size",
    show_default=True,
    metavar="size|instructions",
    help="What is to become small: allocated bytes of the object, or IR instructions.",
)
@click.option(
    "--target",
    "triple",
    default="",
    metavar="TRIPLE",
    help="Compile for this target, e.g. aarch64-linux-gnu or thumbv7m-none-eabi.",
)
@click.option("--cpu", default="", help="Processor of the target, e.g. cortex-m4.")
@click.option(
    "--budget",
    default="32",
    show_default=True,
    help="At most so many builds and/or seconds: 32, 10s, 5m, 100,30s.",
)
@click.option(
    "--policy",
    default="coreset",
    show_default=True,
    metavar="coreset|genetic|greedy|random",
    help="How recipes are searched.",
)
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, 512),
    default=None,
    help="Builds at once; results do not depend on it.  [default: all cores]",
)
@click.option("--seed", default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--emit", default="obj", show_default=True, metavar="obj|bc|ll|asm", help="What is written."
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="Output file; with several sources, a folder.",
)
@click.option("--cflags", default="", help="Compiler flags in one word (or give them after --).")
@click.option(
    "--baseline",
    "level",
    default="Oz",
    show_default=True,
    metavar="Oz|Os|O1|O2|O3",
    help="Level that the result is compared with.",
)
@click.option("--no-functions", is_flag=True, help="No recipes for single functions.")
@click.option(
    "--explain",
    is_flag=True,
    help="Minimise the recipe and show what each element earns (more builds).",
)
@click.option(
    "--test",
    "test",
    default="",
    metavar="CMD",
    help="Run CMD on the winner, which lies at the output path ({} stands for it); when "
    "it fails, the culprit is found and left out.",
)
@click.option("--replay", is_flag=True, help="Build from planish.lock, with no search.")
@click.option("--locked", is_flag=True, help="Like --replay, but refuse stale entries.")
@click.option(
    "--lock",
    type=click.Path(path_type=Path),
    default=Path(_LOCK),
    show_default=True,
    help="The lockfile.",
)
@click.option("--no-lock", is_flag=True, help="Do not write the lockfile.")
@click.option("--no-store", is_flag=True, help="Do not use the store of earlier outcomes.")
@click.option(
    "--print-clang-flags", is_flag=True, help="Show how plain clang and opt replay the recipe."
)
@click.option("--json", "as_json", is_flag=True, help="Print results as JSON.")
@click.option("--quiet", "-q", is_flag=True, help="No progress display.")
@click.pass_obj
def command(flags: Sequence[str] | None, /, sources: Sequence[Path], **given: Any) -> None:
    """Find a smaller build of C, C++, .ll or .bc files; never one worse than the baseline.

    Gives an object for each source, and planish.lock, from which --replay builds the same bytes
    with no search. A source may be a folder. Compiler flags stand behind --.

    \b
    planish opt lz4.c
    planish opt src/ -o build/ --budget 100 -- -Iinclude -DNDEBUG
    planish opt fw.c --target thumbv7m-none-eabi --cpu cortex-m3 -- -ffreestanding
    planish opt lz4.c --test 'cc main.o {} -o t && ./t'
    planish opt lz4.c --replay
    """
    from planish.cli.show import Live
    from planish.store.store import Store
    from planish.tune.session import Options, Session
    from planish.tune.source import Request

    options = Options(
        goal=given["goal"], budget=Budget.parse(given["budget"]), policy=given["policy"],
        seed=given["seed"], functions=not given["no_functions"], emit=given["emit"],
        explain=given["explain"],
    )  # fmt: skip
    request = Request(
        flags=(*_words(given["cflags"]), *(flags or ())),
        level=given["level"].lstrip("-"),
        triple=given["triple"],
        cpu=given["cpu"],
    )
    jobs = _jobs(expand(sources), given["output"], options.emit)
    store = None if given["no_store"] else Store.open_default()
    with (
        Live(quiet=given["quiet"] or given["as_json"]) as live,
        Session(jobs=given["jobs"] or os.cpu_count() or 1, store=store, progress=live) as session,
    ):
        run = _Run(session, request, options, given)
        for source, output in jobs:
            run.one(source, output)
            if run.interrupted:
                break
    run.show()
    sys.exit(130 if run.interrupted else 2 if run.failed else 0)


def expand(sources: Sequence[Path]) -> list[tuple[Path, Path]]:
    """(file, its path below the folder that was named), folders searched for sources, sorted."""
    from planish.llvm.frontend import SOURCE_SUFFIXES

    found: list[tuple[Path, Path]] = []
    for source in sources:
        if not source.is_dir():
            found.append((source, Path(source.name)))
            continue
        files = [p for p in sorted(source.rglob("*")) if p.suffix in SOURCE_SUFFIXES]
        if not files:
            raise UsageError(f"no source below {source}", hint="C, C++, .ll and .bc are sources")
        found += [(path, path.relative_to(source)) for path in files if path.is_file()]
    return found


class _Run:
    """The sources of one command, one after another; one that fails does not stop the others."""

    def __init__(self, session: Any, request: Any, options: Any, given: dict[str, Any]) -> None:
        self._session, self._request, self._options = session, request, options
        self._given = given
        self._results: list[Any] = []
        self._written: list[str] = []
        self.failed = False
        self.interrupted = False

    def one(self, source: Path, output: Path) -> None:
        from planish.cli.main import report
        from planish.store import lockfile

        try:
            result = self._result(source, output)
            output.parent.mkdir(parents=True, exist_ok=True)
            result.save(output)
            self._written.append(str(output))
            lock = self._given["lock"]
            if not (self._given["no_lock"] or self._replaying):
                lockfile.update(lock, [result.entry(lock.parent)])
                if str(lock) not in self._written:
                    self._written.append(str(lock))
        except PlanishError as error:
            report(error)
            self.failed = True
            return
        self._results.append(result)
        self.interrupted = result.interrupted

    def show(self) -> None:
        from planish.cli.show import show_json, show_results

        if self._given["as_json"]:
            show_json(self._results, self._written)
        elif self._results:
            show_results(self._results, self._written, details=self._options.explain)
        if self._given["print_clang_flags"]:
            from planish.tune.clang import replay_script

            for result in self._results:
                print(replay_script(result))

    @property
    def _replaying(self) -> bool:
        return bool(self._given["replay"] or self._given["locked"])

    def _result(self, source: Path, output: Path) -> Any:
        from planish.store import lockfile
        from planish.tune.passes import optimise
        from planish.tune.replay import replay
        from planish.tune.result import lock_name

        path = self._given["lock"]
        lock = lockfile.load(path)
        options = self._options
        if self._given["test"]:
            options = replace(options, check=_tester(self._given["test"], output))
        if self._replaying:
            return replay(
                self._session, source, self._request, options, lock, path.parent,
                locked=self._given["locked"],
            )  # fmt: skip
        name = lock_name(source, path.parent)
        entries = [e for e in lock.entries if e.source == name and e.goal == options.goal]
        return optimise(self._session, source, self._request, options, entries)


def _jobs(
    sources: Sequence[tuple[Path, Path]], output: Path | None, emit: str
) -> list[tuple[Path, Path]]:
    """Each source with the path of its output; raises UsageError when two would collide."""
    suffix = {"obj": ".o", "bc": ".bc", "ll": ".ll", "asm": ".s"}[emit]
    if output is not None and len(sources) == 1 and not output.is_dir():
        return [(sources[0][0], output)]
    if output is not None and output.exists() and not output.is_dir():
        raise UsageError(
            f"-o {output} is a file, and there are {len(sources)} sources", hint="name a folder"
        )
    jobs = [(source, (output or Path()) / below.with_suffix(suffix)) for source, below in sources]
    taken: dict[Path, Path] = {}
    for source, path in jobs:
        if path.resolve() == source.resolve():
            raise UsageError(f"{source} would be overwritten", hint="choose an output with -o")
        if path in taken:
            raise UsageError(
                f"{taken[path]} and {source} would both be written to {path}",
                hint="name a folder that holds both",
            )
        taken[path] = source
    return jobs


def _tester(test: str, output: Path) -> Callable[[bytes], bool]:
    """Put a candidate at the output path and run the user's command on it."""
    from planish.base.files import write_atomic
    from planish.proc.command import run_command

    def check(artefact: bytes) -> bool:
        output.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(output, artefact)
        return run_command(test.replace("{}", shlex.quote(str(output)))).ok

    return check


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot read --cflags: {error}", hint="check the quotes") from error
