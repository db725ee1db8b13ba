"""`planish gpu inspect`: what a GPU kernel's code shows, without running it."""

from __future__ import annotations

import json

import click


@click.command("inspect", no_args_is_help=True)
@click.argument("kernel")
@click.option("--target", default="", metavar="cuda:sm_90|..", help="For source; else the file's.")
@click.option(
    "--signature", default="", metavar="'*fp16:16, i32:16, 128'",
    help="Of a Triton function: types (:16 for multiples of 16) and constants, in order.",
)  # fmt: skip
@click.option("--warps", default=4, show_default=True, help="Of a Triton function.")
@click.option("--stages", default=3, show_default=True, help="Of a Triton function.")
@click.option("--threads", default=0, help="Of a block, where a binary does not say.")
@click.option(
    "--shared", type=int, default=None, help="Bytes of shared memory given at the launch."
)
@click.option("--name", default="", help="Only kernels with this in their name.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    kernel: str,
    target: str,
    signature: str,
    warps: int,
    stages: int,
    threads: int,
    shared: int | None,
    name: str,
    as_json: bool,
) -> None:
    """Judge KERNEL: a cubin, hsaco, PTX or .cu file, or file.py:function for a Triton function.

    Registers, spills, shared memory, occupancy and what limits it, widths and coalescing of
    accesses, pipelining, conversions, bank conflicts, roofline; findings with line and suggestion.

    \b
    planish gpu inspect kernel.cubin
    planish gpu inspect kernel.cu --target cuda:sm_80 --json
    planish gpu inspect kernels.py:matmul --signature "*fp16:16, *fp16:16, *fp16:16, 512, 64"
    """
    from planish.base.errors import UsageError
    from planish.cli.gpu_show import show_inspection
    from planish.tune.gpu_inspect import Launch, inspect

    found = inspect(
        kernel, target=target, launch=Launch(signature, warps, stages), threads=threads,
        shared=shared,
    )  # fmt: skip
    chosen = [one.to_json() for one in found if name in one.facts.name]
    if not chosen:
        known = ", ".join(one.facts.name for one in found)
        raise UsageError(f"no kernel with '{name}' in its name", hint=f"there are: {known}")
    if as_json:
        print(json.dumps({"kernels": chosen}, indent=2))
        return
    for at, one in enumerate(chosen):
        if at:
            print()
        show_inspection(one)
