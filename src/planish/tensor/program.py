"""Programs: definitions lowered to stages, each one loop nest over affine accesses.

A stage computes `out[axes] = post(reduce over bound of body)`. Reductions inside expressions
that are not the stage's own are hoisted into temporaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from planish.base.errors import UsageError
from planish.tensor.expr import (
    Access,
    Axis,
    Const,
    Expr,
    Index,
    Reduce,
    Tensor,
    accesses,
    free_axes,
    rename,
    walk,
)
from planish.tensor.types import Type, identity


@dataclass(frozen=True)
class Definition:
    """How a tensor is computed: axes of its dimensions, the element's value, all extents.

    A padded tensor has `offsets` (where its inner part begins) and `around` (what lies outside).
    `places` are the indices that are written, where these are not the axes.
    """

    axes: tuple[str, ...]
    body: Expr
    extents: tuple[tuple[str, int], ...]
    offsets: tuple[int, ...] = ()
    around: Const | None = None
    places: tuple[Index, ...] = ()


@dataclass(frozen=True)
class Accumulator(Expr):
    """In a stage's `post`: what its reduction came to."""

    type: Type

    def __str__(self) -> str:
        return "acc"


@dataclass(frozen=True)
class Stage:
    """One nest: for all `axes`, `out = post(reduce over `bound` of body)`.

    reduce   the reduction's name, or "" for an elementwise stage (then no axis is bound)
    post     applied to the reduction's result (an Accumulator); None leaves it as it is
    modulo   reduces every partial sum by it
    extents  of all its axes
    """

    name: str
    out: Access
    axes: tuple[str, ...]
    bound: tuple[str, ...]
    reduce: str
    body: Expr
    post: Expr | None
    extents: Mapping[str, int] = field(hash=False)
    modulo: int | None = None

    @property
    def all_axes(self) -> tuple[str, ...]:
        """Its axes, then those it reduces over."""
        return self.axes + self.bound

    @cached_property
    def reads(self) -> tuple[Access, ...]:
        """Every access it reads, each once."""
        return tuple(dict.fromkeys(a for e in self.expressions for a in accesses(e)))

    @property
    def expressions(self) -> tuple[Expr, ...]:
        """Its body and what comes after the reduction."""
        return (self.body,) if self.post is None else (self.body, self.post)

    @cached_property
    def tensors(self) -> frozenset[Tensor]:
        """All that it reads and writes."""
        return frozenset(access.tensor for access in (self.out, *self.reads))

    @cached_property
    def computed_types(self) -> frozenset[str]:
        """Names of the types that its values are computed in."""
        found = {e.type.computed for part in self.expressions for e in walk(part)}
        return frozenset(found | {self.out.type.computed})

    def __str__(self) -> str:
        value = str(self.body)
        if self.reduce:
            word = f"{self.reduce} mod {self.modulo}" if self.modulo else self.reduce
            value = f"{word}({', '.join(self.bound)}: {value})"
        if self.post is not None:
            value = str(self.post).replace("acc", value)
        return f"{self.out} = {value}"


@dataclass(frozen=True)
class Program:
    """Stages in an order in which each finds its operands computed."""

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    stages: tuple[Stage, ...]

    @cached_property
    def temporaries(self) -> tuple[Tensor, ...]:
        """Tensors computed and used inside."""
        written = dict.fromkeys(stage.out.tensor for stage in self.stages)
        return tuple(t for t in written if t not in self.outputs)

    @cached_property
    def extents(self) -> dict[str, int]:
        """Extents of all axes; an axis is one length in all stages (`lower` sees to it)."""
        return {name: n for stage in self.stages for name, n in stage.extents.items()}

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)

    def users(self, tensor: Tensor) -> list[Stage]:
        """The stages that read or write a tensor."""
        return [stage for stage in self.stages if tensor in stage.tensors]

    def flops(self) -> int:
        """Operations of arithmetic on all elements, a multiply-add being two."""
        total = 0
        for stage in self.stages:
            inner = sum(1 for e in walk(stage.body) if e.parts) + bool(stage.reduce)
            outer = sum(1 for e in walk(stage.post) if e.parts) if stage.post else 0
            points = prod(stage.extents[a] for a in stage.axes)
            total += points * (outer + inner * prod(stage.extents[a] for a in stage.bound))
        return total

    def bytes(self) -> int:
        """Bytes of all inputs and outputs, each once."""
        return sum(prod(t.shape) * t.type.size for t in self.inputs + self.outputs)

    def __str__(self) -> str:
        lines = [f"input {t.name} {t.type}{list(t.shape)}" for t in self.inputs]
        lines += [f"temporary {t.name} {t.type}{list(t.shape)}" for t in self.temporaries]
        lines += [f"output {t.name} {t.type}{list(t.shape)}" for t in self.outputs]
        return "\n".join([*lines, *map(str, self.stages)])


def lower(outputs: Sequence[Tensor]) -> Program:
    """The program that computes these tensors, with all they are defined by."""
    lowering = _Lowering()
    for out in outputs:
        if out.definition is None:
            raise UsageError(f"{out.name} is an input; there is nothing to compile")
        lowering.visit(out)
    names = [t.name for t in lowering.inputs + lowering.tensors]
    twice = next((n for n in names if names.count(n) > 1), None)
    if twice:
        raise UsageError(f"two tensors are called '{twice}'", hint="names are unique in a program")
    return Program(tuple(lowering.inputs), tuple(outputs), tuple(lowering.stages))


