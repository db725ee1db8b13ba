"""Differential execution: both versions on generated inputs, where no proof was found.

Inputs have edge values; pointers lead to buffers that end where memory ends. A difference counts
only where the source, evaluated by LLVM's semantics on that input, is defined: what undefined code
does may differ.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from planish.base.errors import PlanishError
from planish.base.records import Grade, Verdict
from planish.verify import memory, native, values
from planish.verify import terms as t
from planish.verify.encode import Encoded, encode
from planish.verify.ir import Function, Parameter, Type, Unsupported
from planish.verify.memory import Cell
from planish.verify.native import ZONE, ZONE_SIZE, Input, Result
from planish.verify.requests import FunctionVerdict
from planish.verify.shared import add_globals, share
from planish.verify.terms import FALSE, MEMORY, VALID, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Scalar

if TYPE_CHECKING:
    from planish.verify.prove import Case

INPUTS = 96
_FEWEST = 8  # inputs on which the source returns; with fewer nothing was tested
_SECONDS = 0.25
_ROUNDS = 256
_SEED = 20_211


def test(case: Case, found: FunctionVerdict) -> FunctionVerdict:
    """`tested` or `refuted`; unknown as it was, with why it cannot be tested."""
    why = effects(case.source, case.find_source) or effects(case.target, case.find_target)
    why = why or native.why_not_runnable(case.source, case.before.triple)
    if why:
        return replace(found, reason=_join(found.reason, f"cannot be tested: {why}"))
    inputs = generate(case.source, INPUTS)
    try:
        results = []
        for module, function in ((case.before, case.source), (case.after, case.target)):
            code = native.compile_function(case.library, module, function.name, ())
            results.append(native.run(case.library, code, function, inputs, {}, seconds=_SECONDS))
    except PlanishError as error:
        return replace(found, reason=_join(found.reason, f"cannot be tested: {error.message}"))
    return _judge(case, found, inputs, *results)


def _judge(
    case: Case,
    found: FunctionVerdict,
    inputs: list[Input],
    before: list[Result],
    after: list[Result],
) -> FunctionVerdict:
    useful = 0
    for given, was, now in zip(inputs, before, after, strict=True):
        if was.ended != "returned" or now.ended == "not run":
            continue
        if (now.ended, now.value, now.zone) == (was.ended, was.value, was.zone):
            useful += 1
            continue
        state = _defined(case, given)
        if state == "undefined":
            continue
        words = f"input {given}: the source gives {was.value}, the target "
        words += str(now.value) if now.ended == "returned" else f"ends with {now.ended}"
        if now.value == was.value and now.ended == was.ended:
            words = f"input {given}: what is left in memory differs"
        if state == "defined":
            verdict = Verdict(Grade.REFUTED)
            words += "; confirmed by running both"
            return replace(found, verdict=verdict, reason="", input=words, unsupported=False)
        reason = f"{words}; but {state}"
        return replace(found, reason=_join(found.reason, reason))
    if useful < _FEWEST:
        reason = f"the source returns on {useful} of {len(inputs)} generated inputs only"
        return replace(found, reason=_join(found.reason, reason))
    verdict = Verdict(Grade.TESTED, f"on {useful} inputs")
    return replace(found, verdict=verdict)


def _join(a: str, b: str) -> str:
    return f"{a}; {b}" if a else b


def effects(function: Function, find: Callable[[str], Function | None]) -> str:
    """What the function does besides reading and writing memory, in words; empty for nothing."""
    seen: set[str] = set()
    waiting = [function]
    while waiting:
        for block in waiting.pop().blocks:
            for instruction in block.instructions:
                name = instruction.name
                if instruction.op != "call" or name.startswith("llvm.") or name in seen:
                    continue
                seen.add(name)
                body = find(name) if name else None
                if body is not None:
                    waiting.append(body)
                elif name not in native.PURE_C:
                    return f"it calls {name or 'a function pointer'}"
    return ""


# -- inputs --------------------------------------------------------------------------------------


def generate(function: Function, count: int) -> list[Input]:
    """Inputs from the signature; the same for the same function."""
    source = random.Random(_SEED)
    return [_one(function, source, at) for at in range(count)]


def _one(function: Function, source: random.Random, at: int) -> Input:
    zone: dict[int, int] = {}
    fill = source.choice((0, 4, 8))  # share of bytes that are not zero, in eighths
    for place in range(ZONE_SIZE):
        if source.randrange(8) < fill:
            zone[ZONE + place] = source.choice((source.randrange(256), source.randrange(1, 9)))
    arguments = tuple(_argument(p, source, zone, at) for p in function.parameters)
    return Input(arguments, zone)


def _argument(parameter: Parameter, source: random.Random, zone: dict[int, int], at: int) -> int:
    kind = parameter.type
    if kind.kind == "ptr":
        if at % 16 == 15 and "nonnull" not in parameter.flags:
            return 0
        room = source.choice((64, 64, 256, 1024, ZONE_SIZE))
        return ZONE + ZONE_SIZE - room
    if kind.kind == "float":
        return _float(kind, source)
    edges = (0, 1, 2, 3, 7, 8, -1, -2, 1 << (kind.width - 1), (1 << (kind.width - 1)) - 1)
    small, large = source.randrange(64), source.getrandbits(kind.width)
    value = source.choice((source.choice(edges), small, large))
    return value & ((1 << kind.width) - 1)


def _float(kind: Type, source: random.Random) -> int:
    # Small whole numbers make sums and products exact, whatever their order.
    value = float(source.choice((0, 1, -1, 2, source.randrange(-50, 50))))
    raw = bytes(native.kinds_of(kind)(value))
    return int.from_bytes(raw, "little")


# -- is the source defined there? ----------------------------------------------------------------


def _defined(case: Case, given: Input) -> str:
    """`defined`, `undefined`, or why that cannot be said."""
    t.clear()
    try:
        encoded = evaluate(case, given)
    except Unsupported as error:
        return f"whether the source is defined there cannot be evaluated: {error}"
    trouble = t.or_(encoded.undefined, _result_poison(encoded))
    if trouble is t.TRUE:
        return "undefined"
    if trouble is FALSE and encoded.incomplete is FALSE and not encoded.choices:
        return "defined"
    return "whether the source is defined there is not known"


def _result_poison(encoded: Encoded) -> Term:
    if encoded.returned is None or encoded.returned.result is None:
        return FALSE
    return values.all_poison(encoded.returned.result)


def evaluate(case: Case, given: Input) -> Encoded:
    """The source on one input: with constants everywhere, encoding is evaluation."""
    shared = share(case.source, case.source)
    if any(not known.constant for known in shared.globals.values() if known.size):
        raise Unsupported("it uses variables of the module")
    bodies = _bodies(case)
    add_globals(shared, list(bodies.values()))
    block = t.bv(OUTSIDE, PROVENANCE)
    shared.arguments = [
        Scalar(t.bv(bits, p.type.width), FALSE, block if p.type.kind == "ptr" else None)
        for bits, p in zip(given.arguments, case.source.parameters, strict=True)
    ]
    shared.memory = t.const_array(memory.byte(t.bv(0, 8), block, FALSE), MEMORY)
    # The code has run without a fault; what lies within the zone is valid.
    shared.valid = t.const_array(t.bv(1, 1), VALID)
    shared.known = {
        at: Cell(memory.byte(t.bv(value, 8), block, FALSE)) for at, value in given.zone.items()
    }
    return encode(case.source, shared, "s", _ROUNDS, bodies)


def _bodies(case: Case) -> dict[str, Function]:
    found: dict[str, Function] = {}
    waiting = [case.source]
    while waiting:
        for block in waiting.pop().blocks:
            for instruction in block.instructions:
                name = instruction.name
                if instruction.op != "call" or name in found or name.startswith("llvm."):
                    continue
                body = case.find_source(name) if name else None
                if body is not None:
                    found[name] = body
                    waiting.append(body)
    return found
