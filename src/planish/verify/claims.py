"""What a solver claims: a model, with pointers where they can be laid out, if there is one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planish.verify import rebuild, solvers, values
from planish.verify import terms as t
from planish.verify.exits import Encoded
from planish.verify.native import ZONE, ZONE_SIZE
from planish.verify.refine import Query
from planish.verify.requests import Validate
from planish.verify.shared import Shared
from planish.verify.terms import BOOL, FALSE, INDEX, TRUE, Term
from planish.verify.values import Scalar

if TYPE_CHECKING:
    pass


_MOST_PROBES = 400


_ROOM = 256  # bytes behind a pointer argument


@dataclass(frozen=True)
class Claim:
    """A model: values of variables, and of memory at the places that the query looks at."""

    scalars: dict[Term, Term]
    arrays: dict[Term, dict[int, int]]


def claim_of(query: Query, request: Validate, names: Sequence[str]) -> tuple[Claim | None, str]:
    """A model whose pointers lie in the zone, if there is one; else any; or why there is none."""
    scalars, probes = _wanted(query)
    wanted = [*scalars, *(term for probe in probes for term in (probe[1], probe[2]))]
    apart, together = _layouts(query)
    untyped = types_apart(query.shared)
    layouts = (apart,) if query.shared.restricts_aliasing else (apart, together, TRUE)
    for extra in layouts:
        claim = t.and_(query.violation, extra, untyped)
        answer = solvers.solve([claim], seconds=request.seconds, solvers=names, wanted=wanted)
        if answer.result == "sat":
            return _read(answer, scalars, probes), ""
    if query.shared.restricts_aliasing:
        return None, "only inputs that noalias may rule out"
    return None, "no input that keeps accesses of different types (tbaa) apart"


def _wanted(query: Query) -> tuple[list[Term], list[tuple[Term, Term, Term]]]:
    """Variables, and (array, index, element) for what is read of array variables."""
    roots = [query.violation, *roots_of(query).values()]
    scalars = [v for v in rebuild.variables(roots) if v.sort >= BOOL]
    probes: dict[tuple[int, int], tuple[Term, Term, Term]] = {}
    for term in rebuild.below(roots):
        if term.op != "select":
            continue
        array, index = term.args
        for base in rebuild.variables([array]):
            if base.sort == array.sort:
                key = (base.number, index.number)
                probes[key] = (base, index, t.select(base, index))
    return scalars, list(probes.values())[:_MOST_PROBES]


def _layouts(query: Query) -> tuple[Term, Term]:
    """Pointers in places of their own, and pointers anywhere in the zone."""
    apart, together = [], []
    low, high = t.bv(ZONE, INDEX), t.bv(ZONE + ZONE_SIZE - 1, INDEX)
    for at, argument in enumerate(
        leaf
        for meaning in query.shared.arguments
        for leaf in values.leaves(meaning)
        if leaf.block is not None
    ):
        bits = argument.bits
        null = t.or_(argument.poison, t.eq(bits, t.bv(0, INDEX)))
        first = t.bv(ZONE + 2 * _ROOM * at, INDEX)
        last = t.bv(ZONE + 2 * _ROOM * at + _ROOM, INDEX)
        apart.append(t.or_(null, t.and_(t.ule(first, bits), t.ule(bits, last))))
        together.append(t.or_(null, t.and_(t.ule(low, bits), t.ule(bits, high))))
    inside = []
    for place in query.shared.checks:
        if any(str(v.value).startswith(("address of", "slot")) for v in rebuild.variables([place])):
            continue
        # Places on paths that are not taken may be near null.
        fits = t.and_(t.ule(low, place), t.ule(place, high))
        inside.append(t.or_(fits, t.ult(place, t.bv(1 << 12, INDEX))))
    return t.and_(*apart, *inside), t.and_(*together, *inside)


def types_apart(shared: Shared) -> Term:
    """Accesses of the source under different type tags do not overlap (stronger than tbaa)."""
    found = []
    accesses = shared.accesses
    for at, (tag, place, size, when) in enumerate(accesses):
        for other, there, length, also in accesses[:at]:
            if tag == other:
                continue
            overlap = t.or_(
                t.ult(t.sub(place, there), t.bv(length, INDEX)),
                t.ult(t.sub(there, place), t.bv(size, INDEX)),
            )
            found.append(t.not_(t.and_(when, also, overlap)))
    return t.and_(*found)


def _read(
    answer: solvers.Answer, scalars: list[Term], probes: list[tuple[Term, Term, Term]]
) -> Claim:
    model = answer.model
    arrays: dict[Term, dict[int, int]] = {}
    for base, index, element in probes:
        arrays.setdefault(base, {})[model[index.number]] = model[element.number]
    return Claim({v: _constant(v, model[v.number]) for v in scalars}, arrays)


def _constant(variable: Term, value: int) -> Term:
    return t.boolean(bool(value)) if variable.sort == BOOL else t.bv(value, variable.sort)


def poison_given(query: Query, claim: Claim) -> str:
    """Which arguments are poison in the claim, in words."""
    found = []
    for at, meaning in enumerate(query.shared.arguments):
        for leaf in values.leaves(meaning):
            if claim.scalars.get(leaf.poison) is TRUE:
                found.append(f"argument {at} poison")
    memory_poison = any(
        value >> (t.BYTE - 1) for value in claim.arrays.get(query.shared.memory, {}).values()
    )
    return ", ".join([*found, *(["poison in memory"] if memory_poison else [])])


def roots_of(query: Query) -> dict[str, Term]:
    """What is evaluated of a claim, by name."""
    return {
        "source is undefined": t.or_(query.source.undefined, query.source.incomplete),
        "target is undefined": query.target.undefined,
        "ends differ": query.wrong_end,
        "values differ": query.wrong_value,
        "memories differ": query.wrong_memory,
        "source's result is poison": result_poison(query.source),
        "target's result is poison": result_poison(query.target),
        "source's result": _result_bits(query.source),
        "target's result": _result_bits(query.target),
    }


def result_poison(encoded: Encoded) -> Term:
    """Whether all of the result is poison."""
    if encoded.returned is None or encoded.returned.result is None:
        return FALSE
    return values.all_poison(encoded.returned.result)


def several(roots: Sequence[Term]) -> bool:
    """Whether the terms hold a floating-point result that is not determined: a NaN, mostly.

    Two versions that give two of those that it may be do not differ.
    """
    return any(term.op == "apply" for term in rebuild.below(roots))


def _result_bits(encoded: Encoded) -> Term:
    """The bits of a scalar result; the number zero for any other."""
    if encoded.returned is None or not isinstance(encoded.returned.result, Scalar):
        return t.bv(0, 1)
    return encoded.returned.result.bits
