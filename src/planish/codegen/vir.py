"""The vector instructions that both code generators read.

A Function is a tree: loops that move pointers, and kernels of straight-line instructions (with
reduction loops) over vector registers without number. A register may be written again, as an
accumulator is. Pointers begin at an argument's first byte and are moved by loops only; after its
last iteration a loop has moved them back.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

# Bytes of a lane, by the type of the register.
SIZE = {"f32": 4, "i32": 4, "f64": 8, "i64": 8}


class Ins(NamedTuple):
    """One instruction.

    op    load, bcast, gather, store, const, prefetch, hreduce, lanes, cmpsel, cvt, bitcast,
          mov and the arithmetic: add sub mul div mod min max and or xor shl sra srl fma fnma
          neg abs sqrt round floor; dot4: of each i32 lane, the last source plus the four
          products of unsigned bytes of the first with signed bytes of the second
    type  of the result (of the operands for cmpsel's comparison, see `imm`): f32 f64 i32 i64
    dst   register written, -1 for none
    src   registers read
    ptr   pointer number and `disp` in bytes, for memory
    n     lanes that count (loads, stores, lanes); all where it equals the kernel's lanes
    imm   whatever else the operation needs: storage type, predicate, constant, stride

    Blocks stand for many instructions on the results of a whole kernel, and are written in one
    go: fill, tile, stores and touch, whose `imm` is a Fill, Tile, Stores or Touch. `expand`
    spells them out.

    Kernels are made of hundreds, in a millisecond: a tuple is what Python makes fastest.
    """

    op: str
    type: str
    dst: int = -1
    src: tuple[int, ...] = ()
    ptr: int = -1
    disp: int = 0
    n: int = 0
    imm: object = None

    def __repr__(self) -> str:
        where = f" p{self.ptr}{self.disp:+d}" if self.ptr >= 0 else ""
        names = ", ".join(f"v{s}" for s in self.src)
        imm = "" if self.imm is None else f" {self.imm}"
        return f"v{self.dst} = {self.op}.{self.type}{where} {names} n={self.n}{imm}"


class Fill(NamedTuple):
    """A constant in all lanes of several registers."""

    value: int | float
    registers: tuple[int, ...]


class Stores(NamedTuple):
    """Where all `src` of the instruction go: displacement and lanes of each, never narrowed."""

    places: tuple[tuple[int, int], ...]


class Touch(NamedTuple):
    """Displacements to prefetch."""

    places: tuple[int, ...]


class Tile(NamedTuple):
    """One step of a reduction of products (or sums, ..) into a tile of results.

    Of every point p and slot s: `totals[p][s] = totals[p][s] combine (a[p] inner b[s])`, where
    a[p] is one element for all lanes and b[s] lies in lanes.

    rows     pointer of a, and its displacements by point
    lanes    pointer of b, and by slot its displacement and how many lanes count
    inner    "fma" for products that are summed up, then `combine` is part of it
    swapped  whether `inner` takes b first
    ahead    bytes ahead of each b to prefetch; 0 for none
    """

    totals: tuple[tuple[int, ...], ...]
    rows: tuple[int, tuple[int, ...]]
    lanes: tuple[int, tuple[tuple[int, int], ...]]
    inner: str
    combine: str
    swapped: bool
    ahead: int


@dataclass(eq=False)
class Segment:
    """A part of a loop: so many trips of one body."""

    trips: int
    body: Sequence[Item]


@dataclass(eq=False)
class Loop:
    """Segments one behind the other; after each trip pointers move by bytes, at the end back."""

    moves: tuple[tuple[int, int], ...]
    segments: list[Segment]

    @property
    def trips(self) -> int:
        """Of all segments."""
        return sum(segment.trips for segment in self.segments)


@dataclass(frozen=True)
class Body:
    """What a kernel does: runs of instructions over `lanes` lanes, and loops of such runs."""

    lanes: int
    runs: list[Run]
    registers: int


@dataclass(eq=False)
class Kernel:
    """The innermost part of a stage; its pointers count from 0 within the stage.

    name      the stage's
    form      equal for kernels of equal code, whatever program they come from
    pointers  how many the stage has
    make      builds the body, which is needed only where no finished code is at hand
    looped    whether the loop around it is part of it
    """

    name: str
    form: Hashable
    pointers: int
    make: Callable[[], Body]
    looped: bool = False

    @cached_property
    def body(self) -> Body:
        """Its instructions. Raises UsageError where the schedule cannot be kept."""
        return self.make()


@dataclass(eq=False)
class Stage:
    """The part of a function that runs one stage: its pointers are live inside, and only there."""

    name: str
    pointers: tuple[int, ...]
    body: list[Item]


Run = list[Ins] | Loop
Item = Run | Kernel | Stage


@dataclass(eq=False)
class Function:
    """Machine code to be: `void f(void **arguments)`.

    pointers  for each, the argument whose first byte it begins at
    """

    pointers: list[int] = field(default_factory=list)
    body: list[Item] = field(default_factory=list)


def instructions(runs: Sequence[Item]) -> Iterator[Ins]:
    """All instructions of a kernel, in order."""
    for run in runs:
        if isinstance(run, list):
            yield from run
        elif isinstance(run, Loop):
            for segment in run.segments:
                yield from instructions(segment.body)


def expand(body: Body) -> Body:
    """The body with its blocks spelt out."""
    count = body.registers

    def fresh() -> int:
        nonlocal count
        count += 1
        return count - 1

    def spelt(runs: Sequence[Item]) -> list[Run]:
        found: list[Run] = []
        for run in runs:
            if isinstance(run, list):
                found.append([one for ins in run for one in _spelt(ins, body.lanes, fresh)])
            elif isinstance(run, Loop):
                parts = [Segment(part.trips, spelt(part.body)) for part in run.segments]
                found.append(Loop(run.moves, parts))
        return found

    return Body(body.lanes, spelt(body.runs), count)


def _spelt(ins: Ins, lanes: int, fresh: Callable[[], int]) -> Iterator[Ins]:
    _, type, _, src, ptr, _, _, imm = ins
    if isinstance(imm, Fill):
        for register in imm.registers:
            yield Ins("const", type, register, n=lanes, imm=imm.value)
    elif isinstance(imm, Stores):
        for register, (disp, n) in zip(src, imm.places, strict=True):
            yield Ins("store", type, -1, (register,), ptr, disp, n, type)
    elif isinstance(imm, Touch):
        for disp in imm.places:
            yield Ins("prefetch", "i32", -1, (), ptr, disp, lanes)
    elif isinstance(imm, Tile):
        yield from _spelt_tile(imm, type, lanes, fresh)
    else:
        yield ins


def _spelt_tile(tile: Tile, type: str, lanes: int, fresh: Callable[[], int]) -> Iterator[Ins]:
    columns = []
    for disp, n in tile.lanes[1]:
        if tile.ahead:
            yield Ins("prefetch", "i32", -1, (), tile.lanes[0], disp + tile.ahead, lanes)
        columns.append(fresh())
        yield Ins("load", type, columns[-1], (), tile.lanes[0], disp, n, type)
    for totals, disp in zip(tile.totals, tile.rows[1], strict=True):
        row = fresh()
        yield Ins("bcast", type, row, (), tile.rows[0], disp, lanes, type)
        for total, column in zip(totals, columns, strict=True):
            pair = (column, row) if tile.swapped else (row, column)
            if tile.inner == "fma":
                yield Ins("fma", type, total, (*pair, total), n=lanes)
                continue
            value = fresh()
            yield Ins(tile.inner, type, value, pair, n=lanes)
            yield Ins(tile.combine, type, total, (total, value), n=lanes)
