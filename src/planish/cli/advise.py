"""`planish advise`: what to do about a trace or a profile, with an estimated gain."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import click


@click.command("advise")
@click.argument("path", metavar="FILE", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the advice as JSON.")
@click.option("--top", type=click.IntRange(1, 1000), default=8, show_default=True)
@click.option(
    "--listing", "--sass", "sass", type=click.Path(path_type=Path), metavar="LISTING",
    help="What `nvdisasm -hex -g` or `llvm-objdump -d` prints of the GPU binary: stalls are blamed"
    " on their source.",
)  # fmt: skip
@click.option(
    "--contexts", is_flag=True,
    help="Print the calling contexts of the GPU code (needs --listing) instead of advice.",
)  # fmt: skip
@click.option("--salvage", is_flag=True, help="Read what is whole of a damaged file.")
def command(
    path: Path, as_json: bool, top: int, sass: Path | None, contexts: bool, salvage: bool
) -> None:
    """Ranked advice for FILE: a trace, a folder with one for each rank, or samples.

    Each piece says what to do, where, why, how much it could save and how sure that is.
    Savings of several pieces overlap: they do not add up.
    """
    from planish.advise.advise import advise_path, kernel_contexts
    from planish.base.errors import UsageError
    from planish.cli.advise_show import show_advice, show_contexts

    if contexts:
        if sass is None:
            raise UsageError("--contexts needs --listing", hint="a listing of the GPU binary")
        tree = kernel_contexts(path, sass)
        if as_json:
            print(json.dumps([asdict(node) for node in tree], indent=2))
        else:
            show_contexts(tree, top)
        return
    found = advise_path(path, salvage=salvage, sass=sass)[:top]
    if as_json:
        print(json.dumps([advice.to_json() for advice in found], indent=2))
    else:
        show_advice(str(path), found)
