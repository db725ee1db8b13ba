"""A list of moments with the call path that ran from then on, turned into nested events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from planish.trace.columns import Columns
from planish.trace.events import Kind

_BATCH = 100_000


class PathEvents:
    """Events of one thread: a function's lasts as long as the path down to it stays the same."""

    def __init__(self, columns: Columns, thread: int) -> None:
        self._columns = columns
        self._thread = thread
        self._opened: list[tuple[str, int]] = []
        self._made: list[tuple[int, int, int]] = []

    def moment(self, time: int, path: Sequence[str]) -> None:
        """From `time` on this path runs, outermost function first; an empty one is none."""
        kept = 0
        opened, strings = self._opened, self._columns.strings
        while kept < min(len(path), len(opened)) and opened[kept][0] == path[kept]:
            kept += 1
        # outermost first: of events with the same start and end the first is the parent
        self._made += [(strings[name], begun, time - begun) for name, begun in opened[kept:]]
        del opened[kept:]
        opened += [(name, time) for name in path[kept:]]
        if len(self._made) >= _BATCH:
            self.flush()

    def moments(self, times: Iterable[int], paths: Iterable[Sequence[str]]) -> None:
        """Many of them, in order."""
        for time, path in zip(times, paths, strict=True):
            self.moment(time, path)

    def flush(self) -> None:
        """Hand what has ended to the columns; what is open stays open."""
        made = self._made
        if not made:
            return
        self._columns.add(
            start=[m[1] for m in made],
            duration=[m[2] for m in made],
            name=[m[0] for m in made],
            kind=[Kind.HOST_OP] * len(made),
            thread=[self._thread] * len(made),
        )
        made.clear()
