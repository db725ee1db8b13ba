"""What the terminal shows of verdicts."""

from __future__ import annotations

import json
from dataclasses import asdict

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planish.base.records import Grade
from planish.verify.requests import FunctionVerdict
from planish.verify.schedules import LoopVerdict
from planish.verify.verify import Report


def show_report(report: Report) -> None:
    """A line for each function, what refutes it, and the sums."""
    console = Console(highlight=False, soft_wrap=True)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for one in report.functions:
        table.add_row(Text(one.function), str(one.verdict), Text(one.reason.split("\n")[0]))
    console.print(table)
    for one in report.functions:
        _show_details(console, one)
    if report.broken_by:
        words = (
            f"first broken by {report.broken_by}; the shortest list: {','.join(report.shortest)}"
        )
        console.print(Text(f"{report.refuted[0].function}: {words}"))
    for name in report.missing:
        console.print(Text(f"{name}: only in the first module, not compared"))
    counts = [f"{report.count(grade)} {grade.value}" for grade in Grade if report.count(grade)]
    words = f"{len(report.functions)} functions: {', '.join(counts) or 'none'}"
    console.print(f"{words}; {report.cached} from the store" if report.cached else words)
    notes = sorted({note for one in report.functions for note in one.assumptions})
    for note in notes:
        console.print(Text(f"assumed: {note}"))


def _show_details(console: Console, one: FunctionVerdict) -> None:
    if one.input:
        console.print(Text(f"{one.function}: {one.input}"))
    if one.query:
        console.print(Text(f"; the query on {one.function}\n{one.query}"))


def show_loops(found: LoopVerdict, *, as_json: bool) -> None:
    """A schedule's verdict, in one or two lines or as JSON."""
    if as_json:
        verdict = {"grade": found.verdict.grade.value, "detail": found.verdict.detail}
        print(json.dumps({**asdict(found), "verdict": verdict}, indent=2, sort_keys=True))
        return
    walked = f"; {found.points:,} points walked by the interpreter" if found.points else ""
    print(f"{found.verdict}{walked}" + (f": {found.reason}" if found.reason else ""))
    if found.reassociated:
        print(f"reassociated: the floating-point sums of {', '.join(found.reassociated)}")


def show_json(report: Report) -> None:
    """One object with all verdicts."""
    rows = []
    for one in report.functions:
        row = asdict(one)
        row["verdict"] = {"grade": one.verdict.grade.value, "detail": one.verdict.detail}
        rows.append(row)
    found = {
        "functions": rows,
        "missing": list(report.missing),
        "verdict": str(report.verdict),
        "cached": report.cached,
        "broken_by": report.broken_by,
        "shortest": list(report.shortest),
    }
    print(json.dumps(found, indent=2, sort_keys=True))