class _Lowering:
    """Visits definitions, operands first; names what it hoists."""

    def __init__(self) -> None:
        self.inputs: list[Tensor] = []
        self.tensors: list[Tensor] = []
        self.stages: list[Stage] = []
        self._hoisted: dict[Reduce, Tensor] = {}
        self._extents: dict[str, int] = {}

    def visit(self, tensor: Tensor) -> None:
        """Lower a tensor unless that is done."""
        if tensor in self.tensors or tensor in self.inputs:
            return
        definition = tensor.definition
        if definition is None:
            self.inputs.append(tensor)
            return
        extents = dict(definition.extents)
        body = self._prepare(definition.body, tensor, set(definition.axes), extents)
        for access in accesses(body):
            self.visit(access.tensor)
        if definition.around is not None:
            self._fill(tensor, definition.around)
        indices = [Axis(n).index for n in definition.axes]
        if definition.places:
            indices = list(definition.places)
        if definition.offsets:
            indices = [i + o for i, o in zip(indices, definition.offsets, strict=True)]
        self.tensors.append(tensor)
        self.stages.append(
            self._stage(tensor.name, Access(tensor, tuple(indices)), definition.axes, body, extents)
        )

    def _fill(self, tensor: Tensor, value: Const) -> None:
        names = tuple(f"{tensor.name}_f{at}" for at in range(len(tensor.shape)))
        out = Access(tensor, tuple(Axis(n).index for n in names))
        extents = dict(zip(names, tensor.shape, strict=True))
        self.stages.append(self._stage(f"{tensor.name}_around", out, names, value, extents))

    def _prepare(self, body: Expr, tensor: Tensor, axes: set[str], extents: dict[str, int]) -> Expr:
        """The body with every reduction hoisted but the one that becomes the stage's own."""
        top = _outermost(body)
        own = [r for r in top if set(free_axes(r)) == axes]
        main = max(own, key=lambda r: prod(extents[b] for b in r.bound), default=None)
        return self._hoist(body, main, tensor, extents)

    def _hoist(
        self, expr: Expr, keep: Reduce | None, tensor: Tensor, extents: dict[str, int]
    ) -> Expr:
        if isinstance(expr, Reduce) and expr == keep:
            return expr.having([self._hoist(expr.body, None, tensor, extents)])
        if not isinstance(expr, Reduce):
            return expr.having([self._hoist(p, keep, tensor, extents) for p in expr.parts])
        if expr not in self._hoisted:
            axes = free_axes(expr)
            name = f"{tensor.name}_{expr.name}{len(self._hoisted)}"
            inner = tuple(sorted((n, extents[n]) for n in axes + _all_bound(expr)))
            shape = tuple(extents[n] for n in axes)
            made = Tensor(name, shape, expr.type, Definition(axes, expr, inner))
            self._hoisted[expr] = made
            self.visit(made)
        made = self._hoisted[expr]
        return Access(made, tuple(Axis(n).index for n in free_axes(expr)))

    def _stage(
        self, name: str, out: Access, axes: tuple[str, ...], body: Expr, extents: dict[str, int]
    ) -> Stage:
        main = next(iter(_outermost(body)), None)
        if main and any(extents[n] == 0 for n in main.bound):
            nothing = Const(identity(main.name, main.type), main.type)
            return self._stage(name, out, axes, exchange(body, main, nothing), extents)
        bound = main.bound if main else ()
        names = {n: self._name(n, extents[n]) for n in dict.fromkeys(axes + bound)}
        own = {names[n]: extents[n] for n in axes + bound}
        out = rename(out, names)
        axes = tuple(names[n] for n in axes)
        if main is None:
            return Stage(name, out, axes, (), "", rename(body, names), None, own)
        post = None if body == main else rename(exchange(body, main, Accumulator(main.type)), names)
        bound = tuple(names[n] for n in bound)
        inner = rename(main.body, names)
        return Stage(name, out, axes, bound, main.name, inner, post, own, main.modulo)

    def _name(self, axis: str, extent: int) -> str:
        """The axis' own name, or another one where statements use it at several lengths."""
        name, at = axis, 1
        while self._extents.setdefault(name, extent) != extent:
            at += 1
            name = f"{axis}{at}"
        return name


def _outermost(expr: Expr) -> list[Reduce]:
    """Reductions that lie in no other one, each once."""
    if isinstance(expr, Reduce):
        return [expr]
    return list(dict.fromkeys(r for part in expr.parts for r in _outermost(part)))


def _all_bound(expr: Expr) -> tuple[str, ...]:
    return tuple(dict.fromkeys(n for e in walk(expr) if isinstance(e, Reduce) for n in e.bound))


def exchange(expr: Expr, old: Expr, new: Expr) -> Expr:
    """The expression with one part exchanged for another, wherever it occurs."""
    if expr == old:
        return new
    return expr.having([exchange(part, old, new) for part in expr.parts])
