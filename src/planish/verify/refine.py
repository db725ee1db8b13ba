"""The question put to the solver: is there an input on which the target does not refine?

For every input on which the source is not undefined, the target is not undefined, ends the same
way, and gives the source's value and memory unless those are poison (Alive2, PLDI 2021).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from planish.verify import inlining, memory, values
from planish.verify import terms as t
from planish.verify.encode import encode
from planish.verify.exits import Encoded, Exit
from planish.verify.ir import Function
from planish.verify.memory import Block
from planish.verify.shared import Shared, add_callees, add_globals, share
from planish.verify.terms import FALSE, INDEX, Term
from planish.verify.values import OUTSIDE


@dataclass(frozen=True)
class Query:
    """A refinement as terms.

    facts       what holds of every input
    violation   an input on which the target does not refine the source
    fine        an input on which the source is defined, and both are followed to their ends
    reached     an input on which the source returns within the bound, defined
    incomplete  an input on which one of them exceeds the bound
    """

    shared: Shared
    source: Encoded
    target: Encoded
    facts: Term
    violation: Term
    reached: Term
    incomplete: Term
    undefined: Term
    wrong_end: Term
    wrong_value: Term
    wrong_memory: Term
    fine: Term

    @property
    def parts(self) -> tuple[Term, ...]:
        """The violation in pieces: each may be decided where the whole is too much."""
        kinds = (self.undefined, self.wrong_end, self.wrong_value, self.wrong_memory)
        return tuple(t.and_(self.fine, kind) for kind in kinds if kind is not FALSE)

    @property
    def loops(self) -> bool:
        """Whether one of them has loops."""
        return self.source.loops or self.target.loops

    @property
    def steps(self) -> int:
        """Instructions after unrolling, of both."""
        return self.source.steps + self.target.steps

    @property
    def assumptions(self) -> frozenset[str]:
        found = self.source.assumptions | self.target.assumptions
        return found | self.shared.assumptions


Find = Callable[[str], Function | None]


def ask(
    source: Function,
    target: Function,
    bound: int,
    find_source: Find = lambda _: None,
    find_target: Find = lambda _: None,
    seconds: float = 3600.0,
    settle: Callable[[Term], bool] = lambda _: False,
) -> Query:
    """Encode both; raises Unsupported, naming what has no meaning here.

    seconds  of this process's time for the encoding
    settle   asks a solver whether a term is never true: then a call of the target that is shown to
             ask what one of the source asked has its answer, and what follows is the same terms
    find_source, find_target  the bodies of callees, which are executed where the two versions do
    not call them equally often: one of them has been inlined
    """
    shared = share(source, target)
    shared.deadline = time.process_time() + seconds
    ours, theirs = inlining.choose(source, target, find_source, find_target)
    add_globals(shared, [*ours.values(), *theirs.values()])
    add_callees(shared, [source, target, *ours.values(), *theirs.values()])
    before = encode(source, shared, "s", bound, ours)
    shared.never = t.disjuncts(t.or_(before.undefined, before.incomplete))
    shared.settle = settle
    after = encode(target, shared, "t", bound, theirs)
    return compare(shared, before, after)


def compare(shared: Shared, before: Encoded, after: Encoded) -> Query:
    """The query of two encodings that share their inputs."""
    facts = t.and_(*shared.facts)
    fine = t.and_(
        facts,
        t.not_(before.undefined),
        t.not_(before.incomplete),
        t.not_(after.incomplete),
    )
    returns_before = before.returned.condition if before.returned else FALSE
    returns_after = after.returned.condition if after.returned else FALSE
    wrong_end = t.not_(t.eq(returns_before, returns_after))
    if before.diverged and after.diverged:
        differ = t.not_(t.eq(before.diverged[1], after.diverged[1]))
        wrong_end = t.or_(wrong_end, t.and_(before.diverged[0], after.diverged[0], differ))
    other_world, wrong_value, wrong_memory = _exits_differ(before.returned, after.returned)
    throws_before = before.unwound.condition if before.unwound else FALSE
    throws_after = after.unwound.condition if after.unwound else FALSE
    wrong_end = t.or_(wrong_end, other_world, t.not_(t.eq(throws_before, throws_after)))
    wrong_end = t.or_(wrong_end, *_exits_differ(before.unwound, after.unwound))
    bad = t.or_(after.undefined, wrong_end, wrong_value, wrong_memory)
    facts = t.and_(facts, *memory.initial_facts([fine, bad]))
    fine = t.and_(facts, fine)
    return Query(
        shared,
        before,
        after,
        facts,
        t.and_(fine, bad),
        t.and_(facts, t.not_(before.undefined), t.not_(before.incomplete),
               t.or_(returns_before, throws_before,
                     before.diverged[0] if before.diverged else FALSE)),
        t.and_(facts, t.not_(before.undefined), t.or_(before.incomplete, after.incomplete)),
        after.undefined,
        wrong_end,
        wrong_value,
        wrong_memory,
        fine,
    )  # fmt: skip


def _exits_differ(x: Exit | None, y: Exit | None) -> tuple[Term, Term, Term]:
    """Where both are taken: whether the worlds, the results, or the memories differ."""
    if x is None or y is None:
        return FALSE, FALSE, FALSE
    both = t.and_(x.condition, y.condition)
    world = t.and_(both, t.not_(t.eq(x.state.world, y.state.world)))
    value = FALSE
    if x.result is not None and y.result is not None:
        value = t.and_(both, t.not_(values.refines(x.result, y.result)))
    return world, value, t.and_(both, _memory_differs(x.state.blocks, y.state.blocks))


def _memory_differs(before: Mapping[int, Block], after: Mapping[int, Block]) -> Term:
    """Whether some byte outside does not refine the source's."""
    a, b = before[OUTSIDE], after[OUTSIDE]
    if a == b:
        return FALSE
    if a.base is b.base and (a.root is b.root or not a.known or not b.known):
        root = a.root if a.known else b.root
        wrong = FALSE
        for at in {*a.known, *b.known}:
            number = t.bv(at, INDEX)
            place = number if root is None else t.add(root, number)
            wrong = t.or_(wrong, _byte_differs(a, b, place))
        return wrong
    if memory.flush(a) is memory.flush(b):
        return FALSE
    return _byte_differs(a, b, t.var("address that differs", INDEX))


def _byte_differs(a: Block, b: Block, place: Term) -> Term:
    x, y = memory.read(a, place), memory.read(b, place)
    same = t.and_(t.eq(memory.data_of(x.byte), memory.data_of(y.byte)),
                  t.eq(memory.block_of(x.byte), memory.block_of(y.byte)))  # fmt: skip
    refines = t.or_(memory.poison_of(x.byte), t.and_(t.not_(memory.poison_of(y.byte)), same))
    return t.and_(t.not_(refines), t.not_(x.undef))
