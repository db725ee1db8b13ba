"""`planish gpu tune`: the tiles of a tensor program's kernels, by the estimate or by measuring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from planish.base.errors import LockError, UsageError
from planish.cli.gpu_options import ARCHITECTURES, gpu_program_options, precision_option

if TYPE_CHECKING:
    from planish.tensor.expr import Tensor
    from planish.tune.gpu_kernels import GpuKernel
    from planish.tune.gpu_tune import TunedGpu


@click.command("tune", no_args_is_help=True)
@gpu_program_options
@click.option(
    "--target", default="", metavar=ARCHITECTURES,
    help="Architecture; this machine's GPU, else cuda:sm_90.",
)  # fmt: skip
@precision_option
@click.option(
    "--count",
    default=8,
    type=click.IntRange(1),
    show_default=True,
    help="Tiles of each kernel to compile.",
)
@click.option(
    "--jobs",
    "-j",
    default=1,
    type=click.IntRange(1),
    show_default=True,
    help="Compilers side by side.",
)
@click.option(
    "--rounds",
    default=30,
    type=click.IntRange(2),
    show_default=True,
    help="Samples of each, with a GPU.",
)
@click.option("--seed", default=0, show_default=True, help="Of inputs and of the order.")
@click.option("--no-measure", is_flag=True, help="By the estimate, although there is a GPU.")
@click.option("--check", is_flag=True, help="Run the result by Triton's interpreter (slow).")
@click.option(
    "--lock", type=click.Path(path_type=Path), default=None,
    help="Keep the tiles in this lockfile; what it has for this program is taken at once.",
)  # fmt: skip
@click.option("--again", is_flag=True, help="Tune although the lockfile has the program.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    program: str,
    shape: str,
    type_name: str,
    semiring: str,
    target: str,
    precision: str,
    count: int,
    jobs: int,
    rounds: int,
    seed: int,
    no_measure: bool,
    check: bool,
    lock: Path | None,
    again: bool,
    as_json: bool,
) -> None:
    """Rank the tiles of PROGRAM's kernels, compile the best, drop what spills, keep one.

    Without a GPU nothing is timed: the first by the estimate is kept that compiles without spills.
    With a GPU of the target those that are left are measured beside the rules' tiles.

    \b
    planish gpu tune "mk,kn->mn" --shape m=512,k=512,n=512 --lock planish.lock
    planish gpu compile "mk,kn->mn" --shape m=512,k=512,n=512 --lock planish.lock --replay
    planish gpu tune model.py:attention --target hip:gfx942 --count 20 --jobs 4
    """
    from planish.base.files import check_writable
    from planish.cli.program_options import program_name, tensors_of

    tensors = tensors_of(program, shape, type_name, semiring)
    name = program_name(program, shape, type_name)
    if lock is not None:
        check_writable(lock)
    device, torch = (None, None) if no_measure else _device(target)
    target = target or (device.target if device is not None else "cuda:sm_90")
    kept = None if again or lock is None else _kept(lock, name, tensors, target, as_json)
    if kept is not None:
        _show_kept(kept, lock, as_json)
        return
    from planish.tune.gpu_tune import tune_gpu_kernel

    calls: Any = None
    if device is not None:
        from functools import partial

        from planish.tune.gpu_contests import kernel_call

        calls = partial(kernel_call, torch=torch)
    tuned = tune_gpu_kernel(
        tensors, target=target, precision=precision, count=count, jobs=jobs, device=device,
        measure=calls, rounds=rounds, seed=seed,
    )  # fmt: skip
    found = _report(tuned, check)
    if lock is not None:
        from planish.store.lockfile import update
        from planish.tune.gpu_space import entry

        update(lock, [entry(tuned.kernel, name, found.get("verdict", "unknown"))])
        found["wrote"] = str(lock)
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _show(found)
    if found.get("grade") == "refuted":
        raise UsageError(f"the check refutes the kernel: {found['verdict']}",
                         hint="this is a fault of Planish; please report it")  # fmt: skip


def _device(target: str) -> tuple[Any, Any]:
    """This machine's GPU with torch, where it is one of the target's; else nothing."""
    from planish.gpu.hardware import hardware_of
    from planish.tune.gpu_bench import TorchDevice, find_gpu

    try:
        torch = find_gpu()
    except UsageError:
        return None, None
    device = TorchDevice()
    if target and hardware_of(target).target != device.target:
        return None, None
    return device, torch


def _kept(
    lock: Path, name: str, tensors: Tensor | list[Tensor], target: str, quiet: bool
) -> GpuKernel | None:
    from planish.store.lockfile import load
    from planish.tune.gpu_space import from_lock

    if not lock.exists() or not load(lock).find(name, "gpu", target):
        return None
    try:
        return from_lock(lock, name, tensors, target=target)
    except LockError as error:
        if not quiet:
            print(f"tuning again: {error.message}")
        return None


def _show_kept(kernel: GpuKernel, lock: Path | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"kept": str(lock), "target": kernel.target, "recipe": kernel.recipe,
                          "compiled": 0}, indent=2))  # fmt: skip
        return
    print(f"{lock} has the tiles of this program for {kernel.target}; --again tunes anew")
    print(kernel.recipe)


def _report(tuned: TunedGpu, check: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "target": tuned.kernel.target, "recipe": tuned.kernel.recipe,
        "chosen_by": "measurement" if tuned.device else "estimate", "device": tuned.device,
        "compiled": tuned.compiled, "rejected": tuned.rejected, "seconds": tuned.seconds,
        "candidates": [c.to_json() for c in tuned.candidates],
    }  # fmt: skip
    if check:
        checked = tuned.kernel.check()
        found["verdict"], found["grade"] = str(checked.verdict), checked.verdict.grade.value
    return found


def _show(found: dict[str, Any]) -> None:
    print(f"target     {found['target']}")
    kernel = ""
    for c in found["candidates"]:
        if c["kernel"] != kernel:
            kernel = c["kernel"]
            print(f"\n{kernel}: estimate (a ranking, the rules' tiles first), registers, occupancy")
        measured = f" {c['seconds'] * 1e6:9.1f} us" if c["seconds"] is not None else ""
        print(
            f"  {c['estimate']:6.2f} {c['registers']:4} {c['occupancy']:4.0%}{measured}  "
            f"{c['tiles']}" + (f"   rejected: {c['rejected']}" if c["rejected"] else "")
        )
    how = f"measured on {found['device']}" if found["device"] else "by the estimate; nothing timed"
    print(f"\nkept, {how}\n{found['recipe']}")
    if "verdict" in found:
        print(f"check      {found['verdict']}")
    print(f"{found['compiled']} compiled, {found['rejected']} rejected, {found['seconds']:.1f} s")
    if "wrote" in found:
        print(f"wrote {found['wrote']}")
