"""Linux perf: samples of CPU programs with call chains, from perf.data or `perf script`.

A sample says what a thread ran at one moment. It is taken to have run from then until the thread's
next sample, at most one and a half sampling periods (the median distance): a thread that is not
sampled did not run. perf.data is read by `perf script`, which knows its format and the symbols.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np

from planish.base.errors import TraceError, UsageError
from planish.trace.columns import Columns
from planish.trace.events import Table
from planish.trace.lines import PathEvents

MAGIC = (b"PERFILE2", b"2ELIFREP")
FIELDS = "comm,pid,tid,time,event,period,ip,sym,dso"
_HEAD = re.compile(
    r"^(?P<comm>\S.*?)\s+(?:(?P<pid>\d+)[/ ])?(?P<tid>-?\d+)\s+(?:\[\d+\]\s+)?"
    r"(?P<seconds>\d+)\.(?P<fraction>\d+):\s+(?:(?P<period>\d+)\s+)?(?P<event>\S+?):\s*(?P<rest>.*)$"
)
_FRAME = re.compile(r"^\s+(?P<ip>[0-9a-f]+)\s+(?P<name>.+?)\s+\((?P<module>.*)\)\s*$")
_SHIFT = re.compile(r"\+0x[0-9a-f]+$")
_STRETCH = 1.5  # sampling periods that one sample stands for, at most
_LONGEST_LINE = 1 << 16
_SHALLOW = 2  # functions that a useful call chain has at least


def is_perf_script(first: bytes) -> bool:
    """Whether the first bytes are text that `perf script` printed."""
    for line in first.decode(errors="replace").splitlines():
        if line.strip() and not line.startswith("#"):
            return _HEAD.match(line) is not None
    return False


def read_perf(source: str, path: Path, binary: bool) -> Table:
    """Read samples; raises UsageError (perf is missing) and TraceError (damaged, no samples)."""
    columns = Columns()
    reader = _Reader(columns)
    try:
        with _lines(path, binary) as lines:
            reader.read(lines)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    if not reader.samples:
        raise TraceError(f"{path} holds no samples", hint="was anything run while perf recorded?")
    reader.finish()
    return columns.finish(source, "perf")


@contextlib.contextmanager
def _lines(path: Path, binary: bool) -> Iterator[IO[str]]:
    if not binary:
        with path.open(encoding="utf-8", errors="replace") as file:
            yield file
        return
    if shutil.which("perf") is None:
        raise UsageError(
            f"{path} is a perf.data file, and perf is not installed",
            hint=f"install it (linux-perf), or give what this prints: perf script -F {FIELDS} --ns",
        )
    command = ["perf", "script", "-i", str(path), "-F", FIELDS, "--ns"]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True, errors="replace",
    ) as program:  # fmt: skip
        assert program.stdout is not None
        assert program.stderr is not None
        yield program.stdout
        said = program.stderr.read()
        if program.wait():
            why = next((line for line in said.splitlines() if line.strip()), "no reason given")
            raise TraceError(f"{path}: perf script fails: {why.strip()[:200]}",
                             hint="was it recorded by another perf?")  # fmt: skip


class _Reader:
    """Samples by thread; a stack is written innermost first."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._stacks: dict[tuple[str, ...], int] = {}
        self._times: dict[int, list[int]] = {}
        self._runs: dict[int, list[int]] = {}
        self.samples = 0
        self._unparsed = 0

    def read(self, lines: IO[str]) -> None:
        """All samples of the text."""
        thread, time, stack = -1, 0, []  # type: int, int, list[str]
        while line := lines.readline(_LONGEST_LINE):
            if frame := _FRAME.match(line):
                stack.append(_name(frame))
            elif not line.strip():
                self._sample(thread, time, stack)
                thread, stack = -1, []
            elif head := _HEAD.match(line):
                self._sample(thread, time, stack)
                thread, stack = self._thread(head), []
                time = int(head["seconds"]) * 10**9 + int(head["fraction"].ljust(9, "0")[:9])
                if inline := _FRAME.match(" " + head["rest"]):  # without chains: on the same line
                    stack = [_name(inline)]
            elif not line.startswith("#"):
                self._unparsed += 1
        self._sample(thread, time, stack)

    def _thread(self, head: re.Match[str]) -> int:
        process, number = int(head["pid"] or head["tid"]), int(head["tid"])
        self._columns.thread_names[process, number] = head["comm"]
        return self._columns.threads[process, number]

    def _sample(self, thread: int, time: int, stack: list[str]) -> None:
        if thread < 0:
            return
        self.samples += 1
        path = tuple(reversed(stack)) or ("[no symbol]",)
        self._times.setdefault(thread, []).append(time)
        self._runs.setdefault(thread, []).append(self._stacks.setdefault(path, len(self._stacks)))

    def finish(self) -> None:
        """Events of all threads."""
        paths = list(self._stacks)
        columns = self._columns
        columns.note("lines that are no sample (left out)", self._unparsed)
        columns.note("samples", self.samples)
        shallow = sum(len(path) < _SHALLOW for path in paths)
        if shallow > len(paths) / 2:
            columns.note("most call chains are one function deep: record with --call-graph dwarf")
        steps = [np.diff(np.sort(np.array(t, np.int64))) for t in self._times.values()]
        apart = np.concatenate(steps)
        apart = apart[apart > 0]
        period = int(np.median(apart)) if len(apart) else 10**6
        for thread, times in self._times.items():
            order = np.argsort(np.array(times, np.int64), kind="stable").tolist()
            runs = self._runs[thread]
            made = PathEvents(columns, thread)
            for place, number in enumerate(order):
                begin = times[number]
                last = begin + int(_STRETCH * period)
                made.moment(begin, paths[runs[number]])
                if place + 1 == len(order) or times[order[place + 1]] > last:
                    made.moment(begin + period if place + 1 == len(order) else last, ())
            made.flush()


def _name(frame: re.Match[str]) -> str:
    name = _SHIFT.sub("", frame["name"])
    if name != "[unknown]":
        return name
    module = frame["module"].rsplit("/", 1)[-1]
    return f"[{module}]" if module not in ("[unknown]", "") else "[unknown]"
