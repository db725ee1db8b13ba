"""Memory as one array of bytes per block, with known bytes kept apart from the array.

A stack slot is a block of its own, and so is a constant table; all the rest (globals, whatever
arguments and loaded pointers point to) is the block OUTSIDE, addressed absolutely. As in Alive2
(PLDI 2021) a byte carries its data, its pointer's provenance and whether it is poison. Bytes at
offsets that differ from one root by constants stay in a dictionary, so that code straight from a
front end, which keeps every variable in a slot, becomes terms without arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from planish.verify import rebuild
from planish.verify import terms as t
from planish.verify.ir import Type, Unsupported
from planish.verify.terms import BYTE, FALSE, INDEX, MEMORY, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Fresh, Scalar

INITIAL = "memory"  # the variable of what was outside at the entry
_MOST_ORIGINS = 64
_UNKNOWN_ORIGIN = "pointer of unknown origin"


@dataclass(frozen=True)
class Cell:
    """A byte: `byte` as in the array, `undef` whether it was never written."""

    byte: Term
    undef: Term = FALSE


@dataclass(frozen=True)
class Block:
    """A block's contents.

    base   what is below the known bytes
    fresh  the base was never written: its bytes are undef
    root   what the known bytes' offsets are counted from; None is the number zero
    known  offset from the root to byte
    """

    base: Term
    fresh: bool = False
    root: Term | None = None
    known: Mapping[int, Cell] = field(default_factory=dict)


@dataclass(frozen=True)
class Slot:
    """What is known of a block from its making.

    size    bytes; None is not known (OUTSIDE)
    base    its address
    align   of its address, a power of two
    frozen  may not be written
    """

    size: int | None
    base: Term
    align: int = 1
    frozen: bool = False


Blocks = Mapping[int, Block]


def byte(data: Term, block: Term, poison: Term) -> Term:
    """A byte of the array."""
    return t.concat(t.bool_to_bv(poison), t.concat(block, data))


def data_of(cell: Term) -> Term:
    return t.extract(cell, 7, 0)


def block_of(cell: Term) -> Term:
    return t.extract(cell, 7 + PROVENANCE, 8)


def poison_of(cell: Term) -> Term:
    return t.bv_to_bool(t.extract(cell, BYTE - 1, BYTE - 1))


def split(offset: Term) -> tuple[Term | None, int]:
    """An offset as root plus a constant."""
    if offset.constant:
        return None, t.signed(offset)
    if offset.op == "bvadd" and offset.args[1].constant:
        return offset.args[0], t.signed(offset.args[1])
    return offset, 0


def _index(root: Term | None, at: int) -> Term:
    number = t.bv(at, INDEX)
    return number if root is None else t.add(root, number)


def flush(block: Block) -> Term:
    """The contents as an array; raises Unsupported where undef bytes would be lost."""
    array = block.base
    for at, cell in sorted(block.known.items()):
        if cell.undef is not FALSE:
            raise Unsupported("undef bytes read at an offset that is not constant")
        array = t.store(array, _index(block.root, at), cell.byte)
    return array


def read(block: Block, offset: Term) -> Cell:
    """One byte."""
    root, at = split(offset)
    if root is block.root or not block.known:
        found = block.known.get(at)
        if found is not None:
            return found
        if block.fresh and not block.known and root is not None:
            return Cell(t.select(block.base, offset), FALSE)
        undef = t.TRUE if block.fresh else FALSE
        return Cell(_initial(t.select(block.base, offset)), undef)
    return Cell(_initial(t.select(flush(block), offset)))


def _initial(cell: Term) -> Term:
    """A byte of the memory that was there before: it points to no block of this function."""
    if cell.op == "ite":
        c, a, b = cell.args
        return t.ite(c, _initial(a), _initial(b))
    if cell.op == "select" and cell.args[0] is t.var(INITIAL, MEMORY):
        return byte(data_of(cell), t.bv(OUTSIDE, PROVENANCE), poison_of(cell))
    return cell


def initial_facts(roots: Sequence[Term]) -> list[Term]:
    """What `_initial` says, for the places that the terms look at."""
    initial = t.var(INITIAL, MEMORY)
    found = []
    for term in rebuild.below(roots):
        if term.op != "select" or term.sort != BYTE or term.args[0] is initial:
            continue
        if initial in rebuild.variables([term.args[0]]):
            block = block_of(t.select(initial, term.args[1]))
            found.append(t.eq(block, t.bv(OUTSIDE, PROVENANCE)))
    return found


def write(block: Block, offset: Term, cells: list[Cell]) -> Block:
    """The block with neighbouring bytes replaced."""
    root, at = split(offset)
    if block.known and root is not block.root:
        block = Block(flush(block))
    elif not block.known and root is not None:
        block = replace(block, fresh=False)
    known = dict(block.known)
    known.update({at + i: cell for i, cell in enumerate(cells)})
    return replace(block, root=root, known=known)


def merge(condition: Term, a: Block, b: Block) -> Block:
    """`a` where the condition holds, else `b`."""
    if a is b or condition is t.TRUE:
        return a
    if not a.known:
        a = replace(a, root=b.root)
    if not b.known:
        b = replace(b, root=a.root)
    if a.base is b.base and a.root is b.root and a.fresh == b.fresh:
        known = {}
        for at in sorted({*a.known, *b.known}):
            index = _index(a.root, at)
            x, y = (block.known.get(at) or read(block, index) for block in (a, b))
            known[at] = Cell(t.ite(condition, x.byte, y.byte), t.ite(condition, x.undef, y.undef))
        return replace(a, known=known)
    return Block(t.ite(condition, flush(a), flush(b)))


def merge_all(condition: Term, a: Blocks, b: Blocks) -> dict[int, Block]:
    """Memory after two paths; a block that one of them has not made yet is as the other has it."""
    found = dict(b)
    for number, block in a.items():
        found[number] = merge(condition, block, b[number]) if number in b else block
    return found


def origins(block: Term, others: frozenset[int]) -> list[tuple[Term, int]]:
    """(condition, block number): where a pointer of this provenance may point."""
    if block.constant:
        return [(t.TRUE, t.value_of(block))]
    if block.op == "ite":
        c, a, b = block.args
        found: dict[int, Term] = {}
        for guard, branch in ((c, a), (t.not_(c), b)):
            for condition, number in origins(branch, others):
                whole = t.and_(guard, condition)
                found[number] = t.or_(found.get(number, FALSE), whole)
        return [(condition, number) for number, condition in sorted(found.items())]
    if len(others) > _MOST_ORIGINS:
        raise Unsupported(_UNKNOWN_ORIGIN)
    cases = [(t.eq(block, t.bv(number, PROVENANCE)), number) for number in sorted(others)]
    rest = t.not_(t.or_(*(condition for condition, _ in cases)))
    return [*cases, (rest, OUTSIDE)]


def to_cells(value: Scalar, kind: Type) -> list[Cell]:
    """The bytes, little-endian, that storing a scalar writes."""
    undef = FALSE
    if value.undefs:
        if value.bits not in value.undefs:
            raise Unsupported("partly undef value stored")
        undef = t.TRUE
    width = kind.store * 8
    bits = t.zext(value.bits, width)
    block = value.block if value.block is not None else t.bv(OUTSIDE, PROVENANCE)
    return [
        Cell(byte(t.extract(bits, 8 * at + 7, 8 * at), block, value.poison), undef)
        for at in range(kind.store)
    ]


def from_cells(cells: list[Cell], kind: Type, fresh: Fresh) -> Scalar:
    """The scalar of these bytes, little-endian. Of a pointer's bytes the first names its block."""
    bits = data_of(cells[-1].byte)
    for cell in reversed(cells[:-1]):
        bits = t.concat(bits, data_of(cell.byte))
    bits = t.extract(bits, kind.width - 1, 0)
    poison = t.or_(*(poison_of(cell.byte) for cell in cells))
    undefs: frozenset[Term] = frozenset()
    undef = t.or_(*(cell.undef for cell in cells))
    if undef is not FALSE:
        choice = fresh.choice(kind.width)
        bits, undefs = t.ite(undef, choice, bits), frozenset({choice})
        poison = t.and_(poison, t.not_(undef))
    block = block_of(cells[0].byte)
    if kind.kind != "ptr":
        if not (block.constant and t.value_of(block) == OUTSIDE) and undef is not t.TRUE:
            return Scalar(bits, poison, block, undefs)
        return Scalar(bits, poison, None, undefs)
    return Scalar(bits, poison, block, undefs)
