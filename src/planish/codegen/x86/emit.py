"""Vector instructions to x86-64 machine code."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from planish.codegen import vir
from planish.codegen.x86 import encoder as x86
from planish.codegen.x86.encoder import Mem
from planish.codegen.x86.kernels import KernelEmitter
from planish.codegen.x86.pieces import Code, Piece, Pool, find_piece, keep_piece
from planish.codegen.x86.registers import DoesNotFit

_POINTERS = (
    x86.RSI, x86.RDX, x86.RCX, 8, 9, 10, 11, x86.RBX, x86.RBP, 12, 13, 14, 15,
)  # fmt: skip
_CALLEE_SAVED = (x86.RBX, x86.RBP, 12, 13, 14, 15)


def assemble(function: vir.Function, vector: int, *, apart: bool = False) -> bytes:
    """Machine code of `void f(void **arguments)` in the System V ABI; constants stand behind it.

    vector  32 for AVX2 with FMA and F16C, 64 for AVX-512 (F, VL, BW, DQ)
    apart   whether sums may be made as multiply-adds, see `units.Units`
    Raises DoesNotFit where the instructions or registers are not there.
    """
    return _Assembler(function, vector, apart).assemble()


class _Assembler:
    """State while a function is written: the code, and which registers hold which pointers."""

    def __init__(self, function: vir.Function, vector: int, apart: bool) -> None:
        self.function = function
        self.vector = vector
        self.apart = apart
        self.code = Code()
        self.pool = Pool(vector)
        self.pointers: dict[int, int] = {}
        self.emitter: KernelEmitter | None = None
        self.counts: dict[int, int] = {}
        self.heights: dict[int, int] = {}
        # Kernels that stand in several places, with the registers of their pointers there.
        self.subroutines: dict[int, tuple[vir.Kernel, dict[int, int]]] = {}
        self.used: set[int] = set()
        self.counters = 0
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
        """The function, then its subroutines, then constants."""
        main = self.code
        main.add(b"")  # the head, once it is known what has to be saved
        self._items(self.function.body)
        self.inside_call = 8
        pieces = []
        for key, (kernel, pointers) in self.subroutines.items():
            self.pointers = pointers
            pieces.append((key, self._piece(kernel)))
        main.parts[0], foot = self._frame()
        main.add(foot)
        places: dict[Hashable, int] = {}
        size = main.since(0)
        for key, piece in pieces:
            padding = -size % 16
            main.add(b"\x90" * padding)
            places[key] = len(main.parts)
            main.piece(piece)
            main.add(x86.RET)
            size += padding + len(piece.code) + 1
        return main.filled(places, self.pool)

    def _frame(self) -> tuple[bytes, bytes]:
        """What stands before and behind the function's body."""
        saved = [r for r in _CALLEE_SAVED if r in self.used]
        frame = 8 * (len(self.function.pointers) + self.counters)
        frame += (16 - (frame + 8 * len(saved) + 8) % 16) % 16
        head = b"".join(x86.push(r) for r in saved)
        head += x86.add_imm(x86.RSP, -frame) if frame else b""
        for pointer in sorted(self.moved):
            argument = self.function.pointers[pointer]
            head += x86.load64(x86.RAX, Mem(x86.RDI, 8 * argument))
            head += x86.store64(Mem(x86.RSP, 8 * pointer), x86.RAX)
        foot = x86.add_imm(x86.RSP, frame) if frame else b""
        foot += b"".join(x86.pop(r) for r in reversed(saved))
        return head, foot + (x86.VZEROUPPER if self.vector > 16 else b"") + x86.RET

    # The tree.

    def _items(self, items: Sequence[vir.Item]) -> None:
        if self.emitter is not None:
            self.emitter.items(items)
            return
        for item in items:
            if isinstance(item, vir.Stage):
                self._stage(item)
            elif isinstance(item, vir.Loop):
                self._loop(item)
            elif isinstance(item, vir.Kernel):
                if self.counts[id(item)] == 1:
                    self.code.piece(self._piece(item))
                else:
                    self.subroutines.setdefault(id(item), (item, self.pointers))
                    self.code.call(id(item))
            else:
                raise AssertionError("instructions stand in kernels only")

    def _stage(self, stage: vir.Stage) -> None:
        if len(stage.pointers) > len(_POINTERS) - 1:
            raise DoesNotFit(f"{stage.name} reads {len(stage.pointers)} arrays at once")
        self.pointers = dict(zip(stage.pointers, _POINTERS, strict=False))
        self.used.update(self.pointers.values())
        for pointer, register in self.pointers.items():
            place = Mem(x86.RDI, 8 * self.function.pointers[pointer])
            place = self._slot(pointer) if pointer in self.moved else place
            self.code.add(x86.load64(register, place))
        self._items(stage.body)
        self.pointers = {}

    def _piece(self, kernel: vir.Kernel) -> Piece:
        """A kernel's code; the registers of its pointers are known."""
        key = self._key(kernel)
        piece = find_piece(key)
        if piece is None:
            piece, free_standing = self._written(kernel)
            if free_standing:
                keep_piece(key, piece)
        self.used |= piece.registers
        return piece

    def _key(self, kernel: vir.Kernel) -> Hashable:
        """What a kernel's code depends on: pointers have the first registers, in their order."""
        return kernel.form, kernel.pointers, self.vector, self.apart

    def _written(self, kernel: vir.Kernel) -> tuple[Piece, bool]:
        """A kernel's code, and whether it is the same in every function."""
        registers = tuple(self.pointers.values())
        outside = self.code, self.used, self.counters, self.pointers
        self.code, self.used, self.counters = Code(), set(), 0
        self.pointers = dict(enumerate(registers))
        self.emitter = KernelEmitter(
            kernel, self.vector, registers, self.code, self._loop, self.apart
        )
        self.emitter.run()
        self.emitter = None
        piece = self.code.finished(frozenset(self.used), self._depth(kernel.body.runs))
        free_standing = not self.counters  # those on the stack lie where the function says
        counters = self.counters
        self.code, self.used, self.counters, self.pointers = outside
        self.counters = max(self.counters, counters)
        return piece, free_standing

    def _slot(self, index: int) -> Mem:
        return Mem(x86.RSP, 8 * index + self.inside_call)

    def _move(self, pointer: int, by: int) -> None:
        if not -(1 << 31) <= by < 1 << 31:
            raise DoesNotFit("an array is larger than 2 GiB along one loop")
        if pointer in self.pointers:
            self.code.add(x86.add_imm(self.pointers[pointer], by))
        else:
            self.code.add(x86.add_mem_imm(self._slot(pointer), by))

    def _loop(self, loop: vir.Loop) -> None:
        for at, segment in enumerate(loop.segments):
            if segment.trips > 1:
                self._repeat(segment, loop)
                continue
            self._items(segment.body)
            if at < len(loop.segments) - 1:
                for pointer, by in loop.moves:
                    self._move(pointer, by)
        moved = loop.trips - (1 if loop.segments[-1].trips == 1 else 0)
        for pointer, by in loop.moves:
            if by * moved:
                self._move(pointer, -by * moved)

    def _repeat(self, segment: vir.Segment, loop: vir.Loop) -> None:
        counter = self._counter(self._height(loop))
        if isinstance(counter, int):
            self.code.add(x86.move_imm(counter, segment.trips))
        else:
            self.code.add(x86.store64_imm(counter, segment.trips))
        begin = len(self.code.parts)
        self._items(segment.body)
        for pointer, by in loop.moves:
            self._move(pointer, by)
        self.code.add(x86.dec(counter) if isinstance(counter, int) else x86.dec_mem(counter))
        self.code.add(x86.jnz(-self.code.since(begin) - 6))

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
            if isinstance(item, list):
                continue
            if isinstance(item, vir.Loop):
                deepest = max(deepest, 1 + self._height(item))
            else:
                found = self.heights.get(id(item))
                if found is None:
                    found = self.heights[id(item)] = self._below(item)
                deepest = max(deepest, found)
        return deepest

    def _below(self, item: vir.Kernel | vir.Stage) -> int:
        if isinstance(item, vir.Stage):
            return self._depth(item.body)
        piece = find_piece(self._key(item))
        return piece.height if piece is not None else self._depth(item.body.runs)

    def _counter(self, height: int) -> int | Mem:
        """A register for inner loops, as far as pointers leave one; else a slot on the stack."""
        taken = set(self.pointers.values())
        spare = [r for r in _POINTERS if r not in taken] if self.pointers else []
        if height < len(spare):
            self.used.add(spare[height])
            return spare[height]
        self.counters = max(self.counters, height + 1)
        return self._slot(len(self.function.pointers) + height)
