"""`planish gpu inspect` and `diff`: any GPU kernel to facts and findings."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from planish.advise.finding import Finding
from planish.advise.kernel_facts import KernelFacts, gather
from planish.advise.kernel_rules import judge
from planish.base.errors import UsageError
from planish.base.files import read_bytes
from planish.gpu.hardware import hardware_of
from planish.gpu.resources import (
    assemble_ptx,
    compile_cuda,
    ptx_target,
    read_cubin,
    read_hsaco,
)
from planish.proc.pool import Call
from planish.tune.gpu_kernels import GpuKernel, workers
from planish.tune.gpu_worker import Build, Built, Describe


@dataclass(frozen=True)
class Inspection:
    """A kernel with what was found."""

    facts: KernelFacts
    findings: tuple[Finding, ...]

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {**self.facts.to_json(), "findings": [f.to_json() for f in self.findings]}


@dataclass(frozen=True)
class Launch:
    """How a Triton function is compiled, in the syntax of Triton's own compile tool.

    signature  types and constants in the order of parameters: "*fp16:16, i32:16, 128"
    """

    signature: str = ""
    warps: int = 4
    stages: int = 3


def inspect(
    what: str, *, target: str = "", launch: Launch | None = None, threads: int = 0,
    shared: int | None = None,
) -> list[Inspection]:  # fmt: skip
    """All kernels of a file: cubin, hsaco, PTX, CUDA C, or `file.py:function` (Triton).

    target   architecture for what is not compiled yet (cuda:sm_90), and of an hsaco
    threads  of a block, and shared bytes given at the launch, where the binary does not say
    Raises UsageError, ToolchainError.
    """
    name, _, function = what.rpartition(":")
    if name.endswith(".py") and function:
        return inspect_triton(Path(name), function, target or "cuda:sm_90", launch or Launch())
    path = Path(what)
    if path.suffix == ".py":
        raise UsageError(f"{what} names no function", hint=f"write {what}:function")
    data = read_bytes(path)
    if path.suffix in (".cu", ".cuh"):
        chosen = target or "cuda:sm_90"
        return _binary(compile_cuda(path, chosen), chosen, path, threads, shared)
    if data[:4] == b"\x7fELF":
        return _binary(data, target, path, threads, shared)
    if re.search(rb"^\s*\.version\s", data, re.MULTILINE) and b".target" in data:
        chosen = f"cuda:{ptx_target(data)}"
        hardware_of(target or chosen)
        return _binary(assemble_ptx(data, chosen), target or chosen, path, threads, shared)
    raise UsageError(
        f"{path} is no GPU kernel",
        hint="inspect reads cubin, hsaco, PTX, CUDA C (.cu), or file.py:function for Triton",
    )


def _binary(
    data: bytes, target: str, path: Path, threads: int, shared: int | None
) -> list[Inspection]:
    machine = int.from_bytes(data[18:20], "little")
    if machine == 224:  # EM_AMDGPU
        hardware = hardware_of(target or _amd_target(data))
        resources = read_hsaco(data)
    elif machine == 190:  # EM_CUDA
        hardware = hardware_of(target or _cuda_target(data))
        resources = read_cubin(data)
    else:
        raise UsageError(f"{path} is an ELF file for another machine ({machine})",
                         hint="a cubin or an hsaco file is needed")  # fmt: skip
    found = []
    for one in resources:
        facts = gather(one, hardware, threads=threads, shared=shared, file=path.name)
        found.append(Inspection(facts, tuple(judge(facts))))
    return found


def _cuda_target(data: bytes) -> str:
    """The architecture in the flags of a cubin's header: bits 0-7 before CUDA 13, 8-15 since."""
    flags = int.from_bytes(data[48:52], "little")
    for number in (flags >> 8 & 0xFF, flags & 0xFF):
        if number in (80, 90, 100):
            return f"cuda:sm_{number}"
    raise UsageError("the cubin's architecture is not among those known",
                     hint="name the nearest: --target cuda:sm_90")  # fmt: skip


def _amd_target(data: bytes) -> str:
    match = re.search(rb"amdgcn-amd-amdhsa--(gfx\w+)", data)
    if match is None:
        raise UsageError("the code object does not name its target", hint="--target hip:gfx942")
    return f"hip:{match[1].decode()}"


