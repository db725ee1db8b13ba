"""`planish gpu compile`: a tensor program to Triton kernels, checked and compiled ahead of time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planish.base.errors import UsageError
from planish.cli.gpu_options import ARCHITECTURES, gpu_program_options, precision_option
from planish.cli.program_options import program_name, tensors_of

if TYPE_CHECKING:
    from planish.tune.gpu_kernels import GpuKernel


@click.command("compile", no_args_is_help=True)
@gpu_program_options
@click.option(
    "--target", default="cuda:sm_90", show_default=True,
    metavar=ARCHITECTURES, help="Architecture.",
)  # fmt: skip
@click.option(
    "--tiles", multiple=True, metavar="'NAME: m=64 n=64 k=32 warps=4'",
    help="Tiles of one kernel, by its result; rules choose otherwise.",
)  # fmt: skip
@precision_option
@click.option("--rank", default=0, metavar="N", help="Show the N best tiles by the estimate.")
@click.option("--best", is_flag=True, help="Take the tiles that the estimate ranks first.")
@click.option("--check", is_flag=True, help="Run on the CPU by Triton's interpreter (slow).")
@click.option("--source", is_flag=True, help="Show the Triton source.")
@click.option("--no-build", is_flag=True, help="Lower only; Triton is not needed.")
@click.option(
    "--output", "-o", type=click.Path(path_type=Path), default=None,
    help="A folder for source, binaries and launch.json.",
)  # fmt: skip
@click.option(
    "--lock", type=click.Path(path_type=Path), default=None,
    help="Keep the tiles in this lockfile; with --replay, take them from there.",
)  # fmt: skip
@click.option("--replay", is_flag=True, help="Take the tiles from the lockfile.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    program: str,
    shape: str,
    type_name: str,
    semiring: str,
    target: str,
    tiles: tuple[str, ...],
    precision: str,
    rank: int,
    best: bool,
    check: bool,
    source: bool,
    no_build: bool,
    output: Path | None,
    lock: Path | None,
    replay: bool,
    as_json: bool,
) -> None:
    """Lower PROGRAM to Triton kernels, compile them ahead of time and judge them.

    PROGRAM is an einsum, or file.py:name for tensors that a Python file defines (or a function
    that returns them). No GPU is needed.

    \b
    planish gpu compile "mk,kn->mn" --shape m=512,k=512,n=512 --source
    planish gpu compile "mk,kn->mn" --shape m=64,k=64,n=64 --tiles "out: m=32 n=32 k=32" --check
    planish gpu compile model.py:attention --target hip:gfx942 -o kernels/
    """
    from planish.tune.gpu_kernels import gpu_kernel, parse_recipe
    from planish.tune.gpu_space import best_by_estimate, entry, from_lock

    tensors = tensors_of(program, shape, type_name, semiring)
    name = program_name(program, shape, type_name)
    if replay and lock is None:
        raise UsageError("--replay takes the tiles from a lockfile", hint="--lock planish.lock")
    if sum((replay, best, bool(tiles))) > 1:
        raise UsageError("--tiles, --best and --replay exclude each other")
    if replay and lock is not None:
        kernel = from_lock(lock, name, tensors, target=target)
    elif best:
        kernel = best_by_estimate(tensors, target=target, precision=precision)
    else:
        configs, _ = parse_recipe("\n".join(tiles))
        kernel = gpu_kernel(tensors, target=target, configs=configs, precision=precision)
    found = _work(kernel, rank=rank, check=check, build=not no_build, output=output)
    if lock is not None and not replay:
        from planish.store.lockfile import update

        update(lock, [entry(kernel, name, found.get("check", {}).get("verdict", "unknown"))])
        found["wrote"].append(str(lock))
    if source:
        found["source"] = kernel.source
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    if found.get("check", {}).get("grade") == "refuted":
        raise UsageError(f"the check refutes the kernel: {found['check']['verdict']}",
                         hint="this is a fault of Planish; please report it")  # fmt: skip


def _work(
    kernel: GpuKernel, *, rank: int, check: bool, build: bool, output: Path | None
) -> dict[str, Any]:
    from planish.tune.gpu_inspect import of_built
    from planish.tune.gpu_kernels import workers
    from planish.tune.gpu_space import KernelSpace

    found: dict[str, Any] = {
        "target": kernel.target, "recipe": kernel.recipe,
        "kernels": [
            {"name": k.name, "form": k.form, "grid": list(k.grid), "tiles": str(k.config),
             "computes": list(k.what)} for k in kernel.kernels
        ],
        "wrote": [],
    }  # fmt: skip
    if rank:
        space = KernelSpace(kernel)
        found["ranking"] = {
            n: [{"tiles": str(r.config), "estimate": r.estimate} for r in space.ranked(n, rank)]
            for n in space.names
        }
    if check:
        checked = kernel.check()
        found["check"] = {"grade": checked.verdict.grade.value, "verdict": str(checked.verdict)}
    if not build and output is None:
        return found
    with workers("compile") as pool:
        built = kernel.compiled(pool)
        if output is not None:
            found["wrote"] += [str(p) for p in kernel.save(output, pool=pool)]
    found["compile_seconds"] = sum(b.seconds for b in built)
    found["judged"] = [
        of_built(b, kernel.target, k.name, k.grid).to_json()
        for b, k in zip(built, kernel.kernels, strict=True)
    ]
    return found


def _show(found: dict[str, Any]) -> None:
    from planish.cli.gpu_show import show_inspection

    if "source" in found:
        print(found["source"])
    print(f"target     {found['target']}")
    for k in found["kernels"]:
        print(f"{k['name']}: {k['form']}, grid {' x '.join(map(str, k['grid']))}, {k['tiles']}")
    for name, rows in found.get("ranking", {}).items():
        print(f"\ntiles of {name} by the estimate (a ranking; nothing was timed)")
        best = rows[0]["estimate"] if rows else 1.0
        for row in rows:
            print(f"  {row['estimate'] / best:6.2f}  {row['tiles']}")
    if "check" in found:
        print(f"check      {found['check']['verdict']}")
    for one in found.get("judged", []):
        print()
        show_inspection(one)
    if found["wrote"]:
        print(f"\nwrote {', '.join(found['wrote'])}")
