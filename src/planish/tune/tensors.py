"""Tensor programs compiled: schedule, machine code (or LLVM), calls on NumPy arrays.

A Kernel is one program for one set of shapes and types; it keeps machine code for each set of
strides that it is called with.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from planish.base.errors import UsageError, unknown
from planish.base.hashing import digest
from planish.codegen.layout import row_major
from planish.codegen.native import Image, Native, build_image
from planish.codegen.units import Units, units_here
from planish.codegen.x86.registers import DoesNotFit
from planish.measure.machine import processor
from planish.tensor.expr import Axis, Expr, Tensor, free_axes
from planish.tensor.functions import define, named_axes
from planish.tensor.loops import Nest
from planish.tensor.program import Program, lower
from planish.tensor.schedule import Schedule
from planish.tune.call_checks import Array, bind_inputs, bind_outputs, names_of
from planish.tune.default_schedule import default_nest, smallest_nest
from planish.tune.fast_calls import Into, Workspaces, fast_into
from planish.tune.kernel_store import FORMAT, keep_image, load_image
from planish.tune.stage_shape import Target

if TYPE_CHECKING:
    from planish.tune.roofline import Roofline

Strides = tuple[tuple[int, ...], ...]

# Operations of a kernel so brief that it keeps the GIL: releasing it costs more than it gives.
_BRIEF = 1 << 20


@dataclass
class KernelLedger:
    """How a kernel came about.

    path       "x86 avx512", "x86 avx2" or "llvm"
    seconds    from program to machine code, for the last set of strides
    cached     whether the code came from disk
    fallbacks  what was tried and given up, with the reason
    """

    path: str = ""
    seconds: float = 0.0
    cached: bool = False
    fallbacks: list[str] = field(default_factory=list)


def vector_of(target: str) -> int:
    """Vector bytes of a target's name: native, avx2, avx512, aarch64."""
    widths = {"native": processor().vector, "avx2": 32, "avx512": 64, "aarch64": 16}
    if target not in widths:
        raise unknown("target", target, list(widths))
    if not widths[target]:
        raise UsageError(
            "this machine has neither AVX2 with FMA nor AVX-512, and kernels need one of them",
            hint="object files for others can be written: target avx2, avx512 or aarch64",
        )
    return widths[target]


