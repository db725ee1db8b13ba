"""Tensor programs as GPU kernels: lowered, checked on the CPU, compiled ahead of time, called.

`gpu_kernel` makes a GpuKernel; nothing that it does needs a GPU but a call on torch tensors.
"""

from __future__ import annotations

import functools
import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from planish.base.errors import CompileError, UsageError
from planish.base.records import Grade, Verdict
from planish.codegen.triton.lower import Lowered, lower_program
from planish.codegen.triton.source import POINTERS, Config, KernelSource, argument
from planish.gpu.hardware import Hardware, hardware_of
from planish.proc.pool import Call, Pool, Reply
from planish.tensor.expr import Expr, Tensor
from planish.tensor.program import Program, lower
from planish.tune.gpu_checks import Checked, compare, interpret_request, random_inputs
from planish.tune.gpu_worker import HANDLER, Build, Built
from planish.tune.tensors import as_tensors

Array = np.ndarray[Any, Any]
# gfx942 multiplies f8 of another format (without negative zero), sm_80 and gfx90a none.
_MULTIPLY_F8 = ("sm_90", "sm_100")
_SECONDS = 120.0
_MEMORY = 24 << 30  # address space: Triton maps more than it touches


def need_triton() -> None:
    """Raise UsageError where Triton is not installed."""
    if importlib.util.find_spec("triton") is None:
        raise UsageError(
            "Triton is not installed, and GPU kernels are compiled and checked by it",
            hint="pip install 'planish[gpu]'; lowering to source works without",
        )


@contextmanager
def workers(kind: str, jobs: int = 1) -> Iterator[Pool]:
    """Worker processes that compile, or interpret, kernels."""
    need_triton()
    with Pool(HANDLER, kind, jobs=jobs, seconds=_SECONDS, memory=_MEMORY) as pool:
        yield pool


class GpuKernel:
    """A tensor program for one GPU architecture.

    source     Triton source of all kernels
    kernels    each with its grid and configuration
    configs    choices by the name of each kernel's result
    """

    def __init__(
        self, program: Program, *, target: str = "cuda:sm_90",
        configs: Mapping[str, Config] | None = None, precision: str = "ieee",
    ) -> None:  # fmt: skip
        self.program = program
        self.hardware: Hardware = hardware_of(target)
        self.precision = precision
        self._given = dict(configs or {})
        self._launchers: dict[tuple[Any, ...], Any] = {}

    @property
    def target(self) -> str:
        """cuda:sm_90, hip:gfx942, .."""
        return self.hardware.target

    @functools.cached_property
    def lowered(self) -> Lowered:
        """The kernels for row-major tensors."""
        return self.lowered_for({})

    def lowered_for(self, strides: Mapping[str, tuple[int, ...]]) -> Lowered:
        """The kernels for tensors with these strides (elements)."""
        return lower_program(
            self.program, configs=self._given, strides=strides, precision=self._precision(),
            f8=self.hardware.name in _MULTIPLY_F8,
        )  # fmt: skip

    def _precision(self) -> str:
        # AMD's matrix cores before gfx942 have no tf32.
        if self.precision.startswith("tf32") and self.hardware.vendor == "hip":
            return "ieee"
        return self.precision

    @property
    def source(self) -> str:
        """What a person reads: the Triton source of all kernels."""
        return self.lowered.source

    @property
    def kernels(self) -> tuple[KernelSource, ...]:
        """The kernels in order."""
        return self.lowered.kernels

    @property
    def configs(self) -> Mapping[str, Config]:
        """The choices that the kernels were written with."""
        return self.lowered.configs

    @property
    def recipe(self) -> str:
        """The choices as text, one line a kernel."""
        words = [f"{name}: {config}" for name, config in self.configs.items()]
        return "\n".join([*words, f"precision: {self.precision}"])

    def compiled(self, pool: Pool | None = None, *, aligned: bool = True) -> list[Built]:
        """Every kernel compiled for the target, in a worker process.

        aligned  for tensors that begin at multiples of 16 bytes (torch's allocator gives 512)
        Raises CompileError with the kernel and Triton's reason.
        """
        if pool is None:
            with workers("compile") as own:
                return self.compiled(own, aligned=aligned)
        calls = [Call((), build_request(k, self.target, aligned=aligned)) for k in self.kernels]
        replies = pool.run(calls)
        return [_built(k, r, self.target) for k, r in zip(self.kernels, replies, strict=True)]

    def check(
        self, arrays: Mapping[str, Array] | None = None, pool: Pool | None = None, *, seed: int = 0
    ) -> Checked:
        """Run on the CPU by Triton's interpreter, and compare with the reference.

        Outputs and temporaries hold NaN before; every access is checked. For small programs: one
        block of a product takes 10 to 30 ms.
        """
        if pool is None:
            with workers("interpret") as own:
                return self.check(arrays, own, seed=seed)
        given = dict(arrays) if arrays is not None else random_inputs(self.program, seed)
        request = interpret_request(self.program, self.lowered, given)
        [reply] = pool.run([Call((), request)])
        if reply.failure is not None:
            return Checked(Verdict(Grade.REFUTED, reply.reason))
        return compare(self.program, given, reply.value)

    def save(self, folder: str | Path, *, pool: Pool | None = None) -> list[Path]:
        """Write source, binaries and a description: what is needed to launch without Planish."""
        from planish.tune.gpu_export import export

        return export(self, Path(folder), pool)

    def __call__(self, *tensors: Any) -> Any:
        """Run on torch tensors that lie on a GPU; returns the output(s)."""
        from planish.tune.gpu_torch import launch

        return launch(self, tensors)

    def custom_op(self, name: str) -> Any:
        """Register as `torch.library` operator `namespace::name`; returns the operator."""
        from planish.tune.gpu_torch import register

        return register(self, name)

    def __repr__(self) -> str:
        forms = ", ".join(f"{k.name}: {k.form}" for k in self.kernels)
        return f"GpuKernel({self.target}; {forms})"


