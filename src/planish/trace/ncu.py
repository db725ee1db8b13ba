"""Nsight Compute's source page: `ncu --page source --csv` (or `--import report --csv`).

UNVERIFIED: written from NVIDIA's documentation of the command line; no real file has been tried
yet. Rows are instructions; columns named `stall_*` hold samples by reason, `# Samples` all.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path

import numpy as np

from planish.base.errors import TraceError
from planish.base.files import read_bytes
from planish.trace.samples import Context, Place, Samples

ALL, ISSUED, STALLED = "GCYCLES", "GCYCLES:ISU", "GCYCLES:STL"
_LARGEST = 256 << 20
# Nsight's reasons under the names that HPCToolkit gives them
_REASONS = {
    "long_sb": "GMEM", "long_scoreboard": "GMEM", "lg": "MTHR", "lg_throttle": "MTHR",
    "mio": "MTHR", "mio_throttle": "MTHR", "drain": "MTHR", "tex_throttle": "TMEM",
    "short_sb": "IDEP", "short_scoreboard": "IDEP", "wait": "IDEP", "dispatch": "PIPE",
    "math": "PIPE", "math_pipe_throttle": "PIPE", "barrier": "SYNC", "membar": "SYNC",
    "branch_resolve": "OTHR", "branch_resolving": "OTHR", "no_inst": "IFET",
    "no_instruction": "IFET", "imc": "CMEM", "imc_miss": "CMEM", "sleeping": "OTHR",
    "misc": "OTHR", "not_selected": "NSEL",
}  # fmt: skip
_ISSUED = ("selected", "stall_selected")
_STALL = re.compile(r"^(?:stall_|smsp__pcsamp_warps_issue_stalled_)(\w+?)(?:_not_issued)?$")
_NUMBER = re.compile(r"^[\d,. ]+$")


def is_ncu(first: bytes) -> bool:
    """Whether these first bytes can be such a table."""
    head = first.decode(errors="replace")
    return '"Source"' in head and ("stall_" in head or "pcsamp" in head)


def read_ncu(path: Path) -> Samples:
    """Raises UsageError (unreadable) and TraceError (no such table)."""
    data = read_bytes(path)
    if len(data) > _LARGEST:
        raise TraceError(f"{path} is larger than 256 MiB", hint="export one kernel only")
    lines = data.decode(errors="replace").splitlines()
    start = next((i for i, line in enumerate(lines) if '"Source"' in line), None)
    if start is None:
        raise TraceError(f"{path} has no column 'Source'", hint="ncu --page source --csv")
    rows = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    kernel = _kernel(lines[:start])
    contexts = [
        Context(-1, Place.ENTRY, name="(all)"),
        Context(0, Place.FUNCTION, True, "<gpu kernel>"),
        Context(1, Place.FUNCTION, True, kernel),
    ]
    counts: list[dict[str, float]] = [{}, {}, {}]
    for place, row in enumerate(rows):
        contexts.append(Context(2, Place.INSTRUCTION, module=kernel, offset=16 * place))
        counts.append(_samples(row))
    names = {name for row in counts for name in row}
    if ALL not in names:
        raise TraceError(f"{path} has no samples", hint="ncu --section SourceCounters")
    values = {n: np.array([row.get(n, 0.0) for row in counts]) for n in sorted(names)}
    return Samples(str(path), kernel, contexts, values)


def _kernel(before: list[str]) -> str:
    named = [line for line in before if line.strip() and not line.startswith("==")]
    return named[-1].strip(' ",') if named else "kernel"


def _samples(row: dict[str, str | None]) -> dict[str, float]:
    found: dict[str, float] = {}
    for column, text in row.items():
        if not isinstance(column, str) or not isinstance(text, str) or not _NUMBER.match(text):
            continue
        name = column.strip()
        reason = _STALL.match(name)
        if not reason and name not in _ISSUED:
            continue
        try:
            value = float(text.replace(",", "").strip() or 0)
        except ValueError:
            continue
        issued = name in _ISSUED or (reason is not None and reason[1] == "selected")
        key = ISSUED if issued else f"{STALLED}:{_REASONS.get(reason[1], 'OTHR') if reason else ''}"
        found[key] = found.get(key, 0.0) + value
        found[ALL] = found.get(ALL, 0.0) + value
        if not issued:
            found[STALLED] = found.get(STALLED, 0.0) + value
    return found