class Kernel:
    """A compiled tensor program: call it with NumPy arrays in the order of its inputs.

    program   its stages
    loops     the scheduled nest; its text is `str(kernel.loops)`
    schedule  the steps that made it
    ledger    how it came about
    units     what its code may use of the processor beyond vectors of its width
    asm       the machine code, disassembled by the bundled LLVM
    """

    def __init__(
        self,
        program: Program,
        *,
        schedule: Schedule | None = None,
        target: str = "native",
        threads: int = 1,
        path: str = "x86",
        store: bool = True,
    ) -> None:
        _refuse_gpu_types(program)
        self._path = path
        self.program = program
        self.target = target
        self.threads = threads
        self.ledger = KernelLedger()
        self._given = schedule
        self._store = store
        self._vector = vector_of(target)
        self.units = units_here(self._vector) if target == "native" else Units()
        self._plain = tuple(row_major(t.shape, t.type.size) for t in self._arguments)
        self._compiled: dict[Strides, Native] = {}
        self._fast: Callable[[tuple[Array, ...]], Array | None] | None = None
        self._into: Into | None = None
        self._workers = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._inputs = len(program.inputs)
        self._called = False
        self._workspaces = Workspaces()

    @property
    def _arguments(self) -> tuple[Tensor, ...]:
        return (*self.program.inputs, *self.program.outputs)

    @functools.cached_property
    def schedule(self) -> Schedule:
        """The steps that make the nest out of the plain one."""
        return self._planned[0]

    @functools.cached_property
    def loops(self) -> Nest:
        """The scheduled nest."""
        return self._planned[1]

    @functools.cached_property
    def _planned(self) -> tuple[Schedule, Nest]:
        return self._plan(self._plain)

    def _plan(self, strides: Strides) -> tuple[Schedule, Nest]:
        """The schedule for these strides, and its nest."""
        if self._given is not None:
            return self._given, self._given.apply(self.program)
        target = Target.of(processor(), self._vector, native=self.target == "native")
        return default_nest(self.program, target, self.threads, self._named(strides))

    def _named(self, strides: Strides) -> dict[str, tuple[int, ...]]:
        return {t.name: s for t, s in zip(self._arguments, strides, strict=True)}

    def native(self, strides: Strides | None = None) -> Native:
        """The machine code for these strides (bytes), compiled unless it is there."""
        key = self._plain if strides is None else strides
        found = self._compiled.get(key)
        if found is None:
            found = self._compiled[key] = self._compile(key)
        return found

    def _compile(self, strides: Strides) -> Native:
        started = time.perf_counter()
        key = self._key(strides)
        image = load_image(key) if self._store else None
        self.ledger.cached = image is not None
        if image is None:
            image = self._build(strides)
            if self._store:
                keep_image(key, image)
        self.ledger.path = image.origin
        native = Native(image)
        self.ledger.seconds = time.perf_counter() - started
        return native

    def _build(self, strides: Strides) -> Image:
        """By the x86 generator where it can; else by LLVM, and the ledger says why."""
        named = self._named(strides)
        nest = self.loops if strides == self._plain else self._plan(strides)[1]
        if self._path == "x86":
            try:
                return build_image(nest, self._vector, named, units=self.units)
            except DoesNotFit as error:
                smaller = self._smaller(named)
                if smaller is not None:
                    self.ledger.fallbacks.append(f"a tile of one vector: {error}")
                    return smaller
                self.ledger.fallbacks.append(f"LLVM instead of x86: {error}")
        from planish.tune.tensor_llvm import llvm_image

        return llvm_image(nest, self._vector, named)

    def _smaller(self, named: Mapping[str, tuple[int, ...]]) -> Image | None:
        """The rules' schedule with the smallest tiles, where that is enough for the x86 path."""
        if self._given is not None:
            return None
        target = Target.of(processor(), self._vector, native=self.target == "native")
        nest = smallest_nest(self.program, target, self.threads, named)
        try:
            return build_image(nest, self._vector, named, units=self.units)
        except DoesNotFit:
            return None

    def _key(self, strides: Strides) -> str:
        return digest(
            FORMAT, str(self.program), str(self._given), str(self._vector), str(self.threads),
            str(strides), self._path, processor().fingerprint, str(self.units),
        )  # fmt: skip

    def __call__(self, *arrays: Array, out: Array | None = None, **named: Array) -> Any:
        """Run on arrays of the compiled shapes and types; returns the output(s).

        out    where to put a single output; it may overlap inputs
        named  inputs by name instead of by position
        Raises UsageError on a wrong number, type or shape.
        """
        fast = self._fast
        if fast is not None and not named and len(arrays) == self._inputs:
            result = fast(arrays) if out is None else self._fast_into(arrays, out)
            if result is not None:
                return result
        return self._checked_call(arrays, out, named)

    def _fast_into(self, arrays: Sequence[Array], out: Array) -> Array | None:
        """The fast call into a given array; None where it needs a closer look."""
        assert self._into is not None
        if type(out) is not np.ndarray or not out.flags.writeable:
            return None
        for array in arrays:
            if type(array) is not np.ndarray or np.may_share_memory(array, out):
                return None
        return self._into(*arrays, out)

    def _checked_call(
        self, arrays: Sequence[Array], out: Array | None, named: Mapping[str, Array]
    ) -> Any:
        if self.target == "aarch64" or processor().vector < self._vector:
            raise UsageError(
                f"a kernel for {self.target} does not run here", hint="save it as an object file"
            )
        inputs = bind_inputs(self.program.inputs, arrays, named)
        outputs = bind_outputs(self.program.outputs, out)
        if out is not None and any(np.may_share_memory(out, x) for x in inputs):
            fresh = np.empty(out.shape, out.dtype)
            self._run([*inputs, fresh])
            out[...] = fresh
            return out
        self._run([*inputs, *outputs])
        if out is None and self._fast is None and self._called:
            # From the second call on: many kernels are called once.
            self._fast = self._fast_call([*inputs, *outputs])
        self._called = True
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _run(self, arrays: Sequence[Array]) -> None:
        native = self.native(tuple(a.strides for a in arrays))
        size = native.image.workspace
        pointers = [a.__array_interface__["data"][0] for a in arrays]
        workspace = self._workspaces.take(size)
        native.run([*pointers, workspace[1]], self._workers, self.threads - 1)
        self._workspaces.put(workspace)

    def _fast_call(
        self, arrays: Sequence[Array]
    ) -> Callable[[tuple[Array, ...]], Array | None] | None:
        """A call for arrays just like these, checked in machine code; None where it cannot be."""
        native = self.native(tuple(a.strides for a in arrays))
        brief = self.program.flops() < _BRIEF
        into = fast_into(native, self._workspaces, arrays, len(self.program.outputs), brief=brief)
        if into is None:
            return None
        self._into = into
        shape, dtype, empty = arrays[-1].shape, arrays[-1].dtype, np.empty
        return lambda arrays: into(*arrays, empty(shape, dtype))

    @property
    def asm(self) -> str:
        """The machine code, disassembled."""
        from planish.tune.kernel_files import disassemble

        return disassemble(self)

    def save(self, path: str | Path, *, header: str | Path | None = None, name: str = "") -> None:
        """Write an object file with a C function, and a header for it.

        name  of the function; by default the object's file name
        Raises UsageError for a kernel with threads, which C would have to start itself.
        """
        from planish.tune.kernel_files import save

        save(self, Path(path), Path(header) if header is not None else None, name)

    def roofline(self, *arrays: Array) -> Roofline:
        """How far the kernel is from what this machine can do, measured on arrays (or zeros)."""
        from planish.tune.roofline import measure_kernel

        return measure_kernel(self, arrays)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{t.name} {t.type}{list(t.shape)}" for t in self.program.inputs)
        return f"Kernel({shapes} -> {names_of(self.program.outputs)})"


