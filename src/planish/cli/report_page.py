"""`planish report`: what a tuning gained, as one page."""

from __future__ import annotations

from pathlib import Path

import click


@click.command("report")
@click.option(
    "-o", "output", type=click.Path(path_type=Path), default=Path("planish.html"),
    show_default=True, help="The page.",
)  # fmt: skip
def command(output: Path) -> None:
    """Write one HTML page on the last `planish tune`: by program, section, unit and function.

    Where the gain came from, what was rejected and why, the ledger, and the gain against builds
    spent. The page needs no network and no other file.
    """
    from planish.base.files import write_atomic
    from planish.build.report import page
    from planish.build.report_data import load
    from planish.build.units import FOLDER

    document = load(Path(FOLDER))
    write_atomic(output, page(document, f"Planish: {Path.cwd().name}"))
    print(f"wrote {output}")
