"""`planish tune`: all units of a recorded build."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from planish.base.errors import UsageError
from planish.base.records import Budget


@click.command("tune")
@click.option("--budget", default="32", show_default=True, help="Of each unit: 32, 10s, 100,30s.")
@click.option(
    "--goal", default="size", show_default=True, metavar="size|instructions", help="As for opt."
)
@click.option("--policy", default="coreset", show_default=True, help="As for opt.")
@click.option("--seed", default=0, show_default=True, help="Seed of every random choice.")
@click.option("--jobs", "-j", type=click.IntRange(1, 512), default=None, help="Builds at once.")
@click.option(
    "--lock", type=click.Path(path_type=Path), default=Path("planish.lock"), show_default=True,
    help="Where recipes are kept.",
)  # fmt: skip
@click.option(
    "--test",
    default="",
    metavar="CMD",
    help="A shell command that rebuilds with planish cc and runs your tests; units that break it "
    "lose their recipe.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    budget: str,
    goal: str,
    policy: str,
    seed: int,
    jobs: int | None,
    lock: Path,
    test: str,
    as_json: bool,
) -> None:
    """Tune every unit that `planish record` noted; recipes go to planish.lock.

    The largest source comes first. A tuning that was stopped goes on where it was: outcomes are
    kept in the store. Afterwards build with CC="planish cc" CXX="planish c++".
    """
    from planish.build import units
    from planish.build.tuning import Outcome, keep_what_passes, tune_units
    from planish.cli.opt_run import live_display
    from planish.proc.command import run_command
    from planish.store.store import Store
    from planish.tune.result import lock_name
    from planish.tune.session import Options, Session

    recorded = units.load(Path(units.FOLDER))
    if not recorded:
        raise UsageError("no build is recorded here", hint="run: planish record -- make")
    options = Options(goal=goal, budget=Budget.parse(budget), policy=policy, seed=seed)

    def watch(outcome: Outcome) -> None:
        if not as_json:
            print(outcome)

    with (
        live_display(quiet=as_json) as live,
        Session(jobs=jobs or os.cpu_count() or 1, store=Store.open_default(), progress=live) as s,
    ):
        outcomes = tune_units(s, recorded, options, lock.resolve(), watch=watch)
    results = [o.result for o in outcomes if o.result is not None]
    skipped = [o for o in outcomes if o.result is None]
    dropped: list[str] = []
    if test and results:
        names = [lock_name(o.unit.path, lock.resolve().parent) for o in outcomes if o.result]
        dropped = keep_what_passes(lock.resolve(), names, lambda: run_command(test).ok)
    kept = [o for o in outcomes if o.result is not None]
    before = sum(o.own or (o.result.baseline if o.result else 0) for o in kept)
    after = sum(r.best for r in results)
    if as_json:
        rows = [r.to_json() for r in results]
        left = [{"source": o.unit.source, "problem": o.problem} for o in skipped]
        print(
            json.dumps(
                {"results": rows, "skipped": left, "dropped": dropped, "before": before,
                 "after": after}
            )
        )  # fmt: skip
    elif results:
        print(
            f"{len(results)} units: the build's own {before:,} -> {after:,} {results[0].unit} "
            f"({after / before - 1:+.1%}); wrote {lock}"
        )
    if not as_json:
        for name in dropped:
            print(f"dropped, since the test failed with it: {name}")
    if not results:
        sys.exit(2)
