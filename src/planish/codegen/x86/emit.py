"""Vector instructions to x86-64 machine code."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

from planish.codegen import vir
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import Mem
from planish.codegen.x86.kernels import KernelEmitter
from planish.codegen.x86.registers import DoesNotFit

_POINTERS = (
    x86.RSI, x86.RDX, x86.RCX, 8, 9, 10, 11, x86.RBX, x86.RBP, 12, 13, 14, 15,
)  # fmt: skip
_CALLEE_SAVED = (x86.RBX, x86.RBP, 12, 13, 14, 15)


@dataclass
class Pool:
    """Constants behind the code, each a whole vector; addressed from the instruction pointer."""

    width: int
    entries: dict[bytes, int] = field(default_factory=dict)

    def offset(self, data: bytes) -> int:
        """Where the vector lies, from the pool's begin."""
        return self.entries.setdefault(data, len(self.entries) * self.width)

    def data(self) -> bytes:
        return b"".join(self.entries)


class Code:
    """Bytes so far, with places that are filled in when the whole is known."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self.constants: list[tuple[int, int]] = []
        self.calls: list[tuple[int, int]] = []

    def add(self, data: bytes) -> None:
        self.parts.append(data)
        self.size += len(data)

    def constant(self, data: bytes, offset: int, tail: int) -> None:
        """An instruction whose disp32 (with `tail` bytes behind it) points into the pool."""
        self.add(data)
        self.constants.append((self.size - tail - 4, offset - tail))

    def call(self, kernel: int) -> None:
        self.add(x86.call(0))
        self.calls.append((self.size - 4, kernel))


def assemble(function: vir.Function, vector: int) -> bytes:
    """Machine code of `void f(void **arguments)` in the System V ABI; constants stand behind it.

    vector  32 for AVX2 with FMA and F16C, 64 for AVX-512 (F, VL, BW, DQ)
    Raises DoesNotFit where the instructions or registers are not there.
    """
    return _Assembler(function, vector).assemble()


class _Assembler:
    def __init__(self, function: vir.Function, vector: int) -> None:
        self.function = function
        self.vector = vector
        self.code = Code()
        self.pool = Pool(vector)
        self.counts: dict[int, int] = {}
        self.heights: dict[int, int] = {}
        self.kernels: dict[int, tuple[vir.Kernel, tuple[int, ...]]] = {}
        self.used: set[int] = set()
        self.counters = 0
        self.slots_needed = False
        self.moved: set[int] = set()
        self.inside_call = 0
        self._count(function.body, None)

    def _count(self, items: Sequence[vir.Item], stage: vir.Stage | None) -> None:
        """How often each kernel stands, and which pointers loops around stages move."""
        for item in items:
            if isinstance(item, vir.Kernel):
                self.counts[id(item)] = self.counts.get(id(item), 0) + 1
            elif isinstance(item, vir.Stage):
                self._count(item.body, item)
            elif isinstance(item, vir.Loop):
                if stage is None:
                    self.moved.update(pointer for pointer, _ in item.moves)
                for segment in item.segments:
                    self._count(segment.body, stage)

    def assemble(self) -> bytes:
        self._items(self.function.body, ())
        main = self.code
        saved = [r for r in _CALLEE_SAVED if r in self.used]
        slots = len(self.function.pointers)
        frame = 8 * (slots + self.counters)
        frame += (16 - (frame + 8 * len(saved) + 8) % 16) % 16
        head = b"".join(x86.push(r) for r in saved)
        head += x86.add_imm(x86.RSP, -frame) if frame else b""
        for pointer in sorted(self.moved):
            start = self.function.pointers[pointer]
            head += x86.load64(x86.RAX, Mem(x86.RDI, 8 * start.argument))
            head += x86.add_imm(x86.RAX, start.offset) if start.offset else b""
            head += x86.store64(Mem(x86.RSP, 8 * pointer), x86.RAX)
        foot = x86.add_imm(x86.RSP, frame) if frame else b""
        foot += b"".join(x86.pop(r) for r in reversed(saved))
        foot += (x86.VZEROUPPER if self.vector > 16 else b"") + x86.RET
        return self._join(head, main, foot)

    def _join(self, head: bytes, main: Code, foot: bytes) -> bytes:
        """Head, main, foot, subroutines, constants; fills in calls and addresses of constants."""
        places: dict[int, int] = {}
        pieces: list[tuple[int, Code]] = [(len(head), main)]
        at = len(head) + main.size + len(foot)
        blob = [head, *main.parts, foot]
        for key, (kernel, registers) in list(self.kernels.items()):
            self.code = code = Code()
            self.inside_call = 8
            self._kernel(kernel, registers)
            code.add(x86.RET)
            padding = -at % 16
            blob += [b"\x90" * padding, *code.parts]
            at += padding
            places[key] = at
            pieces.append((at, code))
            at += code.size
        padding = -at % 64
        blob += [b"\x90" * padding, self.pool.data()]
        pool = at + padding
        image = bytearray(b"".join(blob))
        for base, code in pieces:
            for where, offset in code.constants:
                struct.pack_into("<i", image, base + where, pool + offset - (base + where + 4))
            for where, key in code.calls:
                struct.pack_into("<i", image, base + where, places[key] - (base + where + 4))
        return bytes(image)

    # The tree.

    def _items(self, items: Sequence[vir.Item], registers: tuple[int, ...]) -> None:
        for item in items:
            if isinstance(item, vir.Stage):
                self._stage(item)
            elif isinstance(item, vir.Loop):
                self._loop(item, registers)
            elif isinstance(item, vir.Kernel):
                if self.counts[id(item)] == 1:
                    self._kernel(item, registers)
                else:
                    self.kernels[id(item)] = (item, registers)
                    self.code.call(id(item))
            else:
                raise AssertionError("instructions stand in kernels only")

    def _stage(self, stage: vir.Stage) -> None:
        if len(stage.pointers) > len(_POINTERS) - 1:
            raise DoesNotFit(f"{stage.name} reads {len(stage.pointers)} arrays at once")
        registers = _POINTERS[: len(stage.pointers)]
        self.used.update(registers)
        for pointer, register in zip(stage.pointers, registers, strict=True):
            if pointer in self.moved:
                self.code.add(x86.load64(register, self._slot(pointer)))
                continue
            start = self.function.pointers[pointer]
            self.code.add(x86.load64(register, Mem(x86.RDI, 8 * start.argument)))
            if start.offset:
                self.code.add(x86.add_imm(register, start.offset))
        self.pointers = dict(zip(stage.pointers, registers, strict=True))
        self._items(stage.body, registers)
        self.pointers = {}

    pointers: dict[int, int] = {}  # noqa: RUF012 - replaced, never changed

    def _slot(self, index: int) -> Mem:
        return Mem(x86.RSP, 8 * index + self.inside_call)

    def _move(self, pointer: int, by: int) -> None:
        if not -(1 << 31) <= by < 1 << 31:
            raise DoesNotFit("an array is larger than 2 GiB along one loop")
        if pointer in self.pointers:
            self.code.add(x86.add_imm(self.pointers[pointer], by))
        else:
            self.code.add(x86.add_mem_imm(self._slot(pointer), by))

    def _loop(self, loop: vir.Loop, registers: tuple[int, ...]) -> None:
        height = self._height(loop)
        for at, segment in enumerate(loop.segments):
            final = at == len(loop.segments) - 1
            if segment.trips == 1:
                self._items_or_kernel(segment.body, registers)
                if not final:
                    for pointer, by in loop.moves:
                        self._move(pointer, by)
                continue
            self._repeat(segment, loop.moves, height, registers)
        moved = loop.trips - (1 if loop.segments[-1].trips == 1 else 0)
        for pointer, by in loop.moves:
            if by * moved:
                self._move(pointer, -by * moved)

    def _repeat(
        self,
        segment: vir.Segment,
        moves: tuple[tuple[int, int], ...],
        height: int,
        registers: tuple[int, ...],
    ) -> None:
        counter = self._counter(height, registers)
        if isinstance(counter, int):
            self.code.add(x86.move_imm(counter, segment.trips))
        else:
            self.code.add(x86.store64_imm(counter, segment.trips))
        begin = self.code.size
        self._items_or_kernel(segment.body, registers)
        for pointer, by in moves:
            self._move(pointer, by)
        self.code.add(x86.dec(counter) if isinstance(counter, int) else x86.dec_mem(counter))
        self.code.add(x86.jnz(begin - self.code.size - 6))

    def _height(self, loop: vir.Loop) -> int:
        """Loops below the loop, the deepest way."""
        found = self.heights.get(id(loop))
        if found is None:
            found = max((self._depth(segment.body) for segment in loop.segments), default=0)
            self.heights[id(loop)] = found
        return found

    def _depth(self, items: Sequence[vir.Item]) -> int:
        deepest = 0
        for item in items:
            if isinstance(item, vir.Ins):
                continue
            if isinstance(item, vir.Loop):
                deepest = max(deepest, 1 + self._height(item))
            else:
                found = self.heights.get(id(item))
                if found is None:
                    found = self.heights[id(item)] = self._depth(item.body)
                deepest = max(deepest, found)
        return deepest

    def _counter(self, height: int, registers: tuple[int, ...]) -> int | Mem:
        """A register for inner loops, as far as pointers leave one; else a slot on the stack."""
        spare = [r for r in _POINTERS if r not in registers] if self.pointers else []
        if height < len(spare):
            self.used.add(spare[height])
            return spare[height]
        self.counters = max(self.counters, height + 1)
        return self._slot(len(self.function.pointers) + height)

    def _items_or_kernel(self, items: Sequence[vir.Item], registers: tuple[int, ...]) -> None:
        if self.emitter is not None:
            self.emitter.items(items)
        else:
            self._items(items, registers)

    emitter: KernelEmitter | None = None

    def _kernel(self, kernel: vir.Kernel, registers: tuple[int, ...]) -> None:
        stage = next(s for s in _stages(self.function.body) if _holds(s, kernel))
        self.pointers = dict(zip(stage.pointers, registers, strict=True))
        self.emitter = KernelEmitter(
            kernel, self.vector, self.pointers, self.code, self.pool,
            lambda loop: self._loop(loop, registers),
        )  # fmt: skip
        self.emitter.run()
        self.emitter = None


def _stages(items: Sequence[vir.Item]) -> list[vir.Stage]:
    found: list[vir.Stage] = []
    for item in items:
        if isinstance(item, vir.Stage):
            found.append(item)
        elif isinstance(item, vir.Loop):
            for segment in item.segments:
                found += _stages(segment.body)
    return found


def _holds(stage: vir.Stage, kernel: vir.Kernel) -> bool:
    return kernel.name == stage.name
