"""Differential execution: both versions on generated inputs, where no proof was found.

Inputs have edge values; pointers lead to buffers that end where memory ends. A difference counts
only where the source, evaluated by LLVM's semantics on that input, is defined: what undefined code
does may differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from planish.base.errors import PlanishError
from planish.base.records import Grade, Verdict
from planish.verify import heap, memory, native, values
from planish.verify import terms as t
from planish.verify.claims import result_poison, several, types_apart
from planish.verify.encode import encode
from planish.verify.exits import Encoded
from planish.verify.inputs import generate
from planish.verify.ir import Function, Unsupported
from planish.verify.memory import Cell
from planish.verify.native import Input, Result
from planish.verify.requests import FunctionVerdict
from planish.verify.shared import Shared, add_globals, share
from planish.verify.terms import FALSE, MEMORY, VALID, Term
from planish.verify.values import OUTSIDE, PROVENANCE, Scalar

if TYPE_CHECKING:
    from planish.verify.prove import Case

FIRST, INPUTS = 96, 1024
_FEWEST = 8  # inputs on which the source returns; with fewer nothing was tested
_SOURCE = native.Patience(seconds=0.02, hangs=16, calls=48)
_TARGET = native.Patience(seconds=0.2, hangs=8, calls=48)
_MOST_JUDGED = 32  # inputs on which the two differ and the source may be undefined
_ROUNDS = 256
# The source may be undefined there: such an input shows nothing, and does not count as tested.
_EXCUSES = (
    "undefined",
    "ruled out by noalias, perhaps",
    "ruled out by tbaa, perhaps",
    "one of several results that a floating-point operation may give",
)


def test(case: Case, found: FunctionVerdict) -> FunctionVerdict:
    """`tested` or `refuted`; unknown as it was, with why it cannot be tested."""
    why = effects(case.source, case.find_source) or effects(case.target, case.find_target)
    why = why or native.why_not_runnable(case.source, case.before.triple)
    if why:
        return replace(found, reason=_join(found.reason, f"cannot be tested: {why}"))
    try:
        inputs, before = _source_runs(case)
        after = _run(case, inputs, target=True)
    except PlanishError as error:
        return replace(found, reason=_join(found.reason, f"cannot be tested: {error.message}"))
    return _judge(case, found, inputs, before, after)


def _source_runs(case: Case) -> tuple[list[Input], list[Result]]:
    """Inputs on which the source returns, and its results."""
    for count in (FIRST, INPUTS):  # most inputs are made only where the first were of use
        inputs = generate(case.source, case.target, count)
        results = _run(case, inputs, target=False)
        returned = [at for at, one in enumerate(results) if one.ended == "returned"]
        if results[-1].ended == "not run":
            break
    return [inputs[at] for at in returned], [results[at] for at in returned]


def _run(case: Case, inputs: list[Input], *, target: bool) -> list[Result]:
    module, function = (case.after, case.target) if target else (case.before, case.source)
    code = native.compile_function(case.library, module, function.name, ())
    return native.run(case.library, code, function, inputs, {}, _TARGET if target else _SOURCE)


def _judge(
    case: Case,
    found: FunctionVerdict,
    inputs: list[Input],
    before: list[Result],
    after: list[Result],
) -> FunctionVerdict:
    useful = judged = 0
    for given, was, now in zip(inputs, before, after, strict=True):
        if now.ended == "not run":
            continue
        if now == was:
            useful += 1
            continue
        state = _defined(case, given) if judged < _MOST_JUDGED else "there are many of these"
        judged += 1
        if state in _EXCUSES:
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
        reason = f"only {useful} of the generated inputs are defined, and return, in both"
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
                elif name not in native.PURE_C and name not in heap.NAMES:
                    return f"it calls {name or 'a function pointer'}"
    return ""


# -- is the source defined there? ----------------------------------------------------------------


def _defined(case: Case, given: Input) -> str:
    """`defined`, one of `_EXCUSES`, or why that cannot be said."""
    t.clear()
    try:
        shared, encoded = evaluate(case, given)
    except Unsupported as error:
        return f"whether the source is defined there cannot be evaluated: {error}"
    trouble = t.or_(encoded.undefined, result_poison(encoded))
    if trouble is t.TRUE:
        return "undefined"
    if shared.restricts_aliasing:
        return _EXCUSES[1]
    if types_apart(shared) is not t.TRUE:
        return _EXCUSES[2]
    if several([trouble, *_left(encoded)]):
        return _EXCUSES[3]
    if trouble is FALSE and encoded.incomplete is FALSE and not encoded.choices:
        return "defined"
    return "whether the source is defined there is not known"


def _left(encoded: Encoded) -> list[Term]:
    """The result, and the bytes that are written."""
    if encoded.returned is None:
        return []
    result = values.leaves(encoded.returned.result) if encoded.returned.result else []
    outside = encoded.returned.state.blocks[OUTSIDE]
    return [*(leaf.bits for leaf in result), memory.flush(outside)]


def evaluate(case: Case, given: Input) -> tuple[Shared, Encoded]:
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
        at: Cell(memory.byte(t.bv(value, 8), block, FALSE)) for at, value in given.cells
    }
    return shared, encode(case.source, shared, "s", _ROUNDS, bodies)


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
