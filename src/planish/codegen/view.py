"""A stage as lowering sees it: where its operands begin and how far each axis moves them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

from planish.codegen.layout import Place, move, start
from planish.tensor.expr import Access, Expr, Op
from planish.tensor.loops import For
from planish.tensor.program import Stage


class Operand:
    """An access of a stage, read or written.

    pointer  the number of the pointer that loops move for it
    stored   name of the type it has in memory, `size` its bytes
    start    bytes from the tensor's first element to it, all axes being at 0
    """

    __slots__ = ("_place", "_steps", "access", "axes", "computed", "pointer", "size", "start",
                 "stored", "tensor")  # fmt: skip

    def __init__(self, access: Access, place: Place, pointer: int) -> None:
        type = access.tensor.type
        self.access = access
        self.pointer = pointer
        self.tensor = access.tensor.name
        self.stored = type.name
        self.computed = type.computed
        self.size = type.size
        self.start = start(access, place)
        self.axes = frozenset(name for index in access.indices for name, _ in index.terms)
        self._place = place
        self._steps: dict[str, int] = {}
        if place.blocks is None:
            for axis in self.axes:
                self._steps[axis] = move(access, place, axis, 1)

    def moved(self, axis: str, count: int) -> int:
        """Bytes from the element to the one `count` further along the axis."""
        if self._place.blocks is None:
            return self._steps.get(axis, 0) * count
        return move(self.access, self._place, axis, count)

    def in_quads(self, axis: str, vector: str) -> bool:
        """Whether bytes lie in fours along `axis`, one four beside the other along `vector`."""
        blocks = self._place.blocks
        if blocks is None or self.size != 1 or vector == axis:
            return False
        own, across = blocks.get(axis, ()), blocks.get(vector, ())
        return bool(across) and across[-1] == (1, 4) and [step for step, _ in own[-2:]] == [4, 1]

    def form(self, axes: Sequence[str]) -> Hashable:
        """All that code depends on which moves along these axes only."""
        blocks = self._place.blocks
        if blocks is None:
            return self.pointer, self.stored, self.start, *(self._steps.get(a, 0) for a in axes)
        return self.pointer, self.stored, self.start, *((0, blocks.get(a, ())) for a in axes)

    def __repr__(self) -> str:
        return f"Operand({self.access}, p{self.pointer}+{self.start})"


class StageView:
    """A stage with its operands; those that loops move alike share a pointer.

    pointers  how many there are
    """

    def __init__(self, stage: Stage, places: Mapping[str, Place]) -> None:
        self.stage = stage
        self.operands: list[Operand] = []
        self.pointers: list[Access] = []
        self._of: dict[int, Operand] = {}
        self._equal: dict[Access, Operand] = {}
        numbers: dict[object, int] = {}
        for access in dict.fromkeys((stage.out, *stage.reads)):
            alike = (access.tensor.name, tuple(index.terms for index in access.indices))
            pointer = numbers.get(alike)
            if pointer is None:
                pointer = numbers[alike] = len(self.pointers)
                self.pointers.append(access)
            operand = Operand(access, places[access.tensor.name], pointer)
            self.operands.append(operand)
            self._of[id(access)] = self._equal[access] = operand
        self._form: Hashable = None

    def operand(self, access: Access) -> Operand:
        """The operand that an access of the stage's expressions is."""
        found = self._of.get(id(access))
        if found is None:
            found = self._of[id(access)] = self._equal[access]
        return found

    def moves(self, loop: For) -> list[tuple[Operand, int]]:
        """For each pointer that the loop moves, an operand of it and the bytes of one trip."""
        found = []
        seen = 0
        for operand in self.operands:
            if operand.pointer == seen:  # the first of its pointer
                seen += 1
                step = operand.moved(loop.axis, loop.step)
                if step:
                    found.append((operand, step))
        return found

    @property
    def form(self) -> Hashable:
        """The stage's computation, whatever its tensors and axes are called."""
        if self._form is None:
            stage = self.stage
            numbers = {id(operand): at for at, operand in enumerate(self.operands)}

            def shape(expr: Expr) -> Hashable:
                if isinstance(expr, Access):
                    return numbers[id(self.operand(expr))]
                head = getattr(expr, "value", None)
                # 0 and -0.0 are equal, and not the same constant.
                name = expr.name if isinstance(expr, Op) else type(expr).__name__
                return (name, repr(head), expr.type.name, *map(shape, expr.parts))

            post = shape(stage.post) if stage.post is not None else None
            self._form = (
                stage.reduce, stage.modulo, shape(stage.body), stage.body.type.name, post,
                len(stage.axes), len(stage.bound),
            )  # fmt: skip
        return self._form
