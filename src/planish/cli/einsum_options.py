"""The options that say which einsum is meant, for every command that takes one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click


def einsum_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add EINSUM, --shape, --type and --semiring: `einsum`, `shape`, `type_name`, `semiring`."""
    for add in reversed(
        (
            click.argument("einsum"),
            click.option(
                "--shape", required=True, metavar="m=512,k=512,n=512", help="Lengths of all axes."
            ),
            click.option(
                "--type",
                "type_name",
                default="f32",
                show_default=True,
                help="Element type of all operands: f32, f64, f16, bf16, i8, u8, i16, i32, i64, "
                "bool.",
            ),
            click.option(
                "--semiring",
                default="sum-product",
                show_default=True,
                help="sum-product, min-plus, max-plus, max-times, or-and, xor-and.",
            ),
        )
    ):
        function = add(function)
    return function
