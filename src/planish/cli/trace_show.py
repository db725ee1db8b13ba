"""What the terminal shows of traces: the first screen, ranks, differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from planish.cli.trace_format import (
    bandwidth,
    clip,
    new_console,
    new_table,
    path_words,
    room,
    share,
    time,
)
from planish.trace.diff import Change, Diff
from planish.trace.names import short
from planish.trace.ranks import Ranks

_STREAMS = 6


def show_summary(found: dict[str, Any], device: int | None) -> None:
    """The first screen: span, devices, idleness by cause and caller, kernels, copies, path."""
    console = new_console()
    rank = "" if found["rank"] is None else f", rank {found['rank']}"
    console.print(
        f"{found['file']}: {found['format']}{rank}, {found['events']:,} events,"
        f" {time(found['span'])}"
    )
    devices = [d for d in found["devices"] if device is None or d["device"] == device]
    if not devices:
        _host(console, found["host"])
    for row in devices:
        _device(console, row)
    if devices:
        _kernels(console, found)
        _copies(console, found["copies"])
        _launches(console, found["launches"])
        _steps(console, found["steps"])
        _path(console, found["critical_path"], found["span"])
    _energy(console, found.get("energy", ()))
    _what_if(console, found.get("what_if", ()))
    _look_at(console, found.get("advice", ()))
    for note in found["notes"]:
        count = f": {note['count']:,}" if note["count"] > 1 else ""
        console.print(Text(f"note: {note['what']}{count}", style="dim"))


def _device(console: Console, row: dict[str, Any]) -> None:
    name = f" ({row['name']})" if row["name"] else ""
    console.print(f"\ndevice {row['device']}{name}: {time(row['span'])}")
    table = new_table(("", "time", "share"))
    for label, part in (
        ("busy", row["busy"]), ("  compute", row["compute"]),
        ("  communication", row["communication"]), ("  copies", row["copy"]), ("idle", row["idle"]),
    ):  # fmt: skip
        if part or label in ("busy", "idle"):
            table.add_row(label, time(part), share(part, row["span"]))
    for cause, part in row["idle_by_cause"].items():
        table.add_row(f"  {cause}", time(part), share(part, row["span"]))
    console.print(table)
    if row["communication"]:
        console.print(f"{row['overlap']:.0%} of the communication is hidden behind compute")
    if len(row["streams"]) > 1:
        _streams(console, row["streams"])
    if row["blame"]:
        console.print("idle time, charged to what the host was running:")
        table = new_table(("time", "share"), ("calling context",))
        for charged in row["blame"]:
            path = path_words(charged["path"], room(console, 18))
            table.add_row(time(charged["own"]), share(charged["own"], row["idle"]),
                          Text(path))  # fmt: skip
        console.print(table)


def _streams(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    """The busiest streams, with what each of them waits for."""
    shown = sorted(rows, key=lambda row: -row["busy"])[:_STREAMS]
    heads = ("stream", "compute", "communication", "copies", "idle")
    table = new_table(heads, ("mostly",), wrap=False)
    for row in shown:
        idle = row["idle_by_cause"]
        words = next((f"{part / row['idle']:.0%} {cause}" for cause, part in idle.items()), "")
        table.add_row(
            str(row["stream"]), *(time(row[part]) if row[part] else "" for part in
            ("compute", "communication", "copy", "idle")), Text(words),
        )  # fmt: skip
    console.print(table)
    if len(rows) > len(shown):
        console.print(f"{len(rows) - len(shown)} more streams with less work")


def _host(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    console.print("no device did anything in this trace")
    if not rows:
        return
    console.print("\nwhere the host's threads spent their time:")
    table = new_table(("itself", "with callees"), ("calling context",))
    for row in rows:
        path = path_words(row["path"], room(console, 28))
        table.add_row(time(row["own"]), time(row["total"]), Text(path))
    console.print(table)


def _kernels(console: Console, found: dict[str, Any]) -> None:
    if not found["kernels"]:
        return
    console.print(f"\nkernels: {found['kernel_names']} names, the most time first")
    table = new_table(("time", "share", "count", "mean", "varies"), ("kernel",))
    for row in found["kernels"]:
        table.add_row(
            time(row["total"]), f"{row['share']:.1%}", f"{row['count']:,}", time(row["mean"]),
            f"{row['variation']:.0%}", Text(clip(short(row["name"]), room(console, 46))),
        )  # fmt: skip
    console.print(table)


def _copies(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    console.print("\ncopies and fills")
    table = new_table(("time", "count", "bytes", "bandwidth"), ("kind",))
    for row in rows:
        rate = bandwidth(row["bandwidth"]) if row["bandwidth"] else ""
        table.add_row(
            time(row["total"]), f"{row['count']:,}", f"{row['bytes']:,}", rate, row["name"]
        )
    console.print(table)


def _launches(console: Console, row: dict[str, Any] | None) -> None:
    if row is None:
        console.print("\nno launches in this trace: idle time cannot be explained by the host")
        return
    middle, late = row["latency"]
    console.print(
        f"\nlaunches: a call takes {time(row['call'])}, then {time(middle)} until the device"
        f" starts (95 %: {time(late)}); {row['depth'][1]:.1f} queued on average,"
        f" {row['depth'][0]:,} at most"
    )
    if row["negative"]:
        console.print(f"{row['negative']:,} events start before their launch: clocks disagree")


def _steps(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    lengths = [row["duration"] for row in rows]
    mean = sum(lengths) / len(lengths)
    spread = f" each on average, from {time(min(lengths))} to {time(max(lengths))}"
    console.print(f"steps: {len(rows)}, {time(mean)}{spread if len(rows) > 1 else ''}")


def _path(console: Console, rows: Sequence[dict[str, Any]], span: int) -> None:
    if not rows:
        return
    console.print("\nthe critical path: what the length of the run hangs on")
    table = new_table(("time", "share"), ("",))
    for row in rows[:6]:
        table.add_row(time(row["time"]), share(row["time"], span),
                      Text(clip(short(row["what"]), room(console, 20))))  # fmt: skip
    console.print(table)


def _energy(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        console.print(f"\nenergy of {row['meter']}: {row['joules']:.1f} J over the trace")
        if not row["covered"]:
            console.print("no sample lies in the trace's time: another run, or other clocks")
            continue
        for flag in row["flags"]:
            console.print(f"held back: {flag}")
        for title in ("steps", "kernels", "contexts"):
            if row[title]:
                _joules(console, title, row[title])


def _joules(console: Console, title: str, rows: Sequence[dict[str, Any]]) -> None:
    table = new_table(("joules", "time", "watts"), (_ENERGY_OF[title],))
    for part in rows:
        watts = part["joules"] / (part["time"] * 1e-9) if part["time"] else 0.0
        flags = f" ({'; '.join(part['flags'])})" if part["flags"] else ""
        width = room(console, 32)
        what = part["what"]
        name = _inner(what, width) if title == "contexts" else clip(short(what), width)
        table.add_row(
            f"{part['joules']:.2f}", time(part["time"]), f"{watts:.0f}", Text(name + flags)
        )
    console.print(table)


_ENERGY_OF = {"steps": "step", "kernels": "kernel", "contexts": "calling context"}


def _what_if(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    for row in rows:
        console.print(
            Text(f"\nwhat if {row['change']}: {time(row['before'])} would be {time(row['after'])},"
                 f" {row['speedup']:.2f}x")
        )  # fmt: skip


def _look_at(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    console.print("\nwhat to look at (planish advise says more):")
    for row in rows:
        gain = f"up to {row['speedup']:.2f}x"
        console.print(Text(f"  {gain}  {row['title']}: {clip(row['where'], 60)}"))


def show_ranks(ranks: Ranks) -> None:
    """A line for each rank, then the stragglers and the files that were left out."""
    console = new_console()
    table = new_table(("rank", "busy", "idle", "compute", "communication", "hidden", "step"))
    for row in ranks.rows:
        table.add_row(
            str(row.rank), time(row.busy), time(row.idle), time(row.compute),
            time(row.communication), share(row.hidden, row.communication),
            time(row.step) if row.step else "",
        )  # fmt: skip
    console.print(table)
    if len(ranks.rows) > 1:
        console.print(f"skew: the slowest rank computes {ranks.skew:.1%} longer than the median")
    for row in ranks.rows:
        if row.straggler:
            console.print(f"straggler: rank {row.rank}, {time(row.compute)} of compute")
    for file, why in ranks.failed:
        console.print(f"left out: {why}" if file in why else f"left out: {file}: {why}")


def show_diff(found: Diff, top: int) -> None:
    """Totals, idle causes, kernels."""
    console = new_console()
    console.print(f"before: {found.before}\nafter:  {found.after}")
    _changes(console, "", found.totals)
    _changes(console, "\nidle time by cause", found.causes)
    _changes(console, "\nkernels and copies, the largest change first", found.kernels[:top])


def _changes(console: Console, title: str, rows: Iterable[Change]) -> None:
    if title:
        console.print(title)
    table = new_table(("before", "after", "change", "count"), ("",))
    for row in rows:
        ratio = f"{row.ratio - 1:+.1%}" if math.isfinite(row.ratio) else "new"
        count = (
            f"{row.count_before:,} > {row.count_after:,}"
            if row.count_before or row.count_after
            else ""
        )
        table.add_row(
            time(row.before),
            time(row.after),
            ratio,
            count,
            Text(clip(row.what, room(console, 52))),
        )
    console.print(table)


def _inner(text: str, width: int) -> str:
    """The inner end of a calling context that is one text."""
    return path_words(text.split(" > "), width)
