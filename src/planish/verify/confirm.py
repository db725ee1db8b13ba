"""A solver's counterexample is a claim; here it is confirmed by running both versions.

Poison and undefined behaviour leave no trace in machine code. Where the claim is that the target
has them and the source has not, both are evaluated instead, by the folding of constants alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from planish.base.errors import PlanishError
from planish.base.records import Grade, Verdict
from planish.verify import floats, native, rebuild
from planish.verify import terms as t
from planish.verify.claims import Claim, claim_of, poison_given, roots_of, several
from planish.verify.ir import Function, Global
from planish.verify.native import ZONE, ZONE_SIZE, Input, Result
from planish.verify.refine import Query
from planish.verify.requests import FunctionVerdict, Validate
from planish.verify.terms import FALSE, INDEX, MEMORY, TRUE, Term
from planish.verify.values import Scalar

if TYPE_CHECKING:
    from planish.verify.prove import Case

_PATIENCE = native.Patience(seconds=2.0)
_NOT = "a counterexample was found, but not confirmed: "


def confirm(
    case: Case, query: Query, request: Validate, names: Sequence[str], found: FunctionVerdict
) -> FunctionVerdict:
    """Refuted where running or evaluating both shows it; else unknown with the reason."""
    claim, aliased = claim_of(query, request, names)
    if claim is None:
        return replace(found, reason=_NOT + aliased)
    evaluated = _evaluate(query, claim)
    given = _input(case, query, claim)
    if evaluated["source is undefined"] is TRUE:
        return replace(found, reason=_NOT + "the source is undefined there")
    why = "running is switched off" if not request.run else _why_not(case, query)
    if not why and evaluated["source is undefined"] is not FALSE:
        why = "whether the source is defined there cannot be evaluated"
    if not why and _source_chooses(query):
        why = "the source itself may give several results"
    if not why and given is not None and not poison_given(query, claim):
        try:
            before, after = _run(case, given)
        except PlanishError as error:
            why = error.message
        else:
            words = _difference(case, query, (before, after), evaluated)
            if words:
                return _refuted(found, f"input {given}: {words}; confirmed by running both")
            why = "both run alike"
    if given is None:
        why = "its memory cannot be laid out here"
    words = _semantic(query, evaluated, ran=why == "both run alike")
    if words:
        where = given if given is not None else "(see --explain)"
        poison = poison_given(query, claim)
        where = f"{where}{' with ' + poison if poison else ''}"
        return _refuted(
            found, f"input {where}: {words}; confirmed by evaluating both by LLVM's semantics"
        )
    return replace(found, reason=_NOT + why)


def _refuted(found: FunctionVerdict, words: str) -> FunctionVerdict:
    return replace(found, verdict=Verdict(Grade.REFUTED), reason="", input=words, unsupported=False)


def _source_chooses(query: Query) -> bool:
    """Whether the source's result depends on what undef or freeze gives."""
    used = set(rebuild.variables(list(roots_of(query).values())))
    return any(choice in used for choice in query.source.choices)


def _evaluate(query: Query, claim: Claim) -> dict[str, Term]:
    """Both functions on the claimed input. What depends on more than it stays a term."""
    roots = roots_of(query)
    mapping = dict(claim.scalars)
    for base, held in claim.arrays.items():
        width = t.BYTE if base.sort == MEMORY else 1
        array = t.const_array(t.bv(0, width), base.sort)
        for at, value in sorted(held.items()):
            array = t.store(array, t.bv(at, INDEX), t.bv(value, width))
        mapping[base] = array
    done = rebuild.substitute(list(roots.values()), mapping)
    return dict(zip(roots, done, strict=True))


