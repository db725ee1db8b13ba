"""What the terminal shows of traces: the first screen, ranks, differences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from planish.trace.diff import Change, Diff
from planish.trace.names import short
from planish.trace.ranks import Ranks

_WIDEST = 120


def show_summary(found: dict[str, Any], device: int | None) -> None:
    """The first screen: span, devices, idleness by cause and caller, kernels, copies, path."""
    console = _console()
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
    for note in found["notes"]:
        count = f": {note['count']:,}" if note["count"] > 1 else ""
        console.print(Text(f"note: {note['what']}{count}", style="dim"))


def _device(console: Console, row: dict[str, Any]) -> None:
    name = f" ({row['name']})" if row["name"] else ""
    console.print(f"\ndevice {row['device']}{name}: {time(row['span'])}")
    table = _table(("", "time", "share"))
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
    if row["blame"]:
        console.print("idle time, charged to what the host was running:")
        table = _table(("time", "share"), ("calling context",))
        for charged in row["blame"]:
            path = _path_words(charged["path"], _room(console, 18))
            table.add_row(time(charged["own"]), share(charged["own"], row["idle"]),
                          Text(path))  # fmt: skip
        console.print(table)


def _host(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    console.print("no device did anything in this trace")
    if not rows:
        return
    console.print("\nwhere the host's threads spent their time:")
    table = _table(("itself", "with callees"), ("calling context",))
    for row in rows:
        path = _path_words(row["path"], _room(console, 28))
        table.add_row(time(row["own"]), time(row["total"]), Text(path))
    console.print(table)


def _kernels(console: Console, found: dict[str, Any]) -> None:
    if not found["kernels"]:
        return
    console.print(f"\nkernels: {found['kernel_names']} names, the most time first")
    table = _table(("time", "share", "count", "mean", "varies"), ("kernel",))
    for row in found["kernels"]:
        table.add_row(
            time(row["total"]), f"{row['share']:.1%}", f"{row['count']:,}", time(row["mean"]),
            f"{row['variation']:.0%}", Text(_clip(short(row["name"]), _room(console, 46))),
        )  # fmt: skip
    console.print(table)


def _copies(console: Console, rows: Sequence[dict[str, Any]]) -> None:
    if not rows:
        return
    console.print("\ncopies and fills")
    table = _table(("time", "count", "bytes", "bandwidth"), ("kind",))
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
    table = _table(("time", "share"), ("",))
    for row in rows[:6]:
        table.add_row(time(row["time"]), share(row["time"], span),
                      Text(_clip(short(row["what"]), _room(console, 20))))  # fmt: skip
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
    table = _table(("joules", "time", "watts"), (_ENERGY_OF[title],))
    for part in rows:
        watts = part["joules"] / (part["time"] * 1e-9) if part["time"] else 0.0
        flags = f" ({'; '.join(part['flags'])})" if part["flags"] else ""
        room = _room(console, 32)
        what = part["what"]
        name = _inner(what, room) if title == "contexts" else _clip(short(what), room)
        table.add_row(
            f"{part['joules']:.2f}", time(part["time"]), f"{watts:.0f}", Text(name + flags)
        )
    console.print(table)


_ENERGY_OF = {"steps": "step", "kernels": "kernel", "contexts": "calling context"}


def show_ranks(ranks: Ranks) -> None:
    """A line for each rank, then the stragglers and the files that were left out."""
    console = _console()
    table = _table(("rank", "busy", "idle", "compute", "communication", "hidden", "step"))
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
    console = _console()
    console.print(f"before: {found.before}\nafter:  {found.after}")
    _changes(console, "", found.totals)
    _changes(console, "\nidle time by cause", found.causes)
    _changes(console, "\nkernels and copies, the largest change first", found.kernels[:top])


def _changes(console: Console, title: str, rows: Iterable[Change]) -> None:
    if title:
        console.print(title)
    table = _table(("before", "after", "change", "count"), ("",))
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
            Text(_clip(row.what, _room(console, 52))),
        )
    console.print(table)


def time(nanoseconds: float) -> str:
    """With a unit that leaves one to four digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:,.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def bandwidth(rate: float) -> str:
    """Bytes a second with a unit that leaves digits before the point."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6)):
        if rate >= size:
            return f"{rate / size:,.1f} {unit}"
    return f"{rate / 1e3:,.1f} kB/s"


def share(part: float, whole: float) -> str:
    """In percent; empty where there is no whole."""
    return f"{part / whole:.1%}" if whole else ""


def _room(console: Console, taken: int) -> int:
    """How long a name may be beside columns that take `taken` characters."""
    return max(24, min(_WIDEST, console.width - taken))


def _path_words(path: Sequence[str], width: int) -> str:
    """The inner end of a calling context, as much of it as fits."""
    if not path:
        return "(no thread ran anything that was traced)"
    words = _clip(path[-1], width)
    for part in reversed(path[:-1]):
        longer = f"{_clip(part, 40)} > {words}"
        if len(longer) > width:
            break
        words = longer
    return words


def _inner(text: str, width: int) -> str:
    """The inner end of a calling context that is one text."""
    return _path_words(text.split(" > "), width)


def _clip(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


def _table(right: Sequence[str], left: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(right):
        plain = number == 0 and not name
        table.add_column(name, justify="left" if plain else "right", no_wrap=True)
    for name in left:
        table.add_column(name)
    return table


def _console() -> Console:
    return Console(highlight=False, soft_wrap=True)
