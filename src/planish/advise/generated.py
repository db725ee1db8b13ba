"""Advice on kernels that Planish generated: which step of the schedule to change."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from planish.advise.advice import Advice, Confidence, Evidence
from planish.advise.generated_gpu import generated_gpu
from planish.trace.events import HOST_WORK
from planish.trace.intervals import distinct
from planish.trace.marks import Mark, parse_label
from planish.trace.trace import Trace

_SHORT = 20_000  # ns: below that, calling costs as much as computing
_VARIES = 0.25  # deviation over mean from which two schedules cannot be told apart
_SHOWN = 3


def generated_kernels(trace: Trace) -> Iterator[Advice]:
    """For each annotated kernel the first change that its schedule has not been given."""
    events = trace.events
    rows = events.of_kind(*HOST_WORK)
    names = events.name[rows]
    begin, end = trace.span
    for name in distinct(names).tolist():
        mark = parse_label(trace.strings[name])
        if mark is None:
            continue
        mine = rows[names == name]
        if mark.gpu:
            yield from generated_gpu(trace, mark, mine)
            continue
        length = events.duration[mine]
        total = int(length.sum())
        change, why, share, confidence = _change(mark, length)
        longest = mine[np.argsort(-length, kind="stable")[:_SHOWN]]
        yield Advice(
            "generated-kernel", change, f"{mark.program}; schedule: {'; '.join(mark.steps) or '-'}",
            f"{len(mine):,} calls, {total / 1e6:,.2f} ms; {why}",
            total * share, max(1, end - begin), confidence,
            "steps that the schedule in the trace has and lacks",
            tuple(
                Evidence(int(events.start[r]) - begin,
                         int(events.start[r] + events.duration[r]) - begin, "a call of it")
                for r in longest.tolist()
            ),
        )  # fmt: skip


def _change(mark: Mark, length: np.ndarray) -> tuple[str, str, float, Confidence]:
    """What to do, why, and which share of the time it may save."""
    kinds = {step.split()[0] for step in mark.steps}
    if float(length.mean()) < _SHORT:
        return (
            "call it on more at once (a batch axis), or `fuse` it with what makes its operands",
            f"{length.mean() / 1000:.1f} us each: the call counts as much as the work", 0.3,
            Confidence.LOW,
        )  # fmt: skip
    if not kinds & {"vectorise", "tile"}:
        return (
            f"add `tile` or `vectorise` ({_stage(mark)}): the schedule computes one element at a"
            " time", "no step makes vectors", 0.75, Confidence.MEDIUM,
        )  # fmt: skip
    if "tile" in kinds and not kinds & {"pack", "split"}:
        return (
            f"add `split` of the reduction and `pack` of its operands ({_stage(mark)}), so that"
            " they stay in the cache", "tiles without blocking for caches", 0.2, Confidence.LOW,
        )  # fmt: skip
    if mark.threads == 1 and "parallel" not in kinds:
        return (
            f"add `parallel` of its outermost loop ({_stage(mark)}), compiled with threads=2 or"
            " more", "it runs in one thread; half of the time is counted, for two", 0.5,
            Confidence.LOW,
        )  # fmt: skip
    varies = float(length.std() / length.mean()) if len(length) > 1 else 0.0
    noisy = f" (calls vary by {varies:.0%}: measure on a quiet machine)" if varies > _VARIES else ""
    return (
        "search for another schedule: planish tune-kernel" + noisy,
        "the schedule has tiles, blocking and threads; other sizes may fit better", 0.05,
        Confidence.LOW,
    )  # fmt: skip


def _stage(mark: Mark) -> str:
    """The stage that the schedule names first."""
    words = mark.steps[0].split() if mark.steps else []
    return f"stage {words[1]}" if len(words) > 1 else "its stage"
