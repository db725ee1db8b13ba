"""`planish trace`: explain profiler files, compare two, export one."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from planish.trace.isolated import Limits
    from planish.trace.trace import Trace

_LOOK_AT = 3  # pieces of advice on the first screen


class _WithDefault(click.Group):
    """`planish trace FILE` is `planish trace show FILE`."""

    def resolve_command(
        self, context: click.Context, words: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if words and words[0] not in self.commands:
            words = ["show", *words]
        return super().resolve_command(context, words)

    def parse_args(self, context: click.Context, words: list[str]) -> list[str]:
        if not words:
            raise click.UsageError("no FILE given", context)
        if words and words[0].startswith("-") and words[0] not in ("-h", "--help"):
            words = ["show", *words]
        return super().parse_args(context, words)


_FILE = click.Path(path_type=Path)
_SALVAGE = click.option(
    "--salvage", is_flag=True, help="Read what is whole of a damaged or truncated file."
)

_MEMORY = click.option(
    "--max-memory", type=click.FloatRange(0.01), metavar="GB", default=None,
    help="What reading one file may take (three quarters of the machine's memory).",
)  # fmt: skip
_SECONDS = click.option(
    "--max-seconds", type=click.FloatRange(0.01), metavar="S", default=None,
    help="How long reading one file may take (120, and 2 for each MB of the file).",
)  # fmt: skip


def _limits(memory: float | None, seconds: float | None) -> Limits:
    from planish.trace.isolated import Limits

    return Limits(int((memory or 0.0) * 1e9), seconds or 0.0)


@click.group("trace", cls=_WithDefault)
def command() -> None:
    """Explain profiler files: where the time went, why devices idled, who is to blame.

    \b
    planish trace run.json.gz                  the first screen
    planish trace run.json.gz --html out.html  timeline, flame graph and tables on one page
    planish trace run.json.gz --png out.png    a picture for a report
    planish trace folder/                      one trace for each rank: stragglers and skew
    planish trace run.json.gz --what-if gemm=2 --what-if cudaDeviceSynchronize
    planish trace diff before.json after.json  what takes more time, what less
    planish trace export run.json.gz out.json  for Perfetto or speedscope

    Reads Kineto (PyTorch), Chrome and Perfetto JSON, rocprofv3 JSON (all also .gz and .zip), and
    Nsight Systems exports (SQLite), HPCToolkit's trace.db and what `perf script` prints. A file is
    read in a process of its own, limited in memory and time.
    """


@command.command("show")
@click.argument("path", metavar="FILE", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
@click.option("--html", type=_FILE, help="Write a self-contained page.")
@click.option("--png", type=_FILE, help="Write a picture for reports (needs matplotlib).")
@click.option("--top", type=click.IntRange(1, 10_000), default=8, show_default=True)
@click.option("--device", type=int, help="Look at this device only.")
@click.option(
    "--what-if",
    "changes",
    multiple=True,
    metavar="NAME[=FACTOR]",
    help="Estimate the run with kernel NAME so many times as fast, or without the call NAME.",
)
@click.option("--energy", type=_FILE, help="Join the samples of `planish profile -o` to it.")
@_SALVAGE
@_MEMORY
@_SECONDS
def show(
    path: Path, as_json: bool, html: Path | None, png: Path | None, top: int, device: int | None,
    changes: tuple[str, ...], energy: Path | None, salvage: bool, max_memory: float | None,
    max_seconds: float | None,
) -> None:  # fmt: skip
    """Explain FILE (or a folder with one file for each rank)."""
    from planish.base.errors import UsageError

    if path.is_dir() and not (path / "trace.db").is_file():
        if html is not None or png is not None:
            raise UsageError("--html and --png take one file", hint="give one of the folder's")
        return _show_ranks(path, as_json, salvage, _limits(max_memory, max_seconds))
    from planish.advise.rules import advise_trace
    from planish.cli.trace_show import show_summary
    from planish.trace.trace import Trace

    trace = Trace.read(path, salvage=salvage, limits=_limits(max_memory, max_seconds))
    if html is not None:
        from planish.base.files import write_atomic
        from planish.trace.page import page

        write_atomic(html, page(trace))
    if png is not None:
        from planish.base.files import write_atomic
        from planish.trace.picture import picture

        write_atomic(png, picture(trace))
    found = trace.summary(top)
    if energy is not None:
        from planish.trace.energy import energy_summary

        found["energy"] = energy_summary(trace, energy, top)
    found["what_if"] = [_what_if(trace, change) for change in changes]
    found["advice"] = [advice.to_json() for advice in advise_trace(trace)[:_LOOK_AT]]
    if as_json:
        _print_json(found)
    else:
        show_summary(found, device)
        for written in (html, png):
            if written is not None:
                print(f"wrote {written}")
    return None


def _what_if(trace: Trace, change: str) -> dict[str, Any]:
    """NAME=2 is the kernel or call at twice its speed, NAME alone the call left out."""
    from dataclasses import asdict

    name, factor = change, None
    before, equals, after = change.rpartition("=")
    # names of kernels may hold an equals sign
    if equals and re.fullmatch(r"\d+(\.\d+)?", after):
        name, factor = before, float(after)
    found = trace.what_if(name, faster=factor)
    return {**asdict(found), "speedup": found.speedup}


def _show_ranks(folder: Path, as_json: bool, salvage: bool, limits: Limits) -> None:
    from dataclasses import asdict

    from planish.cli.trace_show import show_ranks
    from planish.trace.ranks import read_ranks

    def say(name: str) -> None:
        print(f"reading {name}", file=sys.stderr)

    ranks = read_ranks(folder, salvage=salvage, say=None if as_json else say, limits=limits)
    if as_json:
        _print_json(asdict(ranks))
    else:
        show_ranks(ranks)


@command.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@click.option("--top", type=click.IntRange(1, 10_000), default=12, show_default=True)
@click.option("--exact", is_flag=True, help="Match kernels by full name, arguments included.")
@_SALVAGE
def compare(before: Path, after: Path, as_json: bool, top: int, exact: bool, salvage: bool) -> None:
    """Say what takes more time in AFTER than in BEFORE, and what less."""
    from planish.cli.trace_show import show_diff
    from planish.trace.diff import diff
    from planish.trace.trace import Trace

    found = diff(
        Trace.read(before, salvage=salvage), Trace.read(after, salvage=salvage), exact=exact
    )
    if as_json:
        _print_json(found.to_json())
    else:
        show_diff(found, top)


@command.command("export")
@click.argument("path", metavar="FILE", type=_FILE)
@click.argument("out", type=_FILE)
@click.option(
    "--format", "form", metavar="NAME", default="perfetto", show_default=True,
    help="perfetto (JSON), speedscope (JSON: idle blame as a flame graph) or parquet (needs"
    " pyarrow).",
)  # fmt: skip
@_SALVAGE
def export(path: Path, out: Path, form: str, salvage: bool) -> None:
    """Write FILE in another format to OUT."""
    from planish.trace.export import export_trace
    from planish.trace.trace import Trace

    export_trace(Trace.read(path, salvage=salvage), out, form)
    print(f"wrote {out}")


def _print_json(value: Any) -> None:
    print(json.dumps(value, indent=2))
