"""A trace as one picture for a report: timeline, idle time by cause and by context, kernels.

Needs matplotlib (`pip install 'planish[plots]'`), which is imported here and nowhere else.
"""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from planish.base.errors import UsageError
from planish.trace.idle import Cause
from planish.trace.intervals import distinct, union
from planish.trace.names import short
from planish.trace.trace import Trace
from planish.trace.work import Work

_COLUMNS = 1200  # of the timeline: more than a picture has pixels for
_LANES = 12
_BARS = 8
_LETTERS = 64  # of a name on a bar
_COLOURS = {Work.COMPUTE: "#2a6f97", Work.COMMUNICATION: "#c1666b", Work.COPY: "#d4a017"}
_CAUSES = dict(zip(Cause, (
    "#9a9a9a", "#e07a5f", "#b5651d", "#8338ec", "#c9ada7", "#f2cc8f", "#6a994e", "#c1666b",
    "#d4a017",
), strict=True))  # fmt: skip


def picture(trace: Trace) -> bytes:
    """A PNG of 1600 by 1000 pixels; raises UsageError without matplotlib or without devices."""
    try:
        import matplotlib
    except ImportError as error:
        raise UsageError("pictures need matplotlib", hint="pip install 'planish[plots]'") from error
    if not trace.devices:
        raise UsageError("no device did anything in this trace: there is nothing to draw")
    matplotlib.use("Agg", force=False)
    from matplotlib.figure import Figure

    figure = Figure(figsize=(16, 10), dpi=100, layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=(1.1, 1))
    _timeline(figure.add_subplot(grid[0, :]), trace)
    _idle(figure.add_subplot(grid[1, 0]), trace)
    _kernels(figure.add_subplot(grid[1, 1]), trace)
    length = trace.span[1] - trace.span[0]
    name = trace.table.source.rsplit("/", 1)[-1]
    figure.suptitle(f"{name}: {len(trace.events):,} events, {length / 1e6:,.1f} ms")
    out = io.BytesIO()
    figure.savefig(out, format="png")
    return out.getvalue()


def shares(trace: Trace, start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Of each of _COLUMNS equal stretches of the run, the share in which an interval lies."""
    begin, finish = trace.span
    edges = np.linspace(begin, max(finish, begin + 1), _COLUMNS + 1)
    busy = union(start, end)
    lengths = np.concatenate(([0.0], np.cumsum(busy.end - busy.start)))
    points = np.stack((busy.start, busy.end), axis=1).reshape(-1).astype(np.float64)
    # time covered before each edge: straight between the ends of intervals
    covered = np.stack((lengths[:-1], lengths[1:]), axis=1).reshape(-1)
    before = np.interp(edges, points, covered) if len(points) else np.zeros(len(edges))
    return np.diff(before) / np.diff(edges)


def _timeline(axes: Any, trace: Trace) -> None:
    begin, finish = trace.span
    lanes = sorted(trace.streams, key=lambda s: -s.busy)[:_LANES]
    lanes.sort(key=lambda s: (s.device, s.stream or 0))
    x = np.linspace(0, (finish - begin) / 1e6, _COLUMNS + 1)
    labels = []
    rows: list[tuple[str, list[tuple[str, np.ndarray]]]] = []
    for lane in lanes:
        work = trace.work
        mine = work.where((work.device == lane.device) & (work.stream == lane.stream))
        parts = [
            (_COLOURS[kind], shares(trace, mine.start[chosen], mine.end[chosen]))
            for kind in Work
            if (chosen := mine.work == kind).any()
        ]
        rows.append((f"device {lane.device} stream {lane.stream}", parts))
    for device in trace.devices:
        idle = trace.idle(device)
        parts = [
            (_CAUSES[cause], shares(trace, idle.start[chosen], idle.end[chosen]))
            for cause in Cause
            if (chosen := idle.cause == cause).any()
        ]
        rows.append((f"device {device} idle", parts))
    for number, (label, parts) in enumerate(reversed(rows)):
        base = np.full(_COLUMNS, float(number))
        for colour, height in parts:
            top = np.minimum(base + 0.85 * height, number + 0.85)
            axes.stairs(top, x, baseline=base, fill=True, color=colour)
            base = top
        labels.append(label)
    axes.set_yticks(np.arange(len(labels)) + 0.42, labels)
    axes.set_xlim(0, x[-1])
    axes.set_ylim(0, len(labels))
    axes.set_xlabel("ms from the first event; the height is the share of the time")
    _legend(axes, trace)
    hidden = len(trace.streams) - len(lanes)
    axes.set_title("timeline" + (f" ({hidden} more streams are not drawn)" if hidden else ""),
                   loc="left")  # fmt: skip


def _legend(axes: Any, trace: Trace) -> None:
    from matplotlib.patches import Patch

    present = set(distinct(trace.work.work).tolist())
    causes = {int(c) for device in trace.devices for c in distinct(trace.idle(device).cause)}
    patches = [Patch(color=_COLOURS[k], label=k.name.lower()) for k in Work if k in present]
    patches += [Patch(color=_CAUSES[c], label=f"idle: {c.words}") for c in Cause if c in causes]
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, -0.14), frameon=False,
                ncols=min(5, len(patches)))  # fmt: skip


def _idle(axes: Any, trace: Trace) -> None:
    rows = sorted(
        ((row.own, _context(row.path))
         for device in trace.devices for row in trace.blame(device, _BARS)),
        reverse=True,
    )[:_BARS]  # fmt: skip
    whole = sum(row.idle for row in trace.breakdown())
    _bars(axes, [(own, name) for own, name in rows], whole, "#8d99ae")
    axes.set_title(f"idle time {whole / 1e6:,.2f} ms, charged to what the host ran", loc="left")


def _context(path: tuple[str, ...]) -> str:
    """The innermost name, with its caller's where both have room."""
    if not path:
        return "(nothing traced)"
    both = " > ".join(path[-2:])
    return both if len(both) <= _LETTERS else path[-1]


def _kernels(axes: Any, trace: Trace) -> None:
    rows = [(row.total, short(row.name)) for row in trace.kernels()[:_BARS]]
    whole = sum(row.total for row in trace.kernels())
    _bars(axes, rows, whole, _COLOURS[Work.COMPUTE])
    axes.set_title(f"kernels {whole / 1e6:,.2f} ms", loc="left")


def _bars(axes: Any, rows: list[tuple[int, str]], whole: int, colour: str) -> None:
    """Bars with the name written inside or beside them, so that long names cost no room."""
    for number, (amount, name) in enumerate(rows):
        axes.barh(number, amount / 1e6, color=colour, height=0.86, alpha=0.55)
        words = name if len(name) <= _LETTERS else name[: _LETTERS - 3] + "..."
        part = f"{amount / whole:.1%} " if whole else ""
        # "$" would begin a formula
        axes.text(0.01, number, f"{part} {words}".replace("$", r"\$"), va="center", fontsize=9,
                  transform=axes.get_yaxis_transform())  # fmt: skip
    axes.set_yticks([])
    axes.set_ylim(_BARS - 0.4, -0.6)
    axes.set_xlabel("ms")
