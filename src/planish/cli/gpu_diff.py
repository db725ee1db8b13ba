"""`planish gpu diff`: two kernels side by side."""

from __future__ import annotations

import json

import click


@click.command("diff", no_args_is_help=True)
@click.argument("first")
@click.argument("second")
@click.option("--target", default="", metavar="cuda:sm_90|..", help="For source; else the file's.")
@click.option("--signature", default="", help="Of Triton functions, as for inspect.")
@click.option("--warps", default=4, show_default=True, help="Of Triton functions.")
@click.option("--stages", default=3, show_default=True, help="Of Triton functions.")
@click.option("--threads", default=0, help="Of a block, where a binary does not say.")
@click.option(
    "--shared", type=int, default=None, help="Bytes of shared memory given at the launch."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    first: str,
    second: str,
    target: str,
    signature: str,
    warps: int,
    stages: int,
    threads: int,
    shared: int | None,
    as_json: bool,
) -> None:
    """Compare the kernels of FIRST and SECOND by name (files with one kernel each: those).

    \b
    planish gpu diff old.cubin new.cubin
    planish gpu diff "kernels.py:a" "kernels.py:b" --signature "*fp32:16, i32, 1024"
    """
    from planish.base.errors import UsageError
    from planish.tune.gpu_inspect import Launch, difference, inspect

    launch = Launch(signature, warps, stages)
    before, after = (
        inspect(what, target=target, launch=launch, threads=threads, shared=shared)
        for what in (first, second)
    )
    if len(before) == len(after) == 1:
        pairs = [(before[0], after[0])]
    else:
        others = {one.facts.name: one for one in after}
        pairs = [(a, others[a.facts.name]) for a in before if a.facts.name in others]
    if not pairs:
        raise UsageError("the files have no kernel of one name in common")
    found = [
        {"kernel": a.facts.name, "rows": [list(row) for row in difference(a, b)]} for a, b in pairs
    ]
    if as_json:
        print(json.dumps({"kernels": found}, indent=2))
        return
    for one in found:
        print(one["kernel"])
        for what, old, new in one["rows"]:
            print(f"  {what:32} {old:>24} -> {new}")
        if not one["rows"]:
            print("  no difference")
