"""What runs in a worker process: a schedule compiled; a kernel checked and timed.

A kernel is believed only as far as it was checked:

- Its outputs are filled with random bytes before a checked call and compared afterwards with what
  NumPy computes, which shares no code with the generator. That is done before the timing, in one
  of the timed rounds, and after it on inputs that were drawn meanwhile: a kernel that does
  nothing, leaves a part out or remembers an earlier result is found out.
- Bytes around the outputs and the workspace, and all inputs, must be left as they were.
- Candidate and baseline take turns, so that a clock that changes hits both; a round in which the
  process was kept from its processor is not counted.
"""

from __future__ import annotations

import math
import pickle
import random
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from planish.base.config import pin_numpy

pin_numpy(1)  # what NumPy computes here must not wake threads that then disturb the timing

import numpy as np  # noqa: E402

from planish.codegen.native import Image, Native, build_image  # noqa: E402
from planish.measure.quiet import clock_probe  # noqa: E402
from planish.tensor.expr import Op, walk  # noqa: E402
from planish.tensor.program import Program  # noqa: E402
from planish.tensor.quick import evaluate_quick  # noqa: E402
from planish.tensor.reference import load  # noqa: E402
from planish.tensor.schedule import Schedule  # noqa: E402
from planish.tensor.types import BF16, Type  # noqa: E402
from planish.tune.kernel_requests import Build, Measure, Measured  # noqa: E402
from planish.tune.kernel_rounds import FEWEST, Rounds, once  # noqa: E402

Array = np.ndarray[Any, Any]

_GUARD = 256  # bytes on either side of an output
_SAMPLE = 20e-6  # seconds: briefer calls are timed several together
_FLUSH = 64 << 20
_SMALL = 256 << 10
_INEXACT = frozenset({"exp", "log", "sqrt", "rsqrt", "tanh", "erf", "div"})


def preload(argument: object) -> None:
    """Nothing to load but this module."""
    del argument


class Runner:
    """Keeps programs, and the arena in which one program's kernels run."""

    def __init__(self, flavour: object) -> None:
        del flavour
        self._programs: dict[str, Program] = {}
        self._arenas: dict[str, Arena] = {}
        self._flush: Array | None = None

    def __call__(self, request: Build | Measure, blobs: dict[str, bytes]) -> bytes | Measured:
        for key, data in blobs.items():
            self._programs[key] = pickle.loads(data)
        program = self._programs[request.program]
        if isinstance(request, Build):
            nest = Schedule.parse(request.schedule).apply(program)
            return build_image(nest, request.vector).to_bytes()
        if request.program not in self._arenas:
            self._arenas[request.program] = Arena(program, request.seed)
        return self._measure(request, self._arenas[request.program])

    def bind(self, image: Image, arena: Arena) -> Callable[[], object]:
        """The kernel, ready to be called on the arena's arrays."""
        return Native(image).bind(arena.pointers())

    def _measure(self, request: Measure, arena: Arena) -> Measured:
        draw = random.Random(request.seed)
        images = [Image.from_bytes(data) for data in (request.baseline, request.candidate)]
        arena.reserve(max(image.workspace for image in images))
        calls = [self.bind(image, arena) for image in images]
        for call in calls:
            arena.check(call, draw)
        before = clock_probe()
        times = self._time(calls, arena, request, draw)
        after = clock_probe()
        arena.refill(request.seed + 1)
        arena.check(calls[1], draw)
        return Measured(tuple(times[0]), tuple(times[1]), (before, after))

    def _time(
        self, calls: Sequence[Callable[[], object]], arena: Arena, request: Measure,
        draw: random.Random,
    ) -> list[list[float]]:  # fmt: skip
        rounds = Rounds(request)
        repeats = [self._repeats(call, request.cold) for call in calls]
        checked = draw.randrange(FEWEST)
        order = [0, 1]
        while not rounds.ended:
            draw.shuffle(order)
            check = rounds.taken == checked
            for at in order:
                if check or arena.small:
                    arena.poison(draw)
                if request.cold:
                    self._flush_caches()
                rounds.note(at, *once(calls[at], repeats[at]))
                if check:
                    arena.compare()
        return rounds.times

    def _repeats(self, call: Callable[[], object], cold: bool) -> int:
        if cold:
            return 1
        started = time.perf_counter()
        call()
        return max(1, min(64, int(_SAMPLE / max(time.perf_counter() - started, 1e-9))))

    def _flush_caches(self) -> None:
        if self._flush is None:
            self._flush = np.zeros(_FLUSH, np.uint8)
        self._flush += 1


