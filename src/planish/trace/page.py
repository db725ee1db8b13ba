"""A trace as one self-contained HTML page: timeline, flame graph of idle blame, tables."""

from __future__ import annotations

from importlib import resources
from typing import Any

import msgspec
import numpy as np

from planish.trace.events import Ints, Kind
from planish.trace.idle import Cause
from planish.trace.intervals import distinct
from planish.trace.trace import Trace

_MOST = 150_000  # events drawn: about 5 MB of page; the longest are kept
_TOP = 200
_ROWS = 24  # nesting levels drawn of a thread


def page(trace: Trace) -> str:
    """The page's text; opens offline, loads nothing."""
    template = resources.files("planish.trace").joinpath("data/page.html").read_text("utf-8")
    data = msgspec.json.encode(page_data(trace)).decode()
    # "</" would end the script element; "<!--" would open a comment in it
    return template.replace("/*DATA*/", data.replace("<", "\\u003c"))


def page_data(trace: Trace) -> dict[str, Any]:
    """What the page's script reads; times are nanoseconds from the first event."""
    drawn = _longest(trace)
    lanes = [*_device_lanes(trace, drawn), *_host_lanes(trace, drawn)]
    start, end = trace.span
    return {
        "summary": trace.summary(_TOP),
        "names": list(trace.strings),
        "causes": [cause.words for cause in Cause],
        "length": end - start,
        "lanes": lanes,
        "flame": _flame(trace),
        "left_out": max(0, len(trace.work) + len(trace.host.row) - int(drawn.sum())),
    }


def _longest(trace: Trace) -> np.ndarray:
    """A mask over all events: what is drawn."""
    mask = np.zeros(len(trace.events), np.bool_)
    rows = np.concatenate((trace.work.row, trace.host.row))
    if len(rows) > _MOST:
        rows = rows[np.argsort(-trace.events.duration[rows], kind="stable")[:_MOST]]
    mask[rows] = True
    return mask


def _device_lanes(trace: Trace, drawn: np.ndarray) -> list[dict[str, Any]]:
    begin = trace.span[0]
    lanes = []
    for row in trace.streams:
        work = trace.work
        mine = work.where(
            (work.device == row.device) & (work.stream == row.stream) & drawn[work.row]
        )
        names = trace.events.name[mine.row]
        lanes.append(
            {
                "label": f"device {row.device} stream {row.stream}",
                "rows": [
                    _row("device", mine.start - begin, mine.end - mine.start, names, mine.work)
                ],
            }
        )
    for device in trace.devices:
        idle = trace.idle(device)
        longest = np.sort(np.argsort(-(idle.end - idle.start), kind="stable")[:_MOST])
        lanes.append(
            {
                "label": f"device {device} idle",
                "rows": [
                    _row(
                        "idle", idle.start[longest] - begin, (idle.end - idle.start)[longest],
                        idle.cause[longest], idle.cause[longest] * 0,
                    )
                ],
            }
        )  # fmt: skip
    return lanes


def _host_lanes(trace: Trace, drawn: np.ndarray) -> list[dict[str, Any]]:
    host, events, begin = trace.host, trace.events, trace.span[0]
    depth = host.tree.depth[host.node]
    runtime = (events.kind[host.row] == Kind.RUNTIME).astype(np.int64)
    lanes = []
    for thread in distinct(host.thread).tolist():
        mine = np.flatnonzero((host.thread == thread) & drawn[host.row] & (host.end > host.start))
        if not len(mine):
            continue
        rows = []
        for level in range(1, min(int(depth[mine].max()), _ROWS) + 1):
            part = mine[depth[mine] == level]
            part = part[np.argsort(host.start[part], kind="stable")]
            rows.append(
                _row(
                    "host", host.start[part] - begin, host.end[part] - host.start[part],
                    events.name[host.row[part]], runtime[part],
                )
            )  # fmt: skip
        lanes.append({"label": trace.table.threads[thread].label, "rows": rows})
    return lanes


def _row(
    kind: str, start: Ints, length: Ints, name: np.ndarray, colour: np.ndarray
) -> dict[str, Any]:
    return {
        "kind": kind, "s": start.tolist(), "d": length.tolist(), "n": name.tolist(),
        "c": colour.tolist(),
    }  # fmt: skip


def _flame(trace: Trace) -> dict[str, list[int]]:
    """The calling-context tree with the idle time of all devices; only nodes that have some."""
    tree = trace.host.tree
    own = np.zeros(len(tree), np.int64)
    total = np.zeros(len(tree), np.int64)
    for device in trace.devices:
        charged = trace.charges(device)
        own += charged.own
        total += charged.total
    kept = np.flatnonzero(total > 0)
    number = np.full(len(tree), -1, np.int64)
    number[kept] = np.arange(len(kept))
    parent = np.where(tree.parent[kept] >= 0, number[tree.parent[kept]], -1)
    return {
        "parent": parent.tolist(), "name": tree.name[kept].tolist(), "own": own[kept].tolist(),
        "total": total[kept].tolist(),
    }  # fmt: skip
