"""The command line that runs a Python program with the OpenCL tracer on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from planish.base.errors import UsageError

_PYTHON = re.compile(r"^(python|pypy)[\d.]*$")


def traced_command(words: Sequence[str], out: Path) -> list[str]:
    """`python script.py ...` with `trace/opencl.py` around the script; the trace goes to `out`.

    The program's own Python runs the tracer, so Planish must be installed there.
    Raises UsageError for what is no Python script: the tracer stands between it and pyopencl.
    """
    if not _PYTHON.match(Path(words[0]).name) or len(words) < 2 or words[1].startswith("-"):
        raise UsageError(
            f"{' '.join(words[:2])} is no Python script: only pyopencl's calls can be traced",
            hint="planish profile --opencl trace.json -- python script.py",
        )
    return [words[0], "-m", "planish.trace.opencl", "-o", str(out), *words[1:]]