class Arena:
    """Inputs, outputs and workspace of one program, with what NumPy computes from the inputs."""

    def __init__(self, program: Program, seed: int) -> None:
        self._program = program
        every = [*program.inputs, *program.outputs]
        types = {t.type.name for t in every}
        inexact = any(
            isinstance(e, Op) and e.name in _INEXACT
            for stage in program.stages
            for part in (stage.body, stage.post)
            if part is not None
            for e in walk(part)
        )
        self._whole = not inexact
        self._tolerance = 2e-2 if types & {"f16", "bf16"} else (2e-4 if inexact else 1e-5)
        self._inputs = [np.empty(t.shape, t.type.numpy) for t in program.inputs]
        self._guarded = [_Guarded(t.shape, np.dtype(t.type.numpy)) for t in program.outputs]
        self.small = sum(g.whole.nbytes for g in self._guarded) <= _SMALL
        self._wanted: list[Array] = []
        self._sums: list[int] = []
        self._workspace = _Guarded((0,), np.dtype(np.uint8))
        self.refill(seed)

    def reserve(self, size: int) -> None:
        """Have a workspace of at least that size; kernels bound before lose theirs."""
        if self._workspace.inner.nbytes < size:
            self._workspace = _Guarded((size,), np.dtype(np.uint8))

    def pointers(self) -> list[int]:
        """Addresses of inputs, outputs and workspace."""
        arrays = [*self._inputs, *(g.inner for g in self._guarded), self._workspace.inner]
        return [a.ctypes.data for a in arrays]

    def refill(self, seed: int) -> None:
        """Other inputs, in the same places."""
        numbers = np.random.default_rng(seed)
        for array, tensor in zip(self._inputs, self._program.inputs, strict=True):
            array[...] = fill(numbers, tensor.shape, tensor.type, self._whole)
        given = zip(self._program.inputs, self._inputs, strict=True)
        found = evaluate_quick(self._program, {t.name: a for t, a in given})
        self._wanted = [load(found[t.name], t.type) for t in self._program.outputs]
        self._sums = [checksum(a) for a in self._inputs]

    def poison(self, draw: random.Random) -> None:
        """Fill what a kernel is to write with a byte that it cannot foresee."""
        byte = draw.randrange(1, 256)
        for guarded in (*self._guarded, self._workspace):
            guarded.whole.fill(byte)
            guarded.byte = byte

    def check(self, call: Callable[[], object], draw: random.Random) -> None:
        """One call into poisoned memory; raises ValueError where anything is not as it must be."""
        self.poison(draw)
        call()
        self.compare()
        if self._sums != [checksum(a) for a in self._inputs]:
            raise ValueError("it changes its inputs")

    def compare(self) -> None:
        """Whether the outputs are NumPy's, and nothing around them was touched."""
        for guarded in (*self._guarded, self._workspace):
            if not guarded.intact():
                raise ValueError("it writes outside its outputs")
        pairs = zip(self._program.outputs, self._guarded, self._wanted, strict=True)
        for tensor, guarded, wanted in pairs:
            found = load(guarded.inner, tensor.type)
            if not same(found, wanted, self._tolerance):
                raise ValueError("the result differs from NumPy's")


class _Guarded:
    """An array with bytes around it that nobody may write."""

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        size = math.prod(shape) * dtype.itemsize
        memory = np.zeros(size + 2 * _GUARD + 64, np.uint8)
        start = -memory.ctypes.data % 64
        self.whole = memory[start : start + size + 2 * _GUARD]
        self.inner = self.whole[_GUARD : _GUARD + size].view(dtype).reshape(shape)
        self.byte = 0

    def intact(self) -> bool:
        """Whether the bytes on either side are what the poison left."""
        return bool(
            (self.whole[:_GUARD] == self.byte).all() and (self.whole[-_GUARD:] == self.byte).all()
        )


def checksum(array: Array) -> int:
    """Of a contiguous array's bytes."""
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def same(found: Array, wanted: Array, tolerance: float) -> bool:
    """Equal up to the tolerance, relative to the largest value as well as to each."""
    if found.dtype.kind != "f":
        return bool(np.array_equal(found, wanted))
    if np.array_equal(found, wanted):
        return True
    finite = wanted[np.isfinite(wanted)]
    scale = float(np.abs(finite).max()) if finite.size else 0.0
    return bool(
        np.allclose(found, wanted, rtol=tolerance, atol=tolerance * max(scale, 1e-6),
                    equal_nan=True)
    )  # fmt: skip


def fill(numbers: np.random.Generator, shape: tuple[int, ...], type: Type, whole: bool) -> Array:
    """Random elements: small whole numbers, so that any order of sums gives the same; or reals."""
    if type.is_float and not whole:
        values = numbers.random(shape, np.float32) * 2 - 1
        return _bf16(values) if type is BF16 else values.astype(type.numpy)
    raw = np.frombuffer(numbers.bytes(math.prod(shape)), np.uint8).reshape(shape)
    if type.name == "bool":
        return (raw & 1).astype(type.numpy)
    small = (raw % 7).astype(np.int8) - 3 if type.signed else raw % 7
    return _bf16(small.astype(np.float32)) if type is BF16 else small.astype(type.numpy)


def _bf16(values: Array) -> Array:
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
