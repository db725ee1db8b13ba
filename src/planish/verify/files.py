"""Files that the user names, as modules."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from planish.base.errors import UsageError
from planish.base.files import read_bytes
from planish.llvm import frontend
from planish.llvm.toolchain import find_toolchain


def read_module(path: Path, flags: Sequence[str] = ()) -> bytes:
    """Bitcode or textual IR as it stands; C and C++ compiled without optimisation.

    Raises UsageError or CompileError for a file that cannot be read or compiled.
    """
    if path.suffix in frontend.IR_SUFFIXES:
        return read_bytes(path)
    if path.suffix not in frontend.SOURCE_SUFFIXES:
        known = ", ".join(sorted(frontend.SOURCE_SUFFIXES))
        raise UsageError(f"{path} is no source that Planish knows", hint=f"one of {known}")
    front_end = find_toolchain().need_front_end()
    return frontend.compile_to_bitcode(front_end, path, frontend.clean_flags(flags))
