"""Kernels on torch tensors: dispatch by strides and alignment; `torch.library` operators."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planish.base.config import read_config, triton_interprets
from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.base.hashing import digest
from planish.codegen.triton.source import launch_options
from planish.tensor.expr import Tensor

if TYPE_CHECKING:
    from types import ModuleType

    from planish.codegen.triton.lower import Lowered
    from planish.tune.gpu_kernels import GpuKernel

TORCH = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16", "i8": "int8",
    "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64", "bool": "bool",
    "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
}  # fmt: skip


def _torch() -> Any:
    try:
        return importlib.import_module("torch")
    except ImportError:
        raise UsageError(
            "torch is not installed, and a GPU kernel is called on its tensors",
            hint="pip install torch",
        ) from None


def launch(kernel: GpuKernel, tensors: Sequence[Any]) -> Any:
    """Run all kernels on the tensors' device; returns the output(s).

    With TRITON_INTERPRET=1, tensors of the CPU are taken, too, and Triton's interpreter runs them.

    Kernels are written for the strides that come (Triton itself specialises on whether pointers
    are multiples of 16), so that no copy is made of a view. Raises UsageError: types, shapes,
    devices.
    """
    torch = _torch()
    wanted = kernel.program.inputs
    if len(tensors) != len(wanted):
        names = ", ".join(t.name for t in wanted)
        raise UsageError(f"the kernel takes {len(wanted)} tensors: {names}")
    for given, tensor in zip(tensors, wanted, strict=True):
        _check(given, tensor, torch)
    devices = {t.device for t in tensors}
    device = devices.pop()
    if not devices and device.type == "cpu" and triton_interprets():
        from planish.tune.gpu_on_cpu import launch_on_cpu

        return launch_on_cpu(kernel, tensors, torch)
    if devices or device.type != "cuda":
        raise UsageError(
            f"the tensors lie on {device if not devices else 'several devices'}, and kernels run"
            " on one GPU", hint="move them: x.cuda(); TRITON_INTERPRET=1 runs them here, slowly",
        )  # fmt: skip
    lowered, modules = _prepared(kernel, tensors)
    memory = {t.name: x for t, x in zip(wanted, tensors, strict=True)}
    for t in (*kernel.program.outputs, *lowered.temporaries):
        dtype = getattr(torch, TORCH[t.type.name])
        memory[t.name] = torch.empty(t.shape, dtype=dtype, device=device)
    run(lowered, modules, memory, torch)
    found = tuple(memory[t.name] for t in kernel.program.outputs)
    return found[0] if len(found) == 1 else found


def run(
    lowered: Lowered, modules: Sequence[ModuleType], memory: dict[str, Any], torch: Any
) -> None:
    """Launch the kernels on tensors by name."""
    for source, module in zip(lowered.kernels, modules, strict=True):
        function = getattr(module, source.name)
        arguments = [
            m.view(torch.uint8) if m.element_size() == 1 and m.dtype != torch.int8 else m
            for m in (memory[t.name] for t in source.tensors)
        ]
        function[source.grid](*arguments, **launch_options(source))


def _prepared(kernel: GpuKernel, tensors: Sequence[Any]) -> tuple[Lowered, list[ModuleType]]:
    strides = {
        t.name: tuple(x.stride()) for t, x in zip(kernel.program.inputs, tensors, strict=True)
    }
    key = tuple(sorted(strides.items()))
    if key not in kernel._launchers:
        plain = all(x.is_contiguous() for x in tensors)
        lowered = kernel.lowered if plain else kernel.lowered_for(strides)
        kernel._launchers[key] = (lowered, [load(k.text) for k in lowered.kernels])
    found: tuple[Lowered, list[ModuleType]] = kernel._launchers[key]
    return found


def load(text: str) -> ModuleType:
    """A module of that source in this process; Triton reads its lines from the file."""
    name = f"planish_gpu_{digest(text)}"
    if name in sys.modules:
        return sys.modules[name]
    path = Path(read_config().cache_dir) / "gpu" / "sources" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _check(given: Any, wanted: Tensor, torch: Any) -> None:
    if not isinstance(given, torch.Tensor):
        raise UsageError(f"{wanted.name} is to be a torch tensor, not {type(given).__name__}")
    dtype = getattr(torch, TORCH[wanted.type.name])
    if given.dtype != dtype:
        raise UsageError(f"{wanted.name} is of {given.dtype}, and the kernel was made for {dtype}",
                         hint=f"convert it: {wanted.name}.to({dtype})")  # fmt: skip
    if tuple(given.shape) != wanted.shape:
        raise UsageError(
            f"{wanted.name} has the shape {list(given.shape)}, and the kernel was made for"
            f" {list(wanted.shape)}"
        )


def register(kernel: GpuKernel, name: str) -> Any:
    """The kernel as operator `namespace::name`, with a fake for tracing (torch.compile, export)."""
    torch = _torch()
    if name.count("::") != 1:
        raise UsageError(f"'{name}' names no operator", hint="write namespace::name")
    inputs = ", ".join(f"Tensor {_safe(t.name)}" for t in kernel.program.inputs)
    results = ", ".join("Tensor" for _ in kernel.program.outputs)
    schema = f"({inputs}) -> {results if len(kernel.program.outputs) == 1 else f'({results})'}"

    def call(*tensors: Any) -> Any:
        return launch(kernel, tensors)

    def fake(*tensors: Any) -> Any:
        for given, wanted in zip(tensors, kernel.program.inputs, strict=True):
            _check(given, wanted, torch)
        made = tuple(
            tensors[0].new_empty(t.shape, dtype=getattr(torch, TORCH[t.type.name]))
            for t in kernel.program.outputs
        )
        return made[0] if len(made) == 1 else made

    try:
        operator = torch.library.custom_op(name, call, mutates_args=(), schema=schema)
    except (RuntimeError, ValueError) as error:
        raise UsageError(
            f"torch does not take the operator '{name}': {str(error).splitlines()[0]}",
            hint="write namespace::name, with letters, digits and _",
        ) from error
    operator.register_fake(fake)
    return operator


def _safe(name: str) -> str:
    return f"{name}_" if name in ("self", "out") else name
