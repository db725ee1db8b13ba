"""Einsum strings: `mk,kn->mn`, with any semiring."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import UsageError, unknown
from planish.tensor.expr import Access, Axis, Expr, Tensor, apply, cast
from planish.tensor.functions import define, reduce
from planish.tensor.types import Type

# Semiring: the reduction, and the operation that joins the operands.
SEMIRINGS = {
    "sum-product": ("sum", "mul"),
    "min-plus": ("min", "add"),
    "max-plus": ("max", "add"),
    "max-times": ("max", "mul"),
    "or-and": ("or", "and"),
    "xor-and": ("xor", "and"),
}


@dataclass(frozen=True)
class Spec:
    """An einsum string taken apart: letters of each operand and of the result."""

    operands: tuple[str, ...]
    result: str

    def expand(self, ranks: Sequence[int]) -> Spec:
        """With letters in the place of every `...`, for operands of so many dimensions.

        As NumPy has it, the axes of `...` are matched from the right. They are not broadcast.
        """
        if not any("..." in o for o in (*self.operands, self.result)):
            return self
        used = {c for o in self.operands for c in o if c != "."}
        spare = [c for c in _LETTERS if c not in used]
        counts = [
            rank - len(o.replace("...", "")) if "..." in o else 0
            for o, rank in zip(self.operands, ranks, strict=True)
        ]
        most = max(counts)
        if min(counts) < 0 or most > len(spare):
            raise UsageError(f"'{self}' does not fit operands of {list(ranks)} dimensions")
        letters = "".join(spare[:most])
        operands = tuple(
            o.replace("...", letters[most - count :])
            for o, count in zip(self.operands, counts, strict=True)
        )
        return Spec(operands, self.result.replace("...", letters))

    def __str__(self) -> str:
        return f"{','.join(self.operands)}->{self.result}"


def parse_spec(text: str) -> Spec:
    """Read an einsum string; with no arrow, letters that occur once are kept, sorted."""
    words = text.replace(" ", "")
    one = r"[A-Za-z]*(?:\.\.\.)?[A-Za-z]*"
    match = re.fullmatch(rf"({one}(?:,{one})*)(?:->({one}))?", words)
    if match is None:
        raise UsageError(
            f"cannot read the einsum '{text}'",
            hint='letters for axes, commas between operands, an arrow: "mk,kn->mn"',
        )
    operands = tuple(match[1].split(","))
    joined = "".join(operands)
    result = match[2]
    if result is None:
        kept = "".join(c for c in sorted(set(joined) - {"."}) if joined.count(c) == 1)
        result = ("..." if "..." in joined else "") + kept
    named = result.replace("...", "")
    if len(set(named)) != len(named):
        raise UsageError(f"the einsum '{text}' keeps an axis twice")
    lost = [c for c in named if c not in joined]
    if "..." in result and "..." not in joined:
        raise UsageError(f"the einsum '{text}' keeps '...', which no operand has")
    if lost:
        raise UsageError(f"the einsum '{text}' keeps the axis '{lost[0]}', which no operand has")
    return Spec(operands, result)


def einsum_program(
    spec: Spec,
    shapes: Sequence[Sequence[int]],
    types: Sequence[Type],
    *,
    semiring: str = "sum-product",
    modulo: int | None = None,
) -> Tensor:
    """The tensor that an einsum defines, for operands of these shapes and types.

    The result has the operands' common type; sums are taken as `reduce` says and cast back.
    """
    if semiring not in SEMIRINGS:
        raise unknown("semiring", semiring, list(SEMIRINGS))
    if len(shapes) != len(spec.operands):
        raise UsageError(f"'{spec}' takes {len(spec.operands)} operands, not {len(shapes)}")
    operands: list[Access] = []
    for at, (letters, shape, type) in enumerate(zip(spec.operands, shapes, types, strict=True)):
        if len(letters) != len(shape):
            raise UsageError(
                f"operand {at + 1} of '{spec}' has {len(letters)} axes and the array {len(shape)}"
            )
        made = Tensor(_NAMES[at] if at < len(_NAMES) else f"T{at}", tuple(shape), type)
        operands.append(Access(made, tuple(Axis(c).index for c in letters)))
    join = SEMIRINGS[semiring]
    value, stored = _joined(join[1], operands), _joined(join[1], operands).type
    if join == SEMIRINGS["sum-product"] and modulo is None and _is_narrow(stored):
        # Wrapping every product and wrapping the sum alone are the same, and the latter is quick.
        value = _joined(join[1], [cast(operand, "i32") for operand in operands])
    if all(t.name in ("f16", "bf16") for t in types):
        stored = types[0]
    bound = [Axis(c) for c in dict.fromkeys("".join(spec.operands)) if c not in spec.result]
    if bound:
        value = reduce(join[0], bound, value, modulo=modulo)
    elif modulo is not None:
        value = apply("mod", value, modulo)
    return define("out", [Axis(c) for c in spec.result], cast(value, stored))


def _joined(name: str, operands: Sequence[Expr]) -> Expr:
    value = operands[0]
    for operand in operands[1:]:
        value = apply(name, value, operand)
    return value


def _is_narrow(type: Type) -> bool:
    """Whether it is of whole numbers that arithmetic wraps below 32 bits."""
    return not type.is_float and type.bits < 32 and type.name != "bool"


def extents_of(spec: Spec, given: Mapping[str, int]) -> list[list[int]]:
    """The operands' shapes for extents by letter."""
    letters = set("".join(spec.operands))
    absent = sorted(letters - set(given))
    if absent:
        raise UsageError(f"the axis '{absent[0]}' has no extent", hint=f"--shape {absent[0]}=64,..")
    surplus = sorted(set(given) - letters)
    if surplus:
        raise unknown("axis", surplus[0], sorted(letters))
    return [[given[c] for c in operand] for operand in spec.operands]


_NAMES = "ABDEFGHIJ"
_LETTERS = "ZYXWVUTSRQPONMLKJIHGFEDCBA"
