"""What runs in a worker process: a schedule compiled, checked and timed.

Inputs are small whole numbers, so that every order of operations gives the same results; outputs
are poisoned before each check. The reference is the expert schedule's result.
"""

from __future__ import annotations

import pickle
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from planish.codegen.native import Native, build_image
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tensor.types import BF16, Type

HANDLER = "planish.tune.kernel_worker:Runner"

Array = np.ndarray[Any, Any]

_POISON = 0xA5


@dataclass(frozen=True)
class Run:
    """Ask for timings of one schedule, or of several in turn.

    program    key of the pickled program
    schedules  texts; the first one's result is what the others are checked against
    vector     bytes of vector registers
    seconds    about how long to measure
    cold       whether caches are flushed before each call
    """

    program: str
    reference: str
    schedules: tuple[str, ...]
    vector: int
    seconds: float
    cold: bool = False


@dataclass(frozen=True)
class Ran:
    """Seconds of single calls, for each schedule; `compile` is what all took to compile."""

    times: tuple[tuple[float, ...], ...]
    compile: float


def preload(argument: object) -> None:
    """Nothing to load but this module."""
    del argument


class Runner:
    """Keeps programs, their arrays and their reference results."""

    def __init__(self, flavour: object) -> None:
        del flavour
        self._programs: dict[str, Program] = {}
        self._arrays: dict[str, list[Array]] = {}
        self._wanted: dict[tuple[str, str], list[Array]] = {}
        self._flush: Array | None = None

    def __call__(self, request: Run, blobs: dict[str, bytes]) -> Ran:
        for key, data in blobs.items():
            self._programs[key] = pickle.loads(data)
        program = self._programs[request.program]
        started = time.perf_counter()
        kernels = [self._native(program, text, request.vector) for text in request.schedules]
        spent = time.perf_counter() - started
        arrays = self._inputs(request.program, program)
        calls = [_Bound(program, native, arrays) for native in kernels]
        self._check(request, program, arrays, calls)
        return Ran(self._time(calls, request), spent)

    def _native(self, program: Program, text: str, vector: int) -> Native:
        return Native(build_image(Schedule.parse(text).apply(program), vector))

    def _inputs(self, key: str, program: Program) -> list[Array]:
        if key not in self._arrays:
            numbers = np.random.default_rng(0)
            self._arrays[key] = [_whole(numbers, t.shape, t.type) for t in program.inputs]
        return self._arrays[key]

    def _check(
        self, request: Run, program: Program, arrays: list[Array], calls: Sequence[_Bound]
    ) -> None:
        key = (request.program, request.reference)
        if key not in self._wanted:
            expert = _Bound(
                program, self._native(program, request.reference, request.vector), arrays
            )
            self._wanted[key] = expert.fresh()
        for call in calls:
            for found, wanted in zip(call.fresh(), self._wanted[key], strict=True):
                if not np.allclose(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True):
                    raise ValueError("the result differs from the expert schedule's")

    def _time(self, calls: Sequence[_Bound], request: Run) -> tuple[tuple[float, ...], ...]:
        times: list[list[float]] = [[] for _ in calls]
        end = time.perf_counter() + request.seconds
        while len(times[0]) < 3 or (time.perf_counter() < end and len(times[0]) < 20_000):
            for call, taken in zip(calls, times, strict=True):
                if request.cold:
                    self._flush_caches()
                started = time.perf_counter()
                call()
                taken.append(time.perf_counter() - started)
        return tuple(map(tuple, times))

    def _flush_caches(self) -> None:
        if self._flush is None:
            self._flush = np.zeros(64 << 20, np.uint8)
        self._flush += 1


class _Bound:
    """A kernel with its arrays: calling it runs it once."""

    def __init__(self, program: Program, native: Native, arrays: list[Array]) -> None:
        self._native = native
        self._outputs = [np.empty(t.shape, t.type.numpy) for t in program.outputs]
        self._memory = np.empty(native.image.workspace + 64, np.uint8)
        base = self._memory.ctypes.data
        self._pointers = [a.ctypes.data for a in (*arrays, *self._outputs)]
        self._pointers.append(base + -base % 64)

    def __call__(self) -> None:
        self._native.run(self._pointers)

    def fresh(self) -> list[Array]:
        """The outputs of a run into poisoned memory."""
        self._memory.fill(_POISON)
        for out in self._outputs:
            out.view(np.uint8).fill(_POISON) if out.ndim else out.fill(77)
        self()
        return [out.copy() for out in self._outputs]


def _whole(numbers: np.random.Generator, shape: tuple[int, ...], type: Type) -> Array:
    if type is BF16:
        whole = numbers.integers(-3, 4, shape).astype(np.float32)
        return (whole.view(np.uint32) >> 16).astype(np.uint16)
    low, high = (0, 2) if type.name == "bool" else (0 if not type.signed else -3, 4)
    return numbers.integers(low, high, shape).astype(type.numpy)
