"""`planish verify`: does one module refine another, function by function?"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click


@click.command("verify", no_args_is_help=True)
@click.argument("before", type=click.Path(path_type=Path), required=False)
@click.argument("after", type=click.Path(path_type=Path), required=False)
@click.option(
    "--passes", default="", metavar="PIPELINE", help="Instead of AFTER: run these passes of LLVM."
)
@click.option(
    "--loops",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Instead of modules: a tensor program and its schedule.",
)
@click.option(
    "--reassociate", is_flag=True, help="With --loops: float sums may change their order."
)
@click.option(
    "--function", "-f", "functions", multiple=True, metavar="NAME", help="Only this function."
)
@click.option(
    "--bound",
    default=4,
    show_default=True,
    type=click.IntRange(1, 256),
    help="Rounds of each loop that are followed; part of the verdict.",
)
@click.option(
    "--seconds", default=10.0, show_default=True, help="For the solvers, for each function."
)
@click.option("--explain", is_flag=True, help="Show the query where a function is unknown.")
@click.option(
    "--no-run",
    is_flag=True,
    help="Never run the code: what refutes is evaluated by LLVM's semantics.",
)
@click.option("--jobs", "-j", type=click.IntRange(1, 512), default=None, help="Functions at once.")
@click.option("--no-store", is_flag=True, help="Do not use the store of earlier verdicts.")
@click.option(
    "--save",
    type=click.Path(path_type=Path),
    default=None,
    help="Folder for both modules and a script that replays the first refutation.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the verdicts as JSON.")
@click.pass_obj
def command(
    flags: Sequence[str] | None, /, before: Path | None, after: Path | None, **given: Any
) -> None:
    """Say for each function of AFTER how far it is checked to do what BEFORE does.

    Each file is .ll, .bc, C or C++ (compiled without optimisation; flags stand behind --). The
    exit code is 0 when nothing is refuted, 1 when something is.

    \b
    planish verify before.ll after.ll
    planish verify before.c after.bc --bound 8 -- -Iinclude
    planish verify --loops schedule.txt     (einsum mk,kn->mn m=64,k=64,n=64, then its steps)
    planish verify before.ll --passes 'function(sroa,instcombine)' --save broken
    """
    if given["loops"] is not None:
        _refuse_modules(before, given)
        _check_loops(given["loops"], reassociate=given["reassociate"], as_json=given["as_json"])
        return
    from planish import verify
    from planish.base.errors import UsageError

    if before is None:
        raise UsageError("nothing to verify", hint="give two files, or --loops schedule.txt")
    if given["reassociate"]:
        raise UsageError("--reassociate is for schedules", hint="use it with --loops")
    from planish.cli.verify_show import show_json, show_report

    report = verify(
        before, after, passes=given["passes"], functions=given["functions"], bound=given["bound"],
        seconds=given["seconds"], explain=given["explain"], run=not given["no_run"],
        flags=flags or (), jobs=given["jobs"] or os.cpu_count() or 1, store=not given["no_store"],
        save=given["save"],
    )  # fmt: skip
    if given["as_json"]:
        show_json(report)
    else:
        show_report(report)
    sys.exit(1 if report.refuted else 0)


def _refuse_modules(before: Path | None, given: dict[str, Any]) -> None:
    from planish.base.errors import UsageError

    options = ("function", "explain", "no-run", "save", "passes")
    held = {**given, "function": given["functions"], "no-run": given["no_run"]}
    more = [f"--{name}" for name in options if held[name]]
    if before is not None or more:
        what = str(before) if before is not None else more[0]
        raise UsageError(f"--loops has no use for {what}", hint="leave it out")


def _check_loops(path: Path, *, reassociate: bool, as_json: bool) -> None:
    from planish.base.config import pin_numpy

    pin_numpy(1)
    from planish.base.files import read_bytes
    from planish.base.records import Grade
    from planish.cli.verify_show import show_loops
    from planish.verify import schedules

    program, schedule = schedules.read_task(read_bytes(path).decode(errors="replace"))
    found = schedules.check(program, schedule, reassociate=reassociate)
    show_loops(found, as_json=as_json)
    sys.exit(1 if found.verdict.grade is Grade.REFUTED else 0)
