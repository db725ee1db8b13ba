"""`planish tune-kernel`: the fastest schedule of a tensor program on this machine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from planish.cli.program_options import program_options, tensors_of
from planish.cli.workers_option import workers_option

if TYPE_CHECKING:
    from planish.tune.loops import Tuned


@click.command("tune-kernel", no_args_is_help=True)
@program_options()
@click.option(
    "--budget",
    default="2s",
    show_default=True,
    help="At most so many schedules and/or seconds: 200, 2s, 200,10s.",
)
@click.option(
    "--policy", default="guided", show_default=True, metavar="NAME",
    help="How schedules are searched: guided, network, nests, cost-model, genetic, greedy, "
    "greedy1, greedy2, beam-breadth, beam-depth, random.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Seed of every random choice.")
@click.option(
    "--target", default="native", show_default=True, metavar="native|avx2|avx512",
    help="Which instructions.",
)  # fmt: skip
@click.option("--cold", is_flag=True, help="Measure with flushed caches.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=None,
    help="Write the schedule, for: planish compile --schedule FILE.",
)  # fmt: skip
@click.option(
    "--lock", type=click.Path(path_type=Path), default=None,
    help="Keep the schedule in this lockfile.",
)  # fmt: skip
@click.option(
    "--loaded", default="flag", show_default=True, metavar="flag|refuse",
    help="What to do where other programs keep the machine busy.",
)  # fmt: skip
@click.option("--offline", is_flag=True, help="Measure nothing: the best that the store has.")
@click.option(
    "--machine", default="", metavar="FINGERPRINT",
    help="With --offline: use the records of that machine.",
)  # fmt: skip
@workers_option
@click.option("--no-store", is_flag=True, help="Neither use nor keep earlier measurements.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    program: str,
    shape: str,
    type_name: str,
    semiring: str,
    budget: str,
    policy: str,
    seed: int,
    target: str,
    cold: bool,
    output: Path | None,
    lock: Path | None,
    loaded: str,
    offline: bool,
    machine: str,
    workers: str,
    no_store: bool,
    as_json: bool,
) -> None:
    """Search for the fastest schedule of PROGRAM on this machine.

    PROGRAM is an einsum, or file.py:name for tensors that a Python file defines: of several
    statements, the search also decides which are computed inside the loops of others.

    The rules' schedule is the baseline; at the end the winner is measured against it again, in
    turn, and kept only where it is faster beyond the noise. Ctrl-C keeps the best so far.

    \b
    planish tune-kernel "mk,kn->mn" --shape m=100,k=100,n=100
    planish tune-kernel "mk,kn->mn" --shape m=64,k=64,n=4096 --budget 10s -o schedule.txt
    planish tune-kernel examples/blocks.py:attention --budget 10s
    """
    from planish.base.files import write_atomic
    from planish.cli.opt_run import live_display
    from planish.store.lockfile import update
    from planish.tune.loops import tune_kernel

    tensors = tensors_of(program, shape, type_name, semiring)
    with live_display(quiet=as_json) as live:
        found = tune_kernel(
            tensors, budget=budget, policy=policy, seed=seed, target=target, cold=cold,
            store=not no_store, loaded=loaded, offline=offline, machine=machine, workers=workers,
            progress=live,
        )  # fmt: skip
    wrote = []
    if output is not None:
        write_atomic(output, f"{found.schedule}\n")
        wrote.append(str(output))
    if lock is not None:
        update(lock, [found.entry(f"einsum {program} {shape} {type_name}" if shape else program)])
        wrote.append(str(lock))
    if as_json:
        low, middle, high = found.ratio
        print(
            json.dumps(
                {
                    "baseline_seconds": found.baseline, "best_seconds": found.best,
                    "ratio": {"median": middle, "interval": [low, high]},
                    "changes": list(found.changes), "fused": found.fused,
                    "schedule": str(found.schedule),
                    "measured": found.ledger.measured, "cached": found.ledger.cached,
                    "failures": found.ledger.failures, "seconds": found.ledger.seconds,
                    "curve": list(found.ledger.curve), "times": list(found.ledger.times),
                    "warnings": list(found.ledger.warnings), "wrote": wrote,
                },
                indent=2,
            )
        )  # fmt: skip
        return
    print(found)
    for words in found.ledger.warnings:
        print(f"beware: {words}")
    print(_changed(found))
    if len(found.program.stages) > 1:
        print(f"fused: {', '.join(found.fused) or 'nothing: each statement has loops of its own'}")
    print(f"\n{found.schedule}")
    if wrote:
        print(f"\nwrote {', '.join(wrote)}")


def _changed(found: Tuned) -> str:
    """What differs from the rules' schedule, in one line."""
    from planish.tune.cursor_space import of_cursor

    if of_cursor(found.changes):
        return (
            f"changed: a nest of its own, {len(found.changes)} steps of a cursor from the plain one"
        )
    if found.changes:
        return "changed: " + ", ".join(found.changes)
    if found.ratio[2] < 1.0:
        return f"from the store: the best of {found.ledger.cached} records"
    return "changed: nothing: no schedule beat the rules' one"
