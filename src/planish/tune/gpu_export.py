"""Kernels written to a folder: source, binaries, and what is needed to launch them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.codegen.triton.source import argument, launch_options
from planish.tune import gpu_standalone
from planish.tune.gpu_torch import TORCH

if TYPE_CHECKING:
    from planish.proc.pool import Pool
    from planish.tune.gpu_kernels import GpuKernel

_BINARIES = {"cubin": "cubin", "hsaco": "hsaco", "ptx": "ptx", "amdgcn": "s", "ttgir": "ttgir"}


def export(kernel: GpuKernel, folder: Path, pool: Pool | None) -> list[Path]:
    """Write one .py and one binary a kernel, and `launch.json`; returns the paths."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make {folder}: {error.strerror or error}") from error
    built = kernel.compiled(pool)
    wrote: list[Path] = []
    calls = []
    for source, made in zip(kernel.kernels, built, strict=True):
        path = folder / f"{source.name}.py"
        write_atomic(path, source.text)
        wrote.append(path)
        for stage, suffix in _BINARIES.items():
            if stage in made.asm:
                path = folder / f"{source.name}.{suffix}"
                write_atomic(path, made.asm[stage])
                wrote.append(path)
        threads = source.config.warps * kernel.hardware.warp
        calls.append(
            {
                "function": made.name, "grid": list(source.grid), "block": [threads, 1, 1],
                "shared_bytes": made.shared, "config": str(source.config),
                "arguments": [argument(t.name) for t in source.tensors],
                "source": source.name, "tensors": [t.name for t in source.tensors],
                "options": launch_options(source),
            }
        )  # fmt: skip
    program = kernel.program
    description: dict[str, Any] = {
        "target": kernel.target,
        "tensors": {
            t.name: {"shape": list(t.shape), "type": t.type.name, "torch": TORCH[t.type.name],
                     "role": role}
            for role, group in (("input", program.inputs), ("output", program.outputs),
                                ("temporary", kernel.lowered.temporaries))
            for t in group
        },
        "kernels": calls,
        "note": "pointers in order of the arguments, 16-byte aligned, row-major; NVIDIA kernels"
        " take two more null pointers (scratch memory)",
    }  # fmt: skip
    path = folder / "launch.json"
    write_atomic(path, json.dumps(description, indent=2) + "\n")
    launcher = folder / "run.py"
    write_atomic(launcher, Path(gpu_standalone.__file__).read_text())
    return [*wrote, path, launcher]
