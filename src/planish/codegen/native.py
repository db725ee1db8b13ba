"""Compiled nests: their machine code as bytes that can be kept, and running it."""

from __future__ import annotations

import ctypes
import gc
import struct
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from planish.codegen.lower import lower_nest
from planish.codegen.memory import Executable
from planish.codegen.units import Units, units_here
from planish.codegen.x86.emit import assemble
from planish.tensor.loops import Nest

_HEAD = struct.Struct("<4sIIQI12s")
_MAGIC = b"PLK1"


@dataclass(frozen=True)
class Call:
    """A phase: code at an offset, called once for each row of bytes to add to the arguments."""

    offset: int
    starts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Image:
    """Machine code of all phases, how they are called, and the workspace they need (bytes).

    temporaries  where each begins in the workspace; they are arguments behind the arrays
    origin       what made it: "x86 avx2", "x86 avx512" or "llvm"
    """

    code: bytes
    calls: tuple[Call, ...]
    workspace: int
    temporaries: tuple[int, ...]
    origin: str

    def to_bytes(self) -> bytes:
        """For keeping on disk."""
        parts = [
            _HEAD.pack(
                _MAGIC, len(self.calls), len(self.code), self.workspace, len(self.temporaries),
                self.origin.encode(),
            ),
            struct.pack(f"<{len(self.temporaries)}q", *self.temporaries),
        ]  # fmt: skip
        for call in self.calls:
            width = len(call.starts[0])
            parts.append(struct.pack("<III", call.offset, len(call.starts), width))
            parts += [struct.pack(f"<{width}q", *row) for row in call.starts]
        return b"".join([*parts, self.code])

    @classmethod
    def from_bytes(cls, data: bytes) -> Image:
        """What `to_bytes` wrote. Raises ValueError on anything else."""
        try:
            magic, count, size, workspace, inner, origin = _HEAD.unpack_from(data)
            at = _HEAD.size
            temporaries = struct.unpack_from(f"<{inner}q", data, at)
            at += 8 * inner
            calls = []
            for _ in range(count):
                offset, rows, width = struct.unpack_from("<III", data, at)
                at += 12
                starts = []
                for _ in range(rows):
                    starts.append(struct.unpack_from(f"<{width}q", data, at))
                    at += 8 * width
                calls.append(Call(offset, tuple(starts)))
        except struct.error as error:
            raise ValueError("cut off") from error
        if magic != _MAGIC or len(data) - at != size:
            raise ValueError("not a kernel")
        name = origin.rstrip(b"\0").decode(errors="replace")
        return cls(data[at:], tuple(calls), workspace, temporaries, name)


class _no_collection:  # noqa: N801 - used like a function
    """Keeps the cyclic garbage collector from looking at thousands of tuples in the making.

    In a process with many objects one collection takes longer than a kernel's whole compilation.
    """

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        if self._was_on:
            gc.enable()


def build_image(
    nest: Nest,
    vector: int,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    *,
    units: Units | None = None,
) -> Image:
    """The nest in machine code.

    vector  32 for AVX2, 64 for AVX-512
    units   what the target has; None asks this machine
    Raises DoesNotFit or UsageError where the x86 path has no lowering.
    """
    with _no_collection():  # all that the function below makes is gone when it is over
        return _assembled(nest, vector, strides, units_here(vector) if units is None else units)


def _assembled(
    nest: Nest, vector: int, strides: Mapping[str, tuple[int, ...]] | None, units: Units
) -> Image:
    lowered = lower_nest(nest, vector, strides, dot4=units.dot4)
    code, calls = b"", []
    for phase in lowered.phases:
        code += b"\x90" * (-len(code) % 64)
        calls.append(Call(len(code), phase.starts))
        code += assemble(phase.function, vector, apart=units.apart)
    origin = "x86 avx512" if vector == 64 else "x86 avx2"
    return Image(code, tuple(calls), lowered.workspace, lowered.temporaries, origin)


class Native:
    """An image in executable memory. Calls release the GIL and may come from several threads."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self._memory = Executable(image.code)
        form = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
        self._phases: list[tuple[Callable[[int], None], tuple[tuple[int, ...], ...]]] = [
            (form(self._memory.address(call.offset)), call.starts) for call in image.calls
        ]

    def address(self, phase: int = 0) -> int:
        """Where a phase's code lies."""
        return self._memory.address(self.image.calls[phase].offset)

    def bind(self, pointers: Sequence[int]) -> Callable[[], None]:
        """`run` on these addresses, as cheap to call as can be: for timing.

        The memory behind the addresses has to outlive what is returned.
        """
        base = pointers[-1]
        every = [*pointers[:-1], *(base + offset for offset in self.image.temporaries)]
        form = ctypes.c_void_p * len(every)
        rows = [
            (function, form(*(p + s for p, s in zip(every, row, strict=True))))
            for function, starts in self._phases
            for row in (starts if len(starts) > 1 or any(starts[0]) else ((0,) * len(every),))
        ]
        calls = [(function, ctypes.addressof(row)) for function, row in rows]
        if len(calls) == 1:
            [(only, address)] = calls
            return lambda keep=(self, rows): only(address)  # type: ignore[misc]

        def every_call(keep: object = (self, rows)) -> None:
            for function, address in calls:
                function(address)

        return every_call

    def run(
        self, pointers: Sequence[int], helpers: ThreadPoolExecutor | None = None, count: int = 0
    ) -> None:
        """Run on the addresses of all inputs, outputs and the workspace (64-byte aligned).

        helpers, count  so many threads besides the caller's
        """
        base = pointers[-1]
        pointers = [*pointers[:-1], *(base + offset for offset in self.image.temporaries)]
        words = (ctypes.c_void_p * len(pointers))(*pointers)
        for function, starts in self._phases:
            if len(starts) == 1 and not any(starts[0]):
                function(ctypes.addressof(words))
                continue
            rows = [
                (ctypes.c_void_p * len(pointers))(
                    *(p + s for p, s in zip(pointers, row, strict=True))
                )
                for row in starts
            ]
            left = iter(rows)  # all take the next one from here

            def work(function: Callable[[int], None] = function, left: Any = left) -> None:
                for row in left:
                    function(ctypes.addressof(row))

            others = []
            if helpers is not None:
                others = [helpers.submit(work) for _ in range(min(count, len(rows) - 1))]
            work()
            for other in others:
                other.result()
