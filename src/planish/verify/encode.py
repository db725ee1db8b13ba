"""A function as terms: symbolic execution of all its paths at once, loops unrolled to a bound."""

from __future__ import annotations

import heapq
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from planish.verify import integers, pointers, values
from planish.verify import terms as t
from planish.verify.cfg import Shape, shape_of
from planish.verify.exits import Encoded, Exit, finish, leaving, merge, merge_exits
from planish.verify.ir import Function, Instruction, Local, Operand, Unsupported
from planish.verify.machine import THROWN, Machine, State
from planish.verify.shared import Shared
from planish.verify.slots import slots_of
from planish.verify.terms import FALSE, TRUE, Term
from planish.verify.values import Group, Meaning, Scalar

_MOST_ROUNDS = 300  # of a loop whose every round is certain
_MOST_STEPS = 20_000  # instructions after unrolling


Node = tuple[int, tuple[int, ...]]


@dataclass
class _Edge:
    condition: Term
    state: State
    certain: tuple[int, ...]  # rounds of each loop around that might have been the last


@dataclass
class _Walk:
    function: Function
    shape: Shape
    bound: int
    machine: Machine
    kept: frozenset[int]
    waiting: list[tuple[tuple[int, ...], Node]] = field(default_factory=list)
    edges: dict[Node, list[_Edge]] = field(default_factory=dict)
    entered: dict[Node, Term] = field(default_factory=dict)
    returns: list[Exit] = field(default_factory=list)


def encode(
    function: Function,
    shared: Shared,
    side: str,
    bound: int,
    inlined: Mapping[str, Function] | None = None,
) -> Encoded:
    """Raises Unsupported, naming what has no meaning here.

    inlined  callees that are executed where they are called, by name
    """
    machine = Machine(function, shared, side, inlined or {})
    machine.inline = lambda callee, given: _inline(machine, callee, given, bound)
    walk = _Walk(function, shape_of(function), bound, machine, _crossing(function))
    machine.start()
    return finish(machine, function, _run(walk), loops=walk.shape.has_loops)


def _run(walk: _Walk) -> Exit | None:
    """Execute from the machine's state; all returns merged."""
    machine = walk.machine
    node: Node = (0, (0,) * len(walk.shape.loops[0]))
    _arrive(walk, node, _Edge(machine.condition, machine.state, (0,) * len(node[1])))
    while walk.waiting:
        _, node = heapq.heappop(walk.waiting)
        _visit(walk, node)
    returned = None
    for one in reversed(walk.returns):
        returned = one if returned is None else merge_exits(one, returned)
    return returned


def _inline(machine: Machine, callee: Function, given: list[Meaning], bound: int) -> Meaning | None:
    """Execute a callee in the caller's memory; its result, None for void."""
    outer, slots = machine.state.values, machine.slots
    machine.slots = slots_of(machine.shared, callee, machine.side)
    machine.captured |= pointers.captured(callee, machine.slots)
    numbers = [parameter.number for parameter in callee.parameters]
    values_given = dict(zip(numbers, given, strict=True))
    machine.state = replace(machine.state, values=values_given)
    machine.stack.append(callee.name)
    outer_exits, machine.unwound = machine.unwound, []
    returned = _run(_Walk(callee, shape_of(callee), bound, machine, _crossing(callee)))
    machine.unwound = [*outer_exits, *leaving(machine, callee)]
    machine.stack.pop()
    machine.slots = slots
    if returned is None:
        machine.condition = FALSE
        machine.state = replace(machine.state, values=outer)
        return None
    machine.condition = returned.condition
    machine.state = replace(returned.state, values=outer)
    return returned.result


def _crossing(function: Function) -> frozenset[int]:
    """Locals that are used outside the block that defines them, and arguments."""
    home = {i.number: at for at, b in enumerate(function.blocks) for i in b.instructions}
    found = {parameter.number for parameter in function.parameters}
    for at, block in enumerate(function.blocks):
        for instruction in block.instructions:
            for number in _uses(instruction.operands):
                if home.get(number) != at or instruction.op == "phi":
                    found.add(number)
    return frozenset(found)


def _uses(operands: tuple[Operand, ...]) -> list[int]:
    return [o.value.number for o in operands if isinstance(o.value, Local)]


def _key(walk: _Walk, node: Node) -> tuple[int, ...]:
    places, rounds = walk.shape.places[node[0]], node[1]
    key = [places[0]]
    for number, place in zip(rounds, places[1:], strict=True):
        key += [number, place]
    return tuple(key)


def _arrive(walk: _Walk, node: Node, edge: _Edge) -> None:
    if edge.condition is FALSE:
        return
    if node not in walk.edges:
        walk.edges[node] = []
        heapq.heappush(walk.waiting, (_key(walk, node), node))
    walk.edges[node].append(edge)


def _visit(walk: _Walk, node: Node) -> None:
    edges = walk.edges.pop(node)
    condition, state = _join(edges)
    machine = walk.machine
    machine.condition, machine.state = condition, state
    if time.process_time() > machine.shared.deadline:
        raise Unsupported("too much to encode in the time")
    certain = tuple(max(counts) for counts in zip(*(e.certain for e in edges), strict=True))
    walk.entered[node] = condition
    for instruction in walk.function.blocks[node[0]].instructions:
        if machine.condition is FALSE:
            return
        machine.steps += 1
        if machine.steps > _MOST_STEPS:
            raise Unsupported(f"more than {_MOST_STEPS:,} instructions after unrolling")
        if instruction.op == "phi":
            continue
        if instruction.op in ("br", "switch"):
            _branch(walk, node, instruction, certain)
        elif instruction.op == "invoke":
            _invoke(walk, node, instruction, certain)
        elif instruction.op == "resume":
            thrown = machine.use(instruction.operands[0])
            _resume(machine, thrown)
        elif instruction.op == "ret":
            _return(walk, instruction)
        elif instruction.op == "unreachable":
            machine.undefined(TRUE)
        else:
            machine.execute(instruction)


