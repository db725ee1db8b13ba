"""`planish compile`: a tensor program to machine code, with its loop nest, schedule and speed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planish.base.errors import UsageError
from planish.cli.program_options import program_options, tensors_of

if TYPE_CHECKING:
    from planish.tune.kernel_report import KernelReport


@click.command("compile", no_args_is_help=True)
@program_options()
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
    program: str,
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
    """Compile PROGRAM; print its loops, its schedule and its speed.

    PROGRAM is an einsum, or file.py:name for tensors that a Python file defines.

    \b
    planish compile "mk,kn->mn" --shape m=512,k=512,n=512
    planish compile "mk,kn->mn" --shape m=64,k=64,n=64 --semiring min-plus
    planish compile "bhqd,bhkd->bhqk" --shape b=2,h=8,q=128,k=128,d=64 --threads 2
    planish compile "mk,kn->mn" --shape m=64,k=64,n=64 -o gemm.o --header gemm.h
    planish compile examples/blocks.py:mlp
    """
    from planish.base.config import pin_numpy

    pin_numpy(threads)
    from planish.tune.kernel_report import report_on
    from planish.tune.tensors import compile_program

    steps = _read(schedule) if schedule is not None else None
    tensors = tensors_of(program, shape, type_name, semiring, modulo)
    kernel = compile_program(
        tensors, schedule=steps, target=target, threads=threads, path=path,
    )  # fmt: skip
    if header is not None and output is None:
        raise UsageError("--header goes with an object file", hint="give -o kernel.o as well")
    if target == "aarch64" and output is None:
        raise UsageError("code for aarch64 is only written, not run", hint="give -o kernel.o")
    if output is not None:
        kernel.save(output, header=header)
    found = report_on(
        kernel, program if shape else "", semiring=semiring, run=not no_run and target != "aarch64",
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


def _read(path: Path) -> Any:
    from planish.base.files import read_bytes

    return read_bytes(path).decode(errors="replace")
