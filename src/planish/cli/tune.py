"""`planish tune`: a recorded build, unit by unit or as whole programs."""

from __future__ import annotations

import os
from pathlib import Path

import click

from planish.base.errors import UsageError
from planish.base.records import Budget
from planish.cli.workers_option import workers_option


@click.command("tune")
@click.option(
    "--budget", default="32", show_default=True,
    help="Builds of each unit on average; a time is for all together: 32, 10m, 100,30m.",
)  # fmt: skip
@click.option(
    "--goal", default="size", show_default=True, metavar="size|instructions|time",
    help="time needs --run; it is measured against the recorded build.",
)  # fmt: skip
@click.option("--policy", default="coreset", show_default=True, help="As for opt.")
@click.option("--seed", default=0, show_default=True, help="Seed of every random choice.")
@click.option("--jobs", "-j", type=click.IntRange(1, 512), default=None, help="Builds at once.")
@workers_option
@click.option(
    "--lock", type=click.Path(path_type=Path), default=Path("planish.lock"), show_default=True,
    help="Where recipes are kept.",
)  # fmt: skip
@click.option(
    "--test",
    default="",
    metavar="CMD",
    help="A shell command that rebuilds with planish cc and runs your tests; what breaks it is "
    "found by bisection and expelled.",
)
@click.option("--whole-program", is_flag=True, help="Tune a program's units as one module.")
@click.option("--program", default="", metavar="NAME", help="Which; else the largest one linked.")
@click.option("--replay", is_flag=True, help="With --whole-program: by planish.lock, no search.")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), default=None,
    help="With --whole-program: the program; else NAME.planish.",
)  # fmt: skip
@click.option(
    "--run", "run_command", default="", metavar="CMD",
    help="A shell command that runs the program $PROGRAM, to be timed.",
)  # fmt: skip
@click.option(
    "--max-slowdown", default="", metavar="2%", help="With --run: the most that size may cost."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    budget: str,
    goal: str,
    policy: str,
    seed: int,
    jobs: int | None,
    workers: str,
    lock: Path,
    test: str,
    whole_program: bool,
    program: str,
    replay: bool,
    output: Path | None,
    run_command: str,
    max_slowdown: str,
    as_json: bool,
) -> None:
    """Tune what `planish record` noted; recipes go to planish.lock.

    \b
    planish tune                                   every unit, for size
    planish tune --test 'make clean && make CC="planish cc" check'
    planish tune --whole-program --program lua     one module; writes lua.planish
    planish tune --goal time --run '$PROGRAM bench.lua' --program lua
    planish tune --run '$PROGRAM bench.lua' --max-slowdown 2%

    The budget goes to the units that promise most bytes for a build. A tuning that was stopped goes
    on where it was: outcomes are kept in the store. Afterwards build with CC="planish cc"
    CXX="planish c++", and see `planish report`.
    """
    from planish.build import units
    from planish.cli import tune_run
    from planish.tune.session import Options

    recording = units.read(Path(units.FOLDER))
    if not recording.units:
        raise UsageError("no build is recorded here", hint="run: planish record -- make")
    if goal == "time" and not run_command:
        raise UsageError("--goal time needs a command to be timed", hint="--run '$PROGRAM ...'")
    if max_slowdown and not run_command:
        raise UsageError("--max-slowdown needs --run", hint="--run '$PROGRAM ...'")
    if (replay or output) and not whole_program:
        raise UsageError(
            "--replay and -o are for --whole-program",
            hint='units are replayed by CC="planish cc"',
        )
    options = Options(
        goal="size" if goal == "time" else goal, budget=Budget.parse(budget), policy=policy,
        seed=seed,
    )  # fmt: skip
    asked = tune_run.Asked(
        Path(units.FOLDER).resolve(), recording, options, lock.resolve(),
        jobs or os.cpu_count() or 1, program, as_json, workers,
    )  # fmt: skip
    if whole_program:
        tune_run.whole(asked, output, replay=replay)
    elif goal == "time":
        tune_run.time(asked, run_command)
    else:
        slowest = tune_run.read_slowdown(max_slowdown) if run_command else None
        tune_run.units(asked, test, run_command, slowest)
