"""`planish advise`: what to do about a trace or a profile, with an estimated gain."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

    from planish.advise.advice import Advice


@click.command("advise")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path), required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON.")
@click.option("--top", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option(
    "--listing", "--sass", "sass", type=click.Path(path_type=Path), metavar="LISTING",
    help="What `nvdisasm -hex -g` or `llvm-objdump -d` prints of the GPU binary: stalls are blamed"
    " on their source.",
)  # fmt: skip
@click.option(
    "--contexts", is_flag=True,
    help="Print the calling contexts of the GPU code (needs --listing) instead of advice.",
)  # fmt: skip
@click.option(
    "--outcome", type=click.Path(path_type=Path), metavar="AFTER",
    help="A trace of the same run after advice was followed: estimate and outcome are kept.",
)  # fmt: skip
@click.option(
    "--followed", multiple=True, metavar="N|RULE",
    help="Which advice was followed: its number in this list, or its rule (with --outcome).",
)  # fmt: skip
@click.option(
    "--calibration", is_flag=True, help="Print estimates beside outcomes of all that was followed."
)
@click.option("--salvage", is_flag=True, help="Read what is whole of a damaged file.")
def command(
    path: Path | None, as_json: bool, top: int, sass: Path | None, contexts: bool,
    outcome: Path | None, followed: tuple[str, ...], calibration: bool, salvage: bool,
) -> None:  # fmt: skip
    """Ranked advice for FILE: a trace, a folder with one for each rank, or samples.

    Each piece says what to do, where, why, how much it could save and how sure that is.
    Savings of several pieces overlap: they do not add up.

    \b
    planish advise run.json.gz                                 what to do
    planish advise before.json --outcome after.json --followed 2    keep what became of it
    planish advise --calibration                               how good the estimates were
    """
    from planish.advise.advise import advise_path, kernel_contexts
    from planish.base.errors import UsageError
    from planish.cli.advise_show import show_advice, show_contexts

    if calibration:
        _print_calibration(as_json)
        return
    if path is None:
        raise click.UsageError("no FILE given")
    if bool(outcome) != bool(followed):
        raise UsageError("--outcome and --followed go together",
                         hint="say which advice was followed, by number or rule")  # fmt: skip
    if contexts:
        if sass is None:
            raise UsageError("--contexts needs --listing", hint="a listing of the GPU binary")
        tree = kernel_contexts(path, sass)
        if as_json:
            print(json.dumps([asdict(node) for node in tree], indent=2))
        else:
            show_contexts(tree, top)
        return
    found = advise_path(path, salvage=salvage, sass=sass)
    if outcome is not None:
        _keep(path, outcome, found, followed, salvage)
        return
    found = found[:top]
    if as_json:
        print(json.dumps([advice.to_json() for advice in found], indent=2))
    else:
        show_advice(str(path), found)


def _keep(
    before: Path, after: Path, found: Sequence[Advice], followed: Sequence[str], salvage: bool
) -> None:
    from planish.advise.outcomes import chosen, keep_outcomes, measured_speedup
    from planish.store.store import Store
    from planish.trace.trace import Trace

    picked = chosen(found, followed)
    measured = measured_speedup(
        Trace.read(before, salvage=salvage), Trace.read(after, salvage=salvage)
    )
    with Store.open_default() as store:
        for one in keep_outcomes(store, picked, measured):
            print(
                f"kept: {one.rule}: up to {one.estimate:.2f}x estimated, {measured:.2f}x measured"
            )


def _print_calibration(as_json: bool) -> None:
    from planish.advise.outcomes import calibrate, read_outcomes, to_json
    from planish.cli.advise_show import show_calibration
    from planish.store.store import Store

    with Store.open_default() as store:
        found = read_outcomes(store)
    rows = calibrate(found)
    if as_json:
        print(json.dumps(to_json(rows, found), indent=2))
    else:
        show_calibration(rows)
