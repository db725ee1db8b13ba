"""How executions end, and one meaning for all of their ends."""

from __future__ import annotations

from dataclasses import dataclass

from planish.verify import memory, values
from planish.verify import terms as t
from planish.verify.ir import Function
from planish.verify.machine import Machine, State, Unwound
from planish.verify.terms import Term
from planish.verify.values import Meaning


@dataclass(frozen=True)
class Exit:
    """A way out: when, and what the state then is."""

    condition: Term
    result: Meaning | None
    state: State


@dataclass
class Encoded:
    """A function's meaning.

    undefined    when the behaviour is undefined
    incomplete   when a loop goes on beyond the bound
    returned     merged from all returns; None where there is none
    unwound      merged from all exceptions that leave the function; the result is the exception
    diverged     when a call does not return, and the state of the world then
    choices      nondeterministic choices
    assumptions  simplifications that the encoding made, in words
    """

    undefined: Term
    incomplete: Term
    returned: Exit | None
    diverged: tuple[Term, Term] | None
    unwound: Exit | None
    choices: tuple[Term, ...]
    steps: int
    loops: bool = False
    assumptions: frozenset[str] = frozenset()


def merge(condition: Term, a: State, b: State) -> State:
    """`a` where the condition holds, else `b`."""
    names = a.values.keys() & b.values.keys()
    return State(
        {n: values.merge(condition, a.values[n], b.values[n]) for n in sorted(names)},
        memory.merge_all(condition, a.blocks, b.blocks),
        t.ite(condition, a.world, b.world),
        t.ite(condition, a.valid, b.valid),
    )


def finish(machine: Machine, function: Function, returned: Exit | None, *, loops: bool) -> Encoded:
    """All ways out, merged."""
    diverged = None
    for condition, world in reversed(machine.diverged):
        if diverged is None:
            diverged = (condition, world)
        else:
            diverged = (
                t.or_(condition, diverged[0]),
                t.ite(condition, world, diverged[1]),
            )
    unwound = None
    for one in reversed(leaving(machine, function)):
        thrown = Exit(one.condition, one.thrown, one.state)
        unwound = thrown if unwound is None else merge_exits(thrown, unwound)
    return Encoded(
        t.or_(*machine.undefineds),
        t.or_(*machine.incomplete),
        returned,
        diverged,
        unwound,
        tuple(machine.fresh.choices),
        machine.steps,
        loops,
        frozenset(machine.assumptions),
    )


def leaving(machine: Machine, function: Function) -> list[Unwound]:
    """What unwinds out of the function; where it promises that nothing does, that is undefined."""
    if "nounwind" not in function.flags:
        return machine.unwound
    machine.undefineds += [one.condition for one in machine.unwound]
    return []


def merge_exits(a: Exit, b: Exit) -> Exit:
    """One way out in place of two."""
    common = t.conjuncts(a.condition) & t.conjuncts(b.condition)
    own = t.and_(*(t.conjuncts(a.condition) - common))
    result = a.result
    if a.result is not None and b.result is not None:
        result = values.merge(own, a.result, b.result)
    return Exit(t.either(a.condition, b.condition), result, merge(own, a.state, b.state))
