"""Where an execution stands: values, memory, the path's condition, what is undefined so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from planish.verify import access, memory, pointers, rebuild, values
from planish.verify import terms as t
from planish.verify.ir import (
    Address,
    Aggregate,
    Expression,
    Function,
    Instruction,
    Local,
    Number,
    Operand,
    Special,
    Type,
    Unsupported,
)
from planish.verify.memory import Block
from planish.verify.shared import Shared
from planish.verify.slots import slots_of
from planish.verify.terms import FALSE, MEMORY, TRUE, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Fresh, Group, Meaning, Scalar

THROWN = -1  # the local that holds the exception between an invoke and its landing pad


@dataclass
class State:
    """Where one path, or several merged ones, stand."""

    values: dict[int, Meaning]
    blocks: dict[int, Block]
    world: Term
    valid: Term


@dataclass(frozen=True)
class Unwound:
    """A way out by an exception."""

    condition: Term
    thrown: Meaning
    state: State


class Machine:
    """Executes instructions on terms, under the condition that they are reached.

    diverged  (condition, state of the world) of calls that do not return
    unwound   (condition, exception, state) of what ends the function by an exception
    pads      the same of the last invoke: it goes on at the landing pad
    inlined   callees that are executed rather than asked, by name
    stack     functions that are being executed
    leaked    stack slots whose address has been stored or given away so far
    """

    def __init__(
        self, function: Function, shared: Shared, side: str, inlined: Mapping[str, Function]
    ) -> None:
        self.function, self.shared, self.side = function, shared, side
        self.inlined = inlined
        self.stack: list[str] = [function.name]
        self.slots: Mapping[int, int] = slots_of(shared, function, side)
        self.incomplete: list[Term] = []
        self.inline: Callable[[Function, list[Meaning]], Meaning | None] = _no_inlining
        self.fresh = Fresh(side)
        self.condition = TRUE
        self.state = State({}, {}, shared.world, shared.valid)
        self.undefineds: list[Term] = []
        self.diverged: list[tuple[Term, Term]] = []
        self.unwound: list[Unwound] = []
        self.pads: list[Unwound] = []
        self.leaked: frozenset[int] = frozenset()
        self.assumptions: set[str] = set()
        self.steps = 0
        self.captured = pointers.captured(function, self.slots)

    def start(self) -> State:
        """The state at the entry."""
        given = {
            parameter.number: argument
            for parameter, argument in zip(
                self.function.parameters, self.shared.arguments, strict=True
            )
        }
        blocks = {OUTSIDE: Block(self.shared.memory, known=self.shared.known)}
        for name, number in self.shared.tables.items():
            contents = self.shared.globals[name].contents
            assert contents is not None
            blocks[number] = self._table(number, contents)
        self.state = State(given, blocks, self.shared.world, self.shared.valid)
        return self.state

    def _table(self, number: int, contents: Operand) -> Block:
        block = Block(t.var(f"table {number}", MEMORY))
        known = dict(self._initial(self.value(contents), contents.type, 0))
        return Block(block.base, known=known)

    def _initial(self, value: Meaning, kind: Type, offset: int) -> list[tuple[int, memory.Cell]]:
        if isinstance(value, Scalar):
            cells = memory.to_cells(value, kind)
            return [(offset + at, cell) for at, cell in enumerate(cells)]
        found = []
        for part, inner, place in zip(value.parts, kind.parts, kind.offsets, strict=True):
            found += self._initial(part, inner, offset + place)
        return found

    # -- operands ----------------------------------------------------------------------------

    def use(self, operand: Operand) -> Meaning:
        """An operand as one use sees it: undef is chosen."""
        return values.renamed(self.value(operand), self.fresh)

    def scalar(self, operand: Operand) -> Scalar:
        """A scalar operand as one use sees it."""
        found = self.use(operand)
        if not isinstance(found, Scalar):
            raise Unsupported(f"operand of type {operand.type}")
        return found

    def value(self, operand: Operand) -> Meaning:
        """An operand as it stands."""
        kind, held = operand.type, operand.value
        if isinstance(held, Local):
            found = self.state.values.get(held.number)
            if found is None:
                raise Unsupported("use of a value on a path that does not define it")
            return found
        if isinstance(held, Number):
            block = t.bv(OUTSIDE, PROVENANCE) if kind.kind == "ptr" else None
            if not kind.scalar:
                raise Unsupported(f"type {kind}")
            return Scalar(t.bv(held.value, kind.width), FALSE, block)
        if isinstance(held, Special):
            if held.kind == "undef":
                return values.undef_of(kind, self.fresh)
            return values.poison_of(kind) if held.kind == "poison" else values.zero_of(kind)
        if isinstance(held, Aggregate):
            return Group(tuple(self.value(part) for part in held.parts))
        if isinstance(held, Address):
            number, offset = self.shared.address(held.name)
            return Scalar(offset, FALSE, t.bv(number, PROVENANCE))
        assert isinstance(held, Expression)
        return self.compute(held.instruction)

    def undefined(self, when: Term) -> None:
        """Note that behaviour is undefined where this is reached and the condition holds."""
        whole = t.and_(self.condition, when)
        if whole is not FALSE:
            self.undefineds.append(whole)

    def known(self, term: Term) -> Term:
        """The term, or its value where the path or the source's being defined tells it."""
        path = t.conjuncts(self.condition)
        if t.not_(term) in path or term in self.shared.never:
            return FALSE
        return TRUE if term in path or t.not_(term) in self.shared.never else term

    def certain(self, term: Term) -> bool:
        """Whether the term holds wherever this is reached, by a solver's word.

        What the target does where it is undefined already is of no account.
        """
        if self.side != "t":
            return False
        facts = [t.not_(never) for never in self.shared.never]
        facts += [t.not_(undefined) for undefined in self.undefineds]
        wrong = t.and_(*self.shared.facts, *facts, self.condition, t.not_(term))
        return wrong is FALSE or self.shared.settle(wrong)

    def unwind(self, when: Term, thrown: Scalar) -> None:
        """Leave by an exception where the condition holds, with memory as it now is."""
        gone = t.and_(self.condition, when)
        if gone is FALSE:
            return
        state = replace(self.state, values={}, blocks=dict(self.state.blocks))
        self.unwound.append(Unwound(gone, thrown, state))
        self.condition = t.and_(self.condition, t.not_(when))

    def decide(self, operand: Operand) -> Term:
        """What a branch looks at; a branch on poison or undef is undefined."""
        raw = self.value(operand)
        if not isinstance(raw, Scalar):
            raise Unsupported("branch on a vector")
        self.undefined(raw.poison)
        if not raw.undefs:
            return raw.bits
        used = [self.use(operand), self.use(operand)]
        first, second = used
        assert isinstance(first, Scalar) and isinstance(second, Scalar)
        if self.side == "t":
            self.undefined(t.not_(t.eq(first.bits, second.bits)))
            return first.bits
        # The source's choices may be any; two that differ are enough, these are tried.
        low = {u: t.bv(0, u.sort) for u in raw.undefs}
        high = {u: t.bv(-1, u.sort) for u in raw.undefs}
        [x], [y] = rebuild.substitute([raw.bits], low), rebuild.substitute([raw.bits], high)
        self.undefined(t.not_(t.eq(x, y)))
        return first.bits

    # -- instructions ------------------------------------------------------------------------

    def execute(self, instruction: Instruction) -> None:
        """Everything but control flow and phis."""
        op = instruction.op
        if op == "store":
            access.store(self, instruction)
            return
        if op == "call":
            from planish.verify.calls import call  # it needs the machine

            result = call(self, instruction)
        else:
            result = self.compute(instruction)
        if result is not None:
            self.state.values[instruction.number] = result

    def compute(self, instruction: Instruction) -> Meaning:
        """The result of an instruction that only computes or reads."""
        from planish.verify.instructions import HANDLERS  # they need the machine

        handler = HANDLERS.get(instruction.op)
        if handler is None:
            raise Unsupported(f"instruction {instruction.op}")
        return handler(self, instruction)


def _no_inlining(callee: Function, given: list[Meaning]) -> Meaning | None:
    raise Unsupported(f"call of {callee.name} where nothing is executed")
