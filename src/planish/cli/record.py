"""`planish record`: run a build and note its units."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command("record")
@click.pass_obj
def command(build: list[str]) -> None:
    """Run a build and note every source that it compiles, for `planish tune`.

    \b
    planish record -- make -j2
    planish record -- cmake --build build

    The build has to compile something: clean it first. What it compiled stands in .planish/.
    Exit code: the build's.
    """
    from planish.build.record import record

    code, found = record(build, Path.cwd())
    print(f"recorded {len(found)} units in .planish", file=sys.stderr)
    if code:
        sys.exit(code)
    if not found:
        print("planish: error: the build compiled nothing (clean it first)", file=sys.stderr)
        sys.exit(2)
