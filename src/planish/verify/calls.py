"""Calls: intrinsics by their meaning, everything else as a question to the world."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from planish.verify import integers, intrinsics, library, memory, pointers, values
from planish.verify import terms as t
from planish.verify.ir import Function, Instruction, Type, Unsupported
from planish.verify.memory import Block
from planish.verify.shared import Answer, Question
from planish.verify.terms import BOOL, FALSE, INDEX, MEMORY, TRUE, VALID, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Meaning, Scalar

if TYPE_CHECKING:
    from planish.verify.machine import Machine

_MOST_COMPARED = 12


def call(machine: Machine, instruction: Instruction) -> Meaning | None:
    """The result of a call; None for void. What unwinds from an invoke waits for its branch."""
    if "invoked" in instruction.flags:
        outer, machine.unwound = machine.unwound, []
        result = call(machine, replace(instruction, flags=instruction.flags - {"invoked"}))
        machine.pads, machine.unwound = machine.unwound, outer
        return result
    if instruction.name.startswith("llvm."):
        return intrinsics.call(machine, instruction)
    return ask(machine, instruction)


def ask(machine: Machine, instruction: Instruction) -> Meaning | None:
    """A call whose callee is not known: the same question gets the same answer."""
    flags = instruction.flags | machine.shared.callees.get(instruction.name, frozenset())
    if flags != instruction.flags:
        machine.assumptions.add("what is inferred of callees' effects is believed")
        instruction = replace(instruction, flags=flags)
    if flags & {"returns_twice", "convergent"}:
        raise Unsupported(f"call of {instruction.name} (returns twice or convergent)")
    if any(flag.startswith(("byval", "inalloca", "preallocated")) for flag in flags):
        raise Unsupported("call with an argument passed in memory (byval)")
    body = machine.inlined.get(instruction.name)
    if body is not None and instruction.name not in machine.stack:
        result = _execute(machine, instruction, body)
        return _result(machine, instruction, result)
    if library.ignores_null(instruction.name) and len(instruction.operands) == 1:
        return _unless_null(machine, instruction)
    return _asked(machine, instruction)


def _unless_null(machine: Machine, instruction: Instruction) -> Meaning | None:
    """A call that does nothing with null: both ways are followed, then merged."""
    null = pointers.is_null(machine, machine.scalar(instruction.operands[0]))
    before = replace(machine.state, blocks=dict(machine.state.blocks))
    outer = machine.condition
    machine.condition = t.and_(outer, t.not_(null))
    result = _asked(machine, instruction)
    after = machine.state
    machine.state = replace(
        after,
        blocks=memory.merge_all(null, before.blocks, after.blocks),
        world=t.ite(null, before.world, after.world),
        valid=t.ite(null, before.valid, after.valid),
    )
    machine.condition = t.or_(t.and_(outer, null), machine.condition)
    return result


def _asked(machine: Machine, instruction: Instruction) -> Meaning | None:
    """The call as a question to the world."""
    flags = instruction.flags
    question = _question(machine, instruction)
    answer, known = _answer(machine, instruction, question)
    if not known:
        machine.shared.calls.append((question, answer))
    if question.pure:
        return _result(machine, instruction, answer.result)
    if "willreturn" not in flags:
        gone = t.and_(machine.condition, answer.diverges)
        machine.diverged.append((gone, answer.world))
        machine.condition = t.and_(machine.condition, t.not_(answer.diverges))
    if "hidden" in flags:  # the world remembers it, memory does not show it
        machine.state.world, machine.state.valid = answer.world, answer.valid
    elif "readonly" not in flags:
        machine.state.world = answer.world
        machine.state.blocks[OUTSIDE] = Block(answer.memory)
        for number, contents in answer.escaped.items():
            if number in machine.state.blocks:
                machine.state.blocks[number] = Block(contents)
        if "nofree" not in flags:
            machine.state.valid = answer.valid
    if "nounwind" not in flags:
        thrown = Scalar(t.apply("exception", (answer.world,), INDEX), FALSE,
                        t.bv(OUTSIDE, PROVENANCE))  # fmt: skip
        machine.unwind(answer.unwinds, thrown)
    return _result(machine, instruction, answer.result)


def _execute(machine: Machine, instruction: Instruction, body: Function) -> Meaning | None:
    kinds = [parameter.type for parameter in body.parameters]
    if kinds != [operand.type for operand in instruction.operands]:
        raise Unsupported(f"call of {body.name} with other types than it has")
    given = [machine.value(operand) for operand in instruction.operands]
    for at, (meaning, parameter) in enumerate(zip(given, body.parameters, strict=True)):
        if f"noundef:{at}" in instruction.flags or "noundef" in parameter.flags:
            machine.undefined(values.all_poison(meaning))
    return machine.inline(body, given)


def _question(machine: Machine, instruction: Instruction) -> Question:
    pure = {"readnone", "willreturn", "nounwind"} <= instruction.flags
    arguments = []
    for at, operand in enumerate(instruction.operands):
        meaning = machine.use(operand)
        for scalar in values.leaves(meaning):
            poison = scalar.poison
            if f"nonnull:{at}" in instruction.flags:
                poison = t.or_(poison, pointers.is_null(machine, scalar))
            if f"noundef:{at}" in instruction.flags:
                machine.undefined(poison)
            block = scalar.block if scalar.block is not None else t.bv(OUTSIDE, PROVENANCE)
            if scalar.block is not None:
                machine.leaked |= {
                    number
                    for _, number in memory.origins(scalar.block, machine.leaked)
                    if number != OUTSIDE
                }
            arguments.append((scalar.bits, poison, block))
    for at in library.read_arguments(instruction.name):
        pointer = (
            machine.value(instruction.operands[at]) if at < len(instruction.operands) else None
        )
        if isinstance(pointer, Scalar) and pointer.block is not None:
            machine.undefined(t.or_(pointer.poison, pointers.is_null(machine, pointer)))
    state = machine.state
    escaped: dict[int, Term] = {}
    seen = t.bv(0, INDEX)
    contents = t.var("no memory", MEMORY)
    if not pure:
        contents = memory.flush(state.blocks[OUTSIDE])
        seen = state.world
        for number in sorted(machine.captured & state.blocks.keys()):
            escaped[number] = _flush_slot(machine, number)
    name = instruction.name or "a function pointer"
    widths = " ".join(str(bits.sort) for bits, _, _ in arguments)
    kind = f"{name}({widths}) {instruction.type} {'pure' if pure else ''}"
    return Question(
        machine.side, kind, tuple(arguments), seen, contents, escaped, pure, machine.condition
    )


def _flush_slot(machine: Machine, number: int) -> Term:
    """A stack slot's contents as the callee sees them; bytes never written are as they were."""
    block = machine.state.blocks[number]
    written = {at: cell for at, cell in block.known.items() if cell.undef is FALSE}
    if len(written) < len(block.known):
        machine.assumptions.add("a callee sees bytes that were never written as fixed ones")
    return memory.flush(replace(block, known=written))