def _refuse_gpu_types(program: Program) -> None:
    for tensor in (*program.inputs, *program.temporaries, *program.outputs):
        if tensor.type.is_float and tensor.type.size == 1:
            raise UsageError(
                f"{tensor.name} is of {tensor.type}, which is for GPU kernels only",
                hint="planish gpu compile, or a type of 16 bits here",
            )


def compile_program(
    outputs: Tensor | Expr | Sequence[Tensor],
    *,
    schedule: Schedule | str | None = None,
    target: str = "native",
    threads: int | None = 1,
    path: str = "x86",
    store: bool = True,
) -> Kernel:
    """A Kernel for one or several tensors, or for an expression (its axes in order of appearance).

    schedule  steps, or their text; by default, rules for the shapes and this machine
    target    native, avx2, avx512, or aarch64 (for `save` only)
    threads   None is one for each core
    path      x86 (LLVM where that has no lowering) or llvm
    store     keep the code on disk
    """
    tensors = as_tensors(outputs)
    if isinstance(schedule, str):
        schedule = Schedule.parse(schedule)
    count = threads if threads is not None else os.cpu_count() or 1
    if count < 1:
        raise UsageError(f"{count} threads cannot compute anything")
    if path not in ("x86", "llvm"):
        raise unknown("path", path, ["x86", "llvm"])
    kernel = Kernel(
        lower(tensors), schedule=schedule, target=target, threads=count, path=path, store=store
    )
    if schedule is not None:
        _ = kernel.loops  # a step that cannot be taken is told here, not at the first call
    return kernel


def as_tensors(outputs: Tensor | Expr | Sequence[Tensor]) -> list[Tensor]:
    """What a user asks to compile, as tensors; an expression becomes one called `out`."""
    if isinstance(outputs, Expr):
        given = named_axes(outputs)
        axes = [Axis(name, given.get(name)) for name in free_axes(outputs)]
        return [define("out", axes, outputs)]
    return [outputs] if isinstance(outputs, Tensor) else list(outputs)
