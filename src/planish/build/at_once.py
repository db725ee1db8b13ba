"""Commands that compile and link at once: taken apart, as the compiler itself does inside.

The objects lie in a folder that is gone afterwards; the link is the command as it stands, with the
objects in the places of their sources.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence

from planish.build.invocation import Command, Unit

# Makes a unit's object; whether it did.
Make = Callable[[Unit], bool]


def in_parts(
    compiler: Sequence[str],
    command: Command,
    real: Mapping[str, str],
    make: Make,
    note: Callable[[Command], None] = lambda _: None,
) -> int | None:
    """Make the objects and link them; the link's exit code, or None where an object is missing.

    real  the real compiler's environment
    note  is told the link, while the objects are there
    """
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        words = list(command.words)
        for unit, at in zip(command.units, command.sources, strict=True):
            words[at] = f"{folder}/{at}.o"
            if not make(unit._replace(output=words[at])):
                return None
        code = subprocess.run([*compiler, *words], env=real).returncode
        if code == 0:
            note(command._replace(words=tuple(words)))
        return code


def compile_plainly(compiler: Sequence[str], unit: Unit, real: Mapping[str, str]) -> bool:
    """Make a unit's object by the real compiler."""
    words = [*compiler, *unit.flags, "-c", unit.source, "-o", unit.output]
    return subprocess.run(words, env=real).returncode == 0
