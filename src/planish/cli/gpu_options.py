"""Options of the `planish gpu` commands that make kernels of a tensor program."""

from __future__ import annotations

import click

from planish.cli.program_options import program_options

ARCHITECTURES = "cuda:sm_80|cuda:sm_90|cuda:sm_100|hip:gfx90a|hip:gfx942"

gpu_program_options = program_options("f16", "f16, bf16, f32, f8e4m3, f8e5m2, i8, ..")
precision_option = click.option(
    "--precision", default="ieee", show_default=True, metavar="ieee|tf32|tf32x3|narrow",
    help="Of products of f32; narrow also rounds computed factors to 16 bits.",
)  # fmt: skip
