"""`planish record`: run a build and note its units."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from planish.base.errors import UsageError

_SHOWN = 5


@click.command("record")
@click.pass_obj
def command(build: list[str]) -> None:
    """Run a build and note every source that it compiles and every link, for `planish tune`.

    \b
    planish record -- make -j2
    planish record -- sh -c 'cmake -S . -B build && cmake --build build'
    planish record -- sh -c 'meson setup build && ninja -C build'
    planish record -- sh -c './configure && make'
    planish record -- cargo build                      # C parts by the cc crate

    The build has to compile something: clean it first. What it compiled stands in .planish/: the
    unoptimised bitcode, the exact commands, and what was linked. Exit code: the build's.
    """
    from planish.build.blobs import Blobs
    from planish.build.record import record
    from planish.build.units import FOLDER

    code, found = record(build, Path.cwd())
    size = Blobs(Path.cwd() / FOLDER).size()
    print(
        f"recorded {len(found.units)} units and {len(found.links)} links in .planish "
        f"({size / 1e6:.1f} MB)",
        file=sys.stderr,
    )
    bare = [unit for unit in found.units if unit.problem]
    for unit in bare[:_SHOWN]:
        print(f"  {unit.source} stays as it is: {unit.problem}", file=sys.stderr)
    if len(bare) > _SHOWN:
        print(f"  .. and {len(bare) - _SHOWN} more", file=sys.stderr)
    if code:
        sys.exit(code)
    if not found.units:
        raise UsageError(
            "the build compiled nothing that could be noted",
            hint="clean it first; configure it under planish record, too, since CMake, Meson and "
            "configure scripts write down the compiler's path: "
            "planish record -- sh -c 'cmake -S . -B build && cmake --build build'",
        )