def gpu_kernel(
    outputs: Tensor | Expr | Sequence[Tensor], *, target: str = "cuda:sm_90",
    configs: Mapping[str, Config | str] | str | None = None, precision: str = "ieee",
) -> GpuKernel:  # fmt: skip
    """A GpuKernel for one or several tensors, or for an expression.

    target     cuda:sm_80, cuda:sm_90, cuda:sm_100, hip:gfx90a, hip:gfx942
    configs    tiles by result, "m=128 n=64 k=32 warps=4", or a whole recipe; else by rule
    precision  of f32 products: ieee, tf32, tf32x3, narrow
    Raises UsageError for what has no lowering, with the reason.
    """
    if isinstance(configs, str):
        configs, precision = parse_recipe(configs)
    given = {k: Config.parse(v) if isinstance(v, str) else v for k, v in (configs or {}).items()}
    kernel = GpuKernel(
        lower(as_tensors(outputs)), target=target, configs=given, precision=precision
    )
    _ = kernel.lowered  # what cannot be lowered is said now
    return kernel


def parse_recipe(text: str) -> tuple[dict[str, Config | str], str]:
    """The inverse of `GpuKernel.recipe`."""
    found: dict[str, Config | str] = {}
    precision = "ieee"
    for line in filter(str.strip, text.splitlines()):
        name, _, words = line.partition(":")
        if name.strip() == "precision":
            precision = words.strip()
        else:
            found[name.strip()] = Config.parse(words)
    return found, precision


def build_request(kernel: KernelSource, target: str, *, aligned: bool = True) -> Build:
    """What a worker needs to compile a kernel."""
    names = tuple(argument(t.name) for t in kernel.tensors)
    signature = tuple(
        (n, POINTERS[t.type.name]) for n, t in zip(names, kernel.tensors, strict=True)
    )
    constants = tuple(block_sizes(kernel.text).items())
    return Build(
        kernel.text, kernel.name, signature, constants, names if aligned else (), target,
        kernel.config.warps or 4, kernel.config.stages,
    )  # fmt: skip


def block_sizes(text: str) -> dict[str, int]:
    """The constants of a kernel's signature with their values."""
    return {n: int(v) for n, v in re.findall(r"(\w+): tl\.constexpr = (\d+)", text)}


def _built(kernel: KernelSource, reply: Reply, target: str) -> Built:
    if reply.failure is not None:
        raise CompileError(
            f"{kernel.name} does not compile for {target}: {reply.reason.splitlines()[-1]}",
            diagnostics=reply.reason, hint="other tiles may: see planish gpu compile --help",
        )  # fmt: skip
    built: Built = reply.value
    return built