def _answer(machine: Machine, instruction: Instruction, question: Question) -> tuple[Answer, bool]:
    """The answer, and whether it is an earlier one as it stands."""
    candidates = []
    for earlier, answer in machine.shared.calls:
        if earlier.callee != question.callee:
            continue
        if earlier.side == question.side and not question.pure:
            continue
        same = _same(earlier, question)
        if same is TRUE and question.pure:
            return answer, True
        if same is not FALSE:
            candidates.append((same, earlier.when, answer))
    one = len(candidates) == 1 or question.pure
    # Calls on different paths may ask the same; only the one that was asked has the answer.
    found = [(same if one else t.and_(same, when), answer) for same, when, answer in candidates]
    for same, answer in found:
        if same is TRUE or machine.certain(same):
            return answer, True
    answer = _new(machine, instruction, question)
    for same, earlier_answer in found[-_MOST_COMPARED:]:
        answer = _either(same, earlier_answer, answer)
    return answer, False


def _same(source: Question, target: Question) -> Term:
    """Whether the target's question refines the source's."""
    found = [t.eq(source.world, target.world)]
    if found[0] is FALSE:
        return FALSE
    rows = zip(source.arguments, target.arguments, strict=True)
    for (bits, poison, block), (new_bits, new_poison, new_block) in rows:
        equal = t.and_(t.not_(new_poison), t.eq(bits, new_bits), t.eq(block, new_block))
        found.append(t.or_(poison, equal))
    if not target.pure:
        found.append(t.eq(source.memory, target.memory))
        for number in source.escaped.keys() & target.escaped.keys():
            found.append(t.eq(source.escaped[number], target.escaped[number]))
    return t.and_(*found)


def _new(machine: Machine, instruction: Instruction, question: Question) -> Answer:
    fresh, kind = machine.fresh, instruction.type
    result: Meaning | None = None
    if kind.kind != "void":
        result = values.build(kind, lambda part: _unknown(machine, part, instruction.flags))
    return Answer(
        result,
        fresh.make("world", INDEX),
        fresh.make("memory", MEMORY),
        fresh.make("valid", VALID),
        {number: fresh.make("slot", MEMORY) for number in question.escaped},
        fresh.make("diverges", BOOL),
        fresh.make("unwinds", BOOL),
    )


def _unknown(machine: Machine, kind: Type, flags: frozenset[str]) -> Scalar:
    bits = machine.fresh.make("result", kind.width)
    # Whether a result may be poison is the callee's affair; with noundef that is undefined.
    poison = FALSE if "noundef:result" in flags else machine.fresh.make("poison", BOOL)
    block = t.bv(OUTSIDE, PROVENANCE) if kind.kind == "ptr" else None
    return Scalar(bits, poison, block)


def _either(same: Term, a: Answer, b: Answer) -> Answer:
    result = b.result
    if a.result is not None and b.result is not None:
        result = values.merge(same, a.result, b.result)
    return Answer(
        result,
        t.ite(same, a.world, b.world),
        t.ite(same, a.memory, b.memory),
        t.ite(same, a.valid, b.valid),
        {
            number: t.ite(same, a.escaped[number], contents) if number in a.escaped else contents
            for number, contents in b.escaped.items()
        },
        t.ite(same, a.diverges, b.diverges),
        t.ite(same, a.unwinds, b.unwinds),
    )


def _result(machine: Machine, instruction: Instruction, result: Meaning | None) -> Meaning | None:
    if result is None or not isinstance(result, Scalar):
        return result
    poison = result.poison
    promises = {f"{name}:result" for name in ("noundef", "nonnull", "range")} & instruction.flags
    if machine.side == "t":
        # Passes infer them from the callee's body, which has a verdict of its own.
        if promises:
            machine.assumptions.add("what is inferred of callees' results is believed")
        held = [t.or_(poison, integers.within(result.bits, *b)) for b in instruction.bounds]
        if "noundef:result" in promises:
            # The source's call gave the same: memory it was stored to has to be the same, too.
            held.append(t.not_(poison))
            result = replace(result, poison=FALSE)
        for fact in held:
            machine.shared.facts.append(t.or_(t.not_(machine.condition), fact))
        return result
    if "noundef:result" in promises:
        machine.undefined(poison)
    if "nonnull:result" in promises and result.block is not None:
        poison = t.or_(poison, pointers.is_null(machine, result))
    return replace(result, poison=poison)
