"""`planish opt`: search, replay, explain."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from planish.base.errors import UsageError
from planish.base.records import Budget
from planish.cli.workers_option import workers_option

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
    metavar="coreset|genetic|greedy|learned|llm|random",
    help="How recipes are searched.",
)
@click.option("--llm-model", default="", metavar="NAME", help="Language model of --policy llm.")
@click.option("--llm-url", default="", metavar="URL", help="OpenAI-compatible server that runs it.")
@click.option(
    "--jobs",
    "-j",
    type=click.IntRange(1, 512),
    default=None,
    help="Builds at once; results do not depend on it.  [default: all cores]",
)
@workers_option
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
@click.option(
    "--verify",
    "verifying",
    is_flag=True,
    help="Keep only what is proved or tested, function by function; what is refuted is expelled.",
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
@click.option(
    "--no-store", is_flag=True, help="Do not use the store of earlier outcomes and builds."
)
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
    from planish.cli.opt_run import Run, find_jobs, live_display
    from planish.tune.session import Options, Session
    from planish.tune.source import Request

    options = Options(
        goal=given["goal"], budget=Budget.parse(given["budget"]), policy=given["policy"],
        seed=given["seed"], functions=not given["no_functions"], emit=given["emit"],
        explain=given["explain"], verify=given["verifying"],
        llm_model=given["llm_model"], llm_url=given["llm_url"],
    )  # fmt: skip
    request = Request(
        flags=(*_words(given["cflags"]), *(flags or ())),
        level=given["level"].lstrip("-"),
        triple=given["triple"],
        cpu=given["cpu"],
    )
    replaying = given["replay"] or given["locked"]
    jobs = find_jobs(sources, given["output"], options.emit)
    store = None
    if not (given["no_store"] or replaying):
        from planish.store.store import Store

        store = Store.open_default()
    with (
        live_display(quiet=given["quiet"] or given["as_json"] or replaying) as live,
        Session(
            jobs=given["jobs"] or os.cpu_count() or 1,
            store=store,
            progress=live,
            workers=given["workers"],
        ) as session,
    ):
        run = Run(
            session, request, options, given["lock"], test=given["test"],
            write_lock=not (given["no_lock"] or replaying),
        )  # fmt: skip
        if replaying:
            run.replay(jobs, locked=given["locked"], kept=not given["no_store"])
        else:
            run.search(jobs)
    run.show(
        as_json=given["as_json"], details=given["explain"],
        clang_flags=given["print_clang_flags"],
    )  # fmt: skip
    sys.exit(130 if run.interrupted else 2 if run.failed else 0)


def _words(text: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(text))
    except ValueError as error:
        raise UsageError(f"cannot read --cflags: {error}", hint="check the quotes") from error