def _join(edges: list[_Edge]) -> tuple[Term, State]:
    common = frozenset.intersection(*(t.conjuncts(edge.condition) for edge in edges))
    condition, state = edges[-1].condition, edges[-1].state
    for edge in reversed(edges[:-1]):
        # Below the common part of all conditions only what is left of one's own tells.
        own = t.and_(*(t.conjuncts(edge.condition) - common))
        state = merge(own, edge.state, state)
        condition = t.either(edge.condition, condition)
    return condition, state


def _branch(walk: _Walk, node: Node, instruction: Instruction, certain: tuple[int, ...]) -> None:
    machine = walk.machine
    if not instruction.operands:
        _go(walk, node, instruction.targets[0], machine.condition, certain)
        return
    chosen = machine.decide(instruction.operands[0])
    if instruction.op == "br":
        taken = t.bv_to_bool(chosen)
        for target, condition in zip(instruction.targets, (taken, t.not_(taken)), strict=True):
            _go(walk, node, target, t.and_(machine.condition, condition), certain)
        return
    by_target: dict[int, Term] = {}
    rest = TRUE
    for number, target in zip(instruction.numbers, instruction.targets[1:], strict=True):
        hit = t.eq(chosen, t.bv(number, chosen.sort))
        by_target[target] = t.or_(by_target.get(target, FALSE), hit)
        rest = t.and_(rest, t.not_(hit))
    default = instruction.targets[0]
    by_target[default] = t.or_(by_target.get(default, FALSE), rest)
    for target, condition in by_target.items():
        _go(walk, node, target, t.and_(machine.condition, condition), certain)


def _resume(machine: Machine, thrown: Meaning) -> None:
    if not isinstance(thrown, Group) or not isinstance(thrown.parts[0], Scalar):
        raise Unsupported("resume of something that is no exception")
    machine.unwind(TRUE, thrown.parts[0])


def _invoke(walk: _Walk, node: Node, instruction: Instruction, certain: tuple[int, ...]) -> None:
    """Go on behind the call, and at the landing pad for what it threw."""
    machine = walk.machine
    normal, pad = instruction.targets
    pads, after = machine.pads, machine.state
    _go(walk, node, normal, machine.condition, certain)
    for one in pads:
        machine.state = replace(one.state, values={**after.values, THROWN: one.thrown})
        _go(walk, node, pad, one.condition, certain)


def _go(walk: _Walk, node: Node, target: int, condition: Term, certain: tuple[int, ...]) -> None:
    """Follow an edge: phis are read before it, a back edge counts as a round."""
    if condition is FALSE:
        return
    block, rounds = node
    inside = walk.shape.loops[target]
    shared = sum(1 for loop in walk.shape.loops[block] if loop in inside)
    new_rounds, new_certain = list(rounds[:shared]), list(certain[:shared])
    if shared and inside[shared - 1].header == target and len(inside) == shared:
        header: Node = (target, rounds[:shared])
        new_rounds[-1] += 1
        new_certain[-1] += walk.entered[header] is not condition
        if new_certain[-1] > walk.bound or new_rounds[-1] > _MOST_ROUNDS:
            walk.machine.incomplete.append(condition)
            return
    new_rounds += [0] * (len(inside) - shared)
    new_certain += [0] * (len(inside) - shared)
    state = walk.machine.state
    known = {n: value for n, value in state.values.items() if n in walk.kept or n == THROWN}
    known.update(_phis(walk, block, target))
    new = replace(state, values=known, blocks=dict(state.blocks))
    _arrive(walk, (target, tuple(new_rounds)), _Edge(condition, new, tuple(new_certain)))


def _phis(walk: _Walk, block: int, target: int) -> dict[int, Meaning]:
    found: dict[int, Meaning] = {}
    for instruction in walk.function.blocks[target].instructions:
        if instruction.op != "phi":
            break
        operand = instruction.operands[instruction.targets.index(block)]
        found[instruction.number] = walk.machine.value(operand)
    return found


def _return(walk: _Walk, instruction: Instruction) -> None:
    machine = walk.machine
    result = machine.use(instruction.operands[0]) if instruction.operands else None
    if isinstance(result, Scalar):
        result = _promised(walk, result)
    if result is not None and "noundef" in walk.function.flags:
        machine.undefined(values.all_poison(result))
    state = replace(machine.state, values={}, blocks=dict(machine.state.blocks))
    walk.returns.append(Exit(machine.condition, result, state))


def _promised(walk: _Walk, result: Scalar) -> Scalar:
    """A result that is not what the function's own attributes say is poison."""
    poison = result.poison
    if "nonnull" in walk.function.flags and result.block is not None:
        poison = t.or_(poison, pointers.is_null(walk.machine, result))
    if walk.function.bounds:
        poison = t.or_(poison, t.not_(integers.within(result.bits, *walk.function.bounds)))
    return replace(result, poison=poison)
