"""Which tensor program is meant: an einsum, or tensors that a Python file defines."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planish.base.errors import UsageError

if TYPE_CHECKING:
    from planish.tensor.expr import Tensor


_TYPES = "f32, f64, f16, bf16, i8, u8, i16, i32, i64, bool"
_Command = Callable[..., Any]


def program_options(type_name: str = "f32", types: str = _TYPES) -> Callable[[_Command], _Command]:
    """Add PROGRAM, --shape, --type and --semiring: `program`, `shape`, `type_name`, `semiring`.

    type_name  the default of --type
    types      what its help names
    """
    options = (
        click.argument("program"),
        click.option(
            "--shape", default="", metavar="m=512,k=512,n=512",
            help="Lengths of all axes of the einsum.",
        ),
        click.option(
            "--type",
            "type_name",
            default=type_name,
            show_default=True,
            help=f"Element type of all operands: {types}.",
        ),
        click.option(
            "--semiring",
            default="sum-product",
            show_default=True,
            help="sum-product, min-plus, max-plus, max-times, or-and, xor-and.",
        ),
    )  # fmt: skip

    def add(function: _Command) -> _Command:
        for option in reversed(options):
            function = option(function)
        return function

    return add


def tensors_of(
    program: str, shape: str, type_name: str, semiring: str, modulo: int | None = None
) -> Tensor | list[Tensor]:
    """The tensors that PROGRAM names: those of `file.py:name`, or the result of an einsum."""
    name, _, attribute = program.rpartition(":")
    if name.endswith(".py"):
        if shape or semiring != "sum-product" or modulo is not None:
            raise UsageError(
                f"{program} says itself what it computes on which lengths",
                hint="--shape, --semiring and --modulo are for einsums",
            )
        return load_tensors(Path(name), attribute)
    if program.endswith(".py"):
        raise UsageError(f"{program} names no tensor", hint=f"write {program}:name")
    if not shape:
        raise UsageError("the einsum needs the lengths of its axes", hint="--shape m=64,k=64,n=64")
    from planish.tune.kernel_report import einsum_tensor

    return einsum_tensor(program, extents(shape), type_name, semiring=semiring, modulo=modulo)


def program_name(program: str, shape: str, type_name: str) -> str:
    """How a lockfile calls the program."""
    return f"{program} {shape} {type_name}".strip() if shape else program


def load_tensors(path: Path, name: str) -> list[Tensor]:
    """Tensors that a Python file has under a name, or that a function of that name returns."""
    import runpy

    from planish.base.errors import unknown
    from planish.base.files import read_bytes
    from planish.tensor.expr import Tensor

    read_bytes(path)
    try:
        names = runpy.run_path(str(path))
    except Exception as error:
        raise UsageError(f"{path} fails: {type(error).__name__}: {error}") from error
    if name not in names:
        raise unknown("name", name, [n for n in names if not n.startswith("_")])
    found = names[name]
    try:
        found = found() if callable(found) and not isinstance(found, Tensor) else found
    except Exception as error:
        raise UsageError(f"{path}:{name} fails: {type(error).__name__}: {error}") from error
    several = list(found) if isinstance(found, list | tuple) else [found]
    if not several or not all(isinstance(t, Tensor) for t in several):
        raise UsageError(f"{path}:{name} gives no tensors", hint="define() makes one")
    return several


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
