"""What an LLVM value is in terms: bits, whether it is poison, where a pointer points."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from planish.verify import rebuild
from planish.verify import terms as t
from planish.verify.ir import Type, Unsupported
from planish.verify.terms import FALSE, TRUE, Term

PROVENANCE = 10  # bits
OUTSIDE = 1  # provenance of everything that is no stack slot or constant table of the function


@dataclass(frozen=True)
class Scalar:
    """An integer, float or pointer.

    bits    the number; for a pointer its offset within the block that it points to
    poison  whether it is poison
    block   a pointer's provenance: the number of its block
    undefs  variables that each use chooses anew (undef)
    """

    bits: Term
    poison: Term
    block: Term | None = None
    undefs: frozenset[Term] = frozenset()


@dataclass(frozen=True)
class Group:
    """A vector, array or struct."""

    parts: tuple[Meaning, ...]


Meaning = Scalar | Group


class Fresh:
    """Makes variables with names of their own. `side` is "s" (source) or "t" (target).

    choices  the nondeterministic ones that were made, in order: what undef and freeze choose
    """

    def __init__(self, side: str) -> None:
        self.side = side
        self.choices: list[Term] = []
        self._count = 0

    def choice(self, sort: int) -> Term:
        """A nondeterministic choice."""
        made = self.make("choice", sort)
        self.choices.append(made)
        return made

    def make(self, name: str, sort: int) -> Term:
        """Any other variable."""
        self._count += 1
        return t.var(f"{self.side}.{name}.{self._count}", sort)


def leaves(meaning: Meaning) -> list[Scalar]:
    """The scalars in order."""
    if isinstance(meaning, Scalar):
        return [meaning]
    return [leaf for part in meaning.parts for leaf in leaves(part)]


def build(kind: Type, make: Callable[[Type], Scalar]) -> Meaning:
    """A value of the type from one for each of its scalars."""
    if kind.scalar:
        return make(kind)
    if kind.kind in ("vector", "array", "struct"):
        if kind.kind == "array" and kind.size and not kind.parts:
            raise Unsupported("array value of more than 4096 elements")
        return Group(tuple(build(part, make) for part in kind.parts))
    raise Unsupported(f"type {kind}")


def poison_of(kind: Type) -> Meaning:
    """Poison of the type."""
    return build(kind, lambda part: _scalar(part, t.bv(0, part.width), TRUE))


def zero_of(kind: Type) -> Meaning:
    """All bits zero."""
    return build(kind, lambda part: _scalar(part, t.bv(0, part.width), FALSE))


def undef_of(kind: Type, fresh: Fresh) -> Meaning:
    """Undef of the type."""

    def make(part: Type) -> Scalar:
        choice = fresh.choice(part.width)
        made = _scalar(part, choice, FALSE)
        return Scalar(made.bits, made.poison, made.block, frozenset({choice}))

    return build(kind, make)


def _scalar(kind: Type, bits: Term, poison: Term) -> Scalar:
    return Scalar(bits, poison, t.bv(OUTSIDE, PROVENANCE) if kind.kind == "ptr" else None)


def merge(condition: Term, a: Meaning, b: Meaning) -> Meaning:
    """`a` where the condition holds, else `b`."""
    if a is b or condition is TRUE:
        return a
    if isinstance(a, Group) and isinstance(b, Group):
        return Group(tuple(merge(condition, x, y) for x, y in zip(a.parts, b.parts, strict=True)))
    assert isinstance(a, Scalar) and isinstance(b, Scalar)
    block = None
    if a.block is not None and b.block is not None:
        block = t.ite(condition, a.block, b.block)
    return Scalar(
        t.ite(condition, a.bits, b.bits),
        t.ite(condition, a.poison, b.poison),
        block,
        a.undefs | b.undefs,
    )


def renamed(meaning: Meaning, fresh: Fresh) -> Meaning:
    """The value as one use of it sees it: each undef is chosen anew."""
    if isinstance(meaning, Group):
        if not any(leaf.undefs for leaf in leaves(meaning)):
            return meaning
        return Group(tuple(renamed(part, fresh) for part in meaning.parts))
    if not meaning.undefs:
        return meaning
    mapping = {old: fresh.choice(old.sort) for old in sorted(meaning.undefs, key=_number)}
    bits, poison = rebuild.substitute([meaning.bits, meaning.poison], mapping)
    return Scalar(bits, poison, meaning.block, frozenset(mapping.values()))


def _number(term: Term) -> int:
    return term.number


def refines(source: Meaning, target: Meaning) -> Term:
    """Whether the target's value may stand for the source's."""
    found = []
    for a, b in zip(leaves(source), leaves(target), strict=True):
        same = t.eq(a.bits, b.bits)
        if a.block is not None and b.block is not None:
            same = t.and_(same, t.eq(a.block, b.block))
        found.append(t.or_(a.poison, t.and_(t.not_(b.poison), same)))
    return t.and_(*found)


def all_poison(meaning: Meaning) -> Term:
    """Whether any part of the value is poison."""
    return t.or_(*(leaf.poison for leaf in leaves(meaning)))
