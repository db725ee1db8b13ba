"""Linking modules into one, as a linker does for link-time optimisation."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from planish.base.errors import UsageError
from planish.llvm.binding import Library
from planish.llvm.module import Module

# What a pipeline's parameter can hold; names of C and of the C++ ABI are made of these.
_PLAIN = re.compile(r"[\w.$@?]+")


def merge(
    library: Library,
    parts: Sequence[bytes],
    needs: Sequence[frozenset[str]],
    keep: frozenset[str],
) -> bytes:
    """The linked module as bitcode; all names but `keep` (and what IR marks as used) internal.

    needs  for each part, names its object refers to: where the part's IR does not mention one,
           inline assembly or the code generator does, and the name stays visible
    Raises UsageError when the modules do not fit together.
    """
    visible = set(keep)
    with contextlib.closing(Module(library, parts[0], "the first unit")) as whole:
        visible.update(name for name in needs[0] if not whole.mentions(name))
        for at, (data, names) in enumerate(zip(parts[1:], needs[1:], strict=True), start=2):
            part = whole.absorb(data, f"unit {at}")
            visible.update(name for name in names if not part.mentions(name))
            whole.link(part)
        defined = sorted(name for name in visible if whole.mentions(name))
        odd = [name for name in defined if not _PLAIN.fullmatch(name)]
        if odd:
            raise UsageError(f"the name {odd[0]!a} cannot be kept visible", hint="rename it")
        # Without a name to keep the pass would keep none, which is right for no program.
        kept = ";".join(f"preserve-gv={name}" for name in defined)
        whole.run_plain(f"internalize<{kept}>,globaldce" if kept else "globaldce")
        return whole.bitcode()