def _semantic(query: Query, evaluated: dict[str, Term], *, ran: bool) -> str:
    """What the evaluation shows that machine code cannot, in words; empty for nothing.

    A claim that rests on what an unknown callee does, or on how the source's own nondeterminism
    is resolved, is not shown by one evaluation.
    """
    if query.shared.calls or _source_chooses(query):
        return ""
    if any(known.local and not known.constant for known in query.shared.globals.values()):
        return ""  # passes know what they hold; the claim may be of something they never hold
    if evaluated["source is undefined"] is not FALSE:
        return ""
    if evaluated["target is undefined"] is TRUE:
        return "the target's behaviour is undefined, the source's is not"
    if evaluated["values differ"] is TRUE:
        if evaluated["target's result is poison"] is TRUE:
            return "the target's result is poison, the source's is not"
        if not ran or query.target.choices:
            was, now = evaluated["source's result"], evaluated["target's result"]
            if was.constant and now.constant:
                return f"the source gives {t.value_of(was)}, the target {t.value_of(now)}"
            return "the results differ"
    if evaluated["memories differ"] is TRUE and not ran:
        return "what is left in memory differs"
    return ""


def _input(case: Case, query: Query, claim: Claim) -> Input | None:
    """The claim as arguments and bytes; None where a byte lies where none can be put."""
    arguments = []
    for meaning in query.shared.arguments:
        if not isinstance(meaning, Scalar):
            return None
        held = claim.scalars.get(meaning.bits, t.bv(0, 1))
        arguments.append(t.value_of(held))
    zone = bytearray(ZONE_SIZE)
    contents = {name: bytearray(known.size) for name, known in run_globals(case, query).items()}
    for at, value in claim.arrays.get(query.shared.memory, {}).items():
        if ZONE <= at < ZONE + ZONE_SIZE:
            zone[at - ZONE] = value & 0xFF
            continue
        for name, known in run_globals(case, query).items():
            [base] = rebuild.substitute([query.shared.address(name)[1]], claim.scalars)
            if base.constant and 0 <= at - t.value_of(base) < known.size:
                contents[name][at - t.value_of(base)] = value & 0xFF
    globals_ = {name: bytes(bytes_) for name, bytes_ in contents.items()}
    return Input(tuple(arguments), bytes(zone).rstrip(b"\0"), globals_)


def run_globals(case: Case, query: Query) -> dict[str, Global]:
    """Variables that both modules define, whose contents are part of the input."""
    return {
        name: known
        for name, known in query.shared.globals.items()
        if known.defined
        and not known.constant
        and not known.local
        and known.size <= 4096
        and name in case.source.globals
        and name in case.target.globals
    }


def _why_not(case: Case, query: Query) -> str:
    called = sorted({name for function in (case.source, case.target) for name in calls(function)})
    effects = [name for name in called if name not in native.PURE_C]
    if effects:
        return f"it calls {effects[0]}"
    return native.why_not_runnable(case.source, case.before.triple)


def calls(function: Function) -> list[str]:
    """Functions that are called, intrinsics left out."""
    return [
        instruction.name or "a function pointer"
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op == "call" and not instruction.name.startswith("llvm.")
    ]


def _run(case: Case, given: Input) -> tuple[Result, Result]:
    """Both versions on one input."""
    sizes = {name: len(contents) for name, contents in given.globals.items()}
    found = []
    for module, function in ((case.before, case.source), (case.after, case.target)):
        code = native.compile_function(case.library, module, function.name, list(sizes))
        found += native.run(case.library, code, function, [given], sizes, _PATIENCE)
    return found[0], found[1]


def _difference(
    case: Case, query: Query, runs: tuple[Result, Result], evaluated: dict[str, Term]
) -> str:
    """How two runs differ, in words. A source that faults is undefined; it shows nothing.

    Neither does a result that is one of several which the source may give: a NaN, mostly.
    """
    before, after = runs
    if before.ended != "returned":
        return ""
    if after.ended != "returned":
        return f"the source returns, the target ends with {after.ended}"
    poison, result = evaluated["source's result is poison"], evaluated["source's result"]
    has_result = case.source.result.kind != "void" and poison is FALSE
    if before.value != after.value and has_result and not several([result]):
        return f"the source gives {before.value}, the target {after.value}"
    differs = evaluated["memories differ"]
    if differs is FALSE or (differs is not TRUE and floats.SAME_NAN in query.assumptions):
        return ""
    if before.zone != after.zone or before.globals != after.globals:
        return "what is left in memory differs"
    return ""
