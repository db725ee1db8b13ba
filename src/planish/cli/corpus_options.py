"""The options of the commands that build a corpus and learn from it."""

from __future__ import annotations

from pathlib import Path

import click

architecture_option = click.option(
    "--arch",
    "architecture",
    default="X86",
    show_default=True,
    metavar="NAME",
    help="X86, AArch64, ARM, RISCV or WebAssembly.",
)
corpus_option = click.option(
    "--corpus",
    type=click.Path(path_type=Path),
    default=Path("corpus"),
    show_default=True,
    help="From: planish corpus build.",
)
earlier_option = click.option(
    "--from",
    "earlier",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Plans of this coreset are candidates, too.",
)
variants_option = click.option(
    "--variant",
    "variants",
    multiple=True,
    metavar="WORDS",
    help="So are those plans with these words added, and with what stands behind ! taken out.",
)
common_option = click.option(
    "--common",
    default=0,
    show_default=True,
    help="Recipes searched, after that, for all of these modules at once.",
)
tried_option = click.option(
    "--tried",
    default=600,
    show_default=True,
    help="Recipes tried for the first of those; half as many for the second, a third then.",
)
jobs_option = click.option(
    "--jobs", "-j", type=click.IntRange(1, 512), default=2, show_default=True
)
