"""`planish compile`: an einsum to machine code, with its loop nest, schedule and speed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planish.base.errors import UsageError
from planish.cli.einsum_options import einsum_options

if TYPE_CHECKING:
    from planish.tune.kernel_report import KernelReport


@click.command("compile", no_args_is_help=True)
@einsum_options
@click.option("--modulo", type=int, default=None, help="Sums of integers modulo this number.")
@click.option(
    "--schedule",
    type=click.Path(path_type=Path),
    default=None,
    help="A file with schedule steps, one a line, instead of the default rules.",
)
@click.option(
    "--target",
    default="native",
    show_default=True,
    metavar="native|avx2|avx512|aarch64",
    help="What code is generated for; aarch64 with -o only.",
)
@click.option(
    "--path",
    default="x86",
    show_default=True,
    metavar="x86|llvm",
    help="Planish's own code generator, or LLVM.",
)
@click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True)
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=None, help="Write an object file."
)
@click.option(
    "--header", type=click.Path(path_type=Path), default=None, help="Write a C header for it."
)
@click.option("--explain", is_flag=True, help="Show the nest after every step of the schedule.")
@click.option("--asm", is_flag=True, help="Show the machine code.")
@click.option("--no-run", is_flag=True, help="Compile only; measure nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    einsum: str,
    shape: str,
    type_name: str,
    semiring: str,
    modulo: int | None,
    schedule: Path | None,
    target: str,
    path: str,
    threads: int,
    output: Path | None,
    header: Path | None,
    explain: bool,
    asm: bool,
    no_run: bool,
    as_json: bool,
) -> None:
    """Compile an einsum for given lengths; print its loops, its schedule and its speed.

    \b
    planish compile "mk,kn->mn" --shape m=512,k=512,n=512
    planish compile "mk,kn->mn" --shape m=64,k=64,n=64 --semiring min-plus
    planish compile "bhqd,bhkd->bhqk" --shape b=2,h=8,q=128,k=128,d=64 --threads 2
    planish compile "mk,kn->mn" --shape m=64,k=64,n=64 -o gemm.o --header gemm.h
    """
    from planish.base.config import pin_numpy

    pin_numpy(threads)
    from planish.tune.kernel_report import compile_einsum, report_on

    steps = _read(schedule) if schedule is not None else None
    kernel = compile_einsum(
        einsum, extents(shape), type_name, semiring=semiring, modulo=modulo, schedule=steps,
        target=target, path=path, threads=threads,
    )  # fmt: skip
    if header is not None and output is None:
        raise UsageError("--header goes with an object file", hint="give -o kernel.o as well")
    if target == "aarch64" and output is None:
        raise UsageError("code for aarch64 is only written, not run", hint="give -o kernel.o")
    if output is not None:
        kernel.save(output, header=header)
    found = report_on(
        kernel, einsum, semiring=semiring, run=not no_run and target != "aarch64",
        explain=explain, asm=asm,
    )  # fmt: skip
    wrote = [str(p) for p in (output, header) if p is not None]
    if as_json:
        print(json.dumps({**found.to_json(), "wrote": wrote}, indent=2))
    else:
        _show(found)
        if wrote:
            print(f"wrote {', '.join(wrote)}")


def _show(found: KernelReport) -> None:
    if found.steps:
        for words, nest in found.steps:
            print(f"# {words}\n{nest}\n")
    else:
        print(f"{found.loops}\n")
        print(found.schedule or "(no schedule: the plain nest)")
    if found.asm:
        print(f"\n{found.asm}")
    print()
    rows: list[tuple[str, str]] = [("compiled", found.compiled)]
    rows += [("fallback", words) for words in found.fallbacks]
    if found.roofline is not None:
        rows.append(("speed", str(found.roofline)))
    if found.against is not None:
        rows.append(("against", found.against))
    for name, words in rows:
        print(f"{name:10}{words}")


def extents(text: str) -> dict[str, int]:
    """`m=512,k=512` as lengths by axis."""
    found: dict[str, int] = {}
    for word in text.split(","):
        match = re.fullmatch(r"\s*([A-Za-z])\s*=\s*(\d{1,9})\s*", word)
        if match is None:
            raise UsageError(f"cannot read the length '{word}'", hint="write m=512,k=512,n=512")
        if match[1] in found:
            raise UsageError(f"the axis '{match[1]}' is given twice")
        found[match[1]] = int(match[2])
    return found


def _read(path: Path) -> Any:
    from planish.base.files import read_bytes

    return read_bytes(path).decode(errors="replace")