def of_built(built: Built, target: str, file: str = "", grid: tuple[int, ...] = ()) -> Inspection:
    """A kernel that Triton has compiled."""
    hardware = hardware_of(target)
    texts = {
        k: built.asm[k].decode(errors="replace") for k in ("ttgir", "ptx", "amdgcn")
        if k in built.asm
    }  # fmt: skip
    [resources] = (
        read_cubin(built.asm["cubin"]) if "cubin" in built.asm else read_hsaco(built.asm["hsaco"])
    )
    # AMD's descriptor counts shared memory as Triton gives it; NVIDIA's is given at the launch.
    given = max(0, built.shared - resources.shared)
    facts = gather(resources, hardware, shared=given, texts=texts, file=file or built.file,
                   grid=grid)  # fmt: skip
    # Sources that were compiled from text lie in the cache, under names that say nothing.
    kept, said = Path(built.file).name, Path(file).name if file else ""
    said = said if said.endswith(".py") or not said else f"{said}.py"
    found = [replace(f, where=f.where.replace(kept, said or kept)) for f in judge(facts)]
    return Inspection(facts, tuple(found))


def inspect_kernel(kernel: GpuKernel) -> list[Inspection]:
    """All kernels of a tensor program."""
    pairs = zip(kernel.compiled(), kernel.kernels, strict=True)
    return [of_built(b, kernel.target, s.name, s.grid) for b, s in pairs]


def inspect_triton(path: Path, function: str, target: str, launch: Launch) -> list[Inspection]:
    """A Triton function, compiled for the target."""
    read_bytes(path)
    hardware_of(target)
    with workers("compile") as pool:
        [described] = pool.run([Call((), Describe(str(path.resolve()), function))])
        if described.failure is not None:
            raise UsageError(f"{path}: {described.reason.splitlines()[-1]}")
        request = triton_build(path, function, described.value, target, launch)
        [reply] = pool.run([Call((), request)])
    if reply.failure is not None:
        raise UsageError(
            f"{function} does not compile for {target}: {reply.reason.strip().splitlines()[-1]}",
            hint="do the signature and the constants fit?",
        )
    return [of_built(reply.value, target, str(path))]


def triton_build(
    path: Path, function: str, parameters: Sequence[tuple[str, bool, Any]], target: str,
    launch: Launch,
) -> Build:  # fmt: skip
    """The request for a function with a signature in Triton's syntax."""
    words = [w.strip() for w in launch.signature.split(",")] if launch.signature else []
    defaults = [d for _, _, d in parameters]
    while len(words) < len(parameters) and defaults[len(words)] is not None:
        words.append(str(defaults[len(words)]))
    if len(words) != len(parameters):
        names = ", ".join(f"{n}{' (constant)' if c else ''}" for n, c, _ in parameters)
        raise UsageError(
            f"{function} has {len(parameters)} parameters and the signature {len(words)}",
            hint=f'--signature "*fp16:16, i32:16, 128" for: {names}',
        )
    signature: list[tuple[str, str]] = []
    constants: list[tuple[str, Any]] = []
    aligned: list[str] = []
    for (name, _, _), word in zip(parameters, words, strict=True):
        kind, _, hint = word.partition(":")
        if re.fullmatch(r"\*?[a-z]\w*", kind) and kind not in ("True", "False"):
            if hint == "1" and not kind.startswith("*"):
                constants.append((name, 1))
                continue
            signature.append((name, kind))
            if hint == "16":
                aligned.append(name)
            continue
        try:
            constants.append((name, _constant(word)))
        except ValueError:
            raise UsageError(
                f"cannot read '{word}' of the signature",
                hint="types like *fp16:16, i32; numbers for constants",
            ) from None
    return Build(
        "", function, tuple(signature), tuple(constants), tuple(aligned), target, launch.warps,
        launch.stages, str(path.resolve()),
    )  # fmt: skip


def _constant(word: str) -> int | float | bool | str:
    if word in ("True", "False"):
        return word == "True"
    if word[:1] in "\"'":
        return word.strip("\"'")
    return float(word) if "." in word else int(word)


def difference(a: Inspection, b: Inspection) -> list[tuple[str, str, str]]:
    """Rows (what, first, second) of all that differs."""
    first, second = (_flat(x.to_json()) for x in (a, b))
    keys = [k for k in dict.fromkeys([*first, *second]) if first.get(k) != second.get(k)]
    rows = [(k, first.get(k, "-"), second.get(k, "-")) for k in keys if k != "kernel"]
    mine, theirs = ({f"{f.rule} at {f.where}" for f in x.findings} for x in (a, b))
    rows += [("finding", f, "-") for f in sorted(mine - theirs)]
    rows += [("finding", "-", f) for f in sorted(theirs - mine)]
    return rows


def _flat(value: dict[str, Any], before: str = "") -> dict[str, str]:
    found: dict[str, str] = {}
    for key, inner in value.items():
        if isinstance(inner, dict):
            found |= _flat(inner, f"{before}{key} ")
        elif key != "findings":
            text = f"{inner:.3g}" if isinstance(inner, float) else str(inner)
            found[f"{before}{key}"] = text
    return found
