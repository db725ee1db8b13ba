"""Where the elements of a tile lie: dimensions, index variables, pointers, masks, stores.

A dimension stands for one or several axes, flattened; every value has the rank of the tile, with
length 1 along dimensions that it does not depend on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from planish.codegen.triton.source import Code, argument, row_major_elements
from planish.tensor.expr import Access, Index, Tensor
from planish.tensor.small_floats import LAYOUTS
from planish.tensor.types import Type


@dataclass(frozen=True)
class Dim:
    """A dimension: axes with their extents, outermost first.

    block   name of the constant with the tile's length; "" where one program has one point
    length  its value
    always  tiles may reach beyond the end although the length divides the extent
    """

    name: str
    axes: tuple[tuple[str, int], ...]
    block: str = ""
    length: int = 1
    always: bool = False

    @property
    def extent(self) -> int:
        """Points of all axes together."""
        return prod(n for _, n in self.axes)

    @property
    def masked(self) -> bool:
        """Whether the last tile reaches beyond the end."""
        return bool(self.block) and (self.always or self.extent % self.length != 0)


class Places:
    """Indices, pointers and masks; `tile` are the dimensions of values, in order."""

    def __init__(
        self,
        code: Code,
        tile: Sequence[Dim],
        programs: Sequence[Dim],
        strides: Mapping[str, tuple[int, ...]],
        reads: Sequence[Access],
    ) -> None:
        self.code = code
        self.tile = tuple(tile)
        self._strides = strides
        self._reads = list(reads)
        self.dims = {axis: d for d in (*tile, *programs) for axis, _ in d.axes}
        self._index: dict[str, str] = {}  # `@` dimension, or axis, to its variable
        self.wide = any(
            prod(a.tensor.shape) >= 1 << 31 or self._reach(a.tensor) >= 1 << 31 for a in reads
        )

    def _reach(self, tensor: Tensor) -> int:
        return sum(s * (n - 1) for s, n in zip(self.strides(tensor), tensor.shape, strict=True))

    def strides(self, tensor: Tensor) -> tuple[int, ...]:
        """Strides in elements."""
        return self._strides.get(tensor.name) or row_major_elements(tensor.shape)

    # -- indices ---------------------------------------------------------------------------------

    def define(self, dim: Dim, start: str) -> str:
        """Write the index of a dimension, and of its axes where an access needs them apart."""
        name = self.code.fresh(dim.axes[0][0] if len(dim.axes) == 1 else dim.name * 2)
        text = f"{start} + tl.arange(0, {dim.block})" if dim.block else start
        if start == "0" and dim.block:
            text = f"tl.arange(0, {dim.block})"
        if self.wide:
            text = f"({text}).to(tl.int64)"
        self.code.line(f"{name} = {text}")
        self.bind(dim, name)
        return name

    def share(self, dim: Dim, other: Places) -> None:
        """Use the variables that another scope has for a dimension."""
        for key in ("@" + dim.name, *(axis for axis, _ in dim.axes)):
            if key in other._index:
                self._index[key] = other._index[key]

    def index_of(self, dim: Dim) -> str:
        """The variable with a dimension's index."""
        return self._index["@" + dim.name]

    def bind(self, dim: Dim, name: str) -> None:
        """Say which variable holds the dimension's index."""
        self._index["@" + dim.name] = name
        if len(dim.axes) == 1:
            self._index[dim.axes[0][0]] = name
            return
        if all(self._flat(a, dim) is not None for a in self._reads):
            return
        inner = dim.extent
        for at, (axis, extent) in enumerate(dim.axes):
            inner //= extent
            text = name if inner == 1 else f"{name} // {inner}"
            if at and extent:
                text += f" % {extent}"
            own = self.code.fresh(axis)
            self.code.line(f"{own} = {text}")
            self._index[axis] = own

    def coefficients(self, access: Access, dim: Dim) -> list[int]:
        """Elements from one step of each axis of the dimension."""
        strides = self.strides(access.tensor)
        return [
            sum(i.coefficient(axis) * s for i, s in zip(access.indices, strides, strict=True))
            if n > 1
            else 0  # there is but one place to be
            for axis, n in dim.axes
        ]

    def _flat(self, access: Access, dim: Dim) -> int | None:
        """The step of the flattened index, where one is enough; else None."""
        long = [
            (step, n)
            for step, (_, n) in zip(self.coefficients(access, dim), dim.axes, strict=True)
            if n > 1
        ]
        if any(a != b * n for (a, _), (b, n) in pairwise(long)):
            return None
        return long[-1][0] if long else 0

    def place(self, dim: Dim, text: str) -> str:
        """A vector along a tile's dimension, with the tile's rank."""
        if len(self.tile) == 1 or dim not in self.tile:
            return text
        at = self.tile.index(dim)
        where = ", ".join(":" if i == at else "None" for i in range(len(self.tile)))
        return f"{text}[{where}]"

    def index_text(self, index: Index) -> str:
        """An affine index as a value of the tile's rank."""
        parts = []
        for axis, c in index.terms:
            text = self.place(self.dims[axis], self._axis(axis))
            parts.append(text if c == 1 else f"{text} * {c}")
        if index.constant or not parts:
            parts.append(str(index.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def _axis(self, axis: str) -> str:
        """The variable of an axis; taken apart from its dimension where that was not needed yet."""
        if axis not in self._index:
            dim = self.dims[axis]
            inner = prod(n for _, n in dim.axes[[a for a, _ in dim.axes].index(axis) + 1 :])
            extent = dict(dim.axes)[axis]
            return f"({self.index_of(dim)} // {inner} % {extent})"
        return self._index[axis]

    def pointer(self, access: Access) -> str:
        """Base plus offset in elements."""
        strides = self.strides(access.tensor)
        fixed = sum(i.constant * s for i, s in zip(access.indices, strides, strict=True))
        parts = [argument(access.tensor.name)]
        if fixed:
            parts.append(str(fixed))
        programs = [d for d in dict.fromkeys(self.dims.values()) if d not in self.tile]
        for dim in (*programs, *self.tile):
            flat = self._flat(access, dim)
            if flat is not None:
                steps = [(self._index.get("@" + dim.name, ""), flat)]
            else:
                names = [axis for axis, _ in dim.axes]
                steps = [
                    (self._axis(axis), c)
                    for axis, c in zip(names, self.coefficients(access, dim), strict=True)
                ]
            for name, step in steps:
                if step == 0:
                    continue
                text = self.place(dim, name)
                parts.append(text if step == 1 else f"{text} * {step}")
        return " + ".join(parts).replace("+ -", "- ")

    def store(self, access: Access, value: str) -> None:
        """Write a value of the tile's rank (or a narrower one) to memory."""
        mask = self.mask(self.dims_of(access))
        words = f", mask={mask}" if mask else ""
        pointer = self.pointer(access)
        if not self.dims_of(access):
            pointer += f" + tl.zeros(({'1, ' * len(self.tile)}), tl.int32)"
        self.code.line(f"tl.store({pointer}, {self.stored(value, access.type)}{words})")

    def stored(self, value: str, type: Type) -> str:
        """A computed value as it lies in memory; Triton itself converts all types but f8."""
        if type.name not in LAYOUTS:
            return value
        return f"{self.code.helper(f'_to_{type.name}')}({value})"

    def mask(self, dims: Sequence[Dim]) -> str:
        """Lanes inside of these dimensions; "" where no tile reaches beyond."""
        parts = []
        for dim in dims:
            if dim.masked and dim in self.tile:
                vector = f"{self.index_of(dim)} < {dim.extent}"
                parts.append(self.place(dim, f"({vector})") if len(self.tile) > 1 else vector)
        return " & ".join(f"({p})" if len(parts) > 1 and " < " in p and p[0] != "(" else p
                          for p in parts)  # fmt: skip

    def dims_of(self, access: Access) -> list[Dim]:
        """The tile's dimensions that an access depends on."""
        return [d for d in self.tile if any(self.coefficients(access, d))]
