"""Interned SMT terms over booleans, bit vectors and byte arrays: the nodes themselves.

Equal terms are the same object, so that most of a validation is decided by identity before a
solver is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

# A sort is the width of a bit vector, or one of these.
BOOL = 0
MEMORY = -1  # 64-bit address to a byte with its flags (memory.py)
VALID = -2  # 64-bit address to one bit
INDEX = 64
BYTE = 19  # 8 data bits, 10 of provenance, poison (memory.py)
ELEMENT = {MEMORY: BYTE, VALID: 1}


class Term:
    """One node. `value` holds a constant, a name, or an operation's numbers."""

    __slots__ = ("args", "number", "op", "sort", "value")

    def __init__(
        self, op: str, args: tuple[Term, ...], sort: int, value: object, number: int
    ) -> None:
        self.op, self.args, self.sort, self.value, self.number = op, args, sort, value, number

    @property
    def constant(self) -> bool:
        return self.op == "const"

    def __repr__(self) -> str:
        inside = [repr(argument) for argument in self.args]
        head = f"{self.value}:{self.sort}" if not self.args else self.op
        return f"({head} {' '.join(inside)})" if inside else head


_table: dict[tuple[object, ...], Term] = {}


def make(op: str, args: tuple[Term, ...], sort: int, value: object = None) -> Term:
    key = (op, sort, value, *[argument.number for argument in args])
    found = _table.get(key)
    if found is None:
        found = _table[key] = Term(op, args, sort, value, len(_table))
    return found


_F = TypeVar("_F", bound=Callable[..., Term])
_known: dict[tuple[object, ...], Term] = {}


def memo(function: _F) -> _F:
    """Keep results: simplification descends into shared terms, which are no trees."""

    def wrapper(*arguments: Term | int) -> Term:
        key = (function, *[a.number if isinstance(a, Term) else -a - 1 for a in arguments])
        found = _known.get(key)
        if found is None:
            found = _known[key] = function(*arguments)
        return found

    return wrapper  # type: ignore[return-value]


def clear() -> None:
    """Forget all terms but the constants true and false: one function's terms are of no use to
    the next."""
    _table.clear()
    _known.clear()
    for term in (TRUE, FALSE):
        _table[("const", BOOL, term.value)] = term


def value_of(term: Term) -> int:
    """The number of a constant."""
    assert isinstance(term.value, int)
    return term.value


def bv(value: int, width: int) -> Term:
    """A bit-vector constant, modulo 2**width."""
    return make("const", (), width, value & ((1 << width) - 1))


def boolean(value: bool) -> Term:
    return TRUE if value else FALSE


TRUE = make("const", (), BOOL, 1)
FALSE = make("const", (), BOOL, 0)


def var(name: str, sort: int) -> Term:
    """A free variable."""
    return make("var", (), sort, name)


def apply(name: str, args: Sequence[Term], sort: int) -> Term:
    """An uninterpreted function's value."""
    return make("apply", tuple(args), sort, name)


def signed(term: Term) -> int:
    """The number of a constant, read as two's complement."""
    value = value_of(term)
    return value - (1 << term.sort) if value >> (term.sort - 1) else value
