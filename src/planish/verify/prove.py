"""From two functions to a verdict: proof, confirmed refutation, tests, or why none of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from planish.base.records import Grade, Verdict
from planish.llvm.binding import Library
from planish.llvm.module import Module
from planish.verify import differential, rebuild, refine, smtlib, solvers
from planish.verify import terms as t
from planish.verify.cfg import shape_of
from planish.verify.confirm import calls, confirm
from planish.verify.ir import Function
from planish.verify.refine import Query
from planish.verify.requests import FunctionVerdict, Validate
from planish.verify.specialised import knows_callers
from planish.verify.terms import FALSE, Term

_ENCODING = 1.2  # times the time of one question is what encoding may take, besides
_LEAST = 0.6  # s
_SIDE_SECONDS = 3.0  # for the questions whether the bound is exceeded, or reached at all
_SETTLE_SECONDS = 0.5  # or half of the time of one question
# Times the time of one question is what all those of a function may take; where tested is enough,
# less.
_QUESTIONS, _FEW_QUESTIONS = 3, 1.5
_NO_UNDEF = "inputs and the memory that was there before are not undef"


@dataclass(frozen=True)
class Case:
    """Two versions of a function, with their modules."""

    source: Function
    target: Function
    before: Module
    after: Module
    library: Library
    find_source: Callable[[str], Function | None]
    find_target: Callable[[str], Function | None]


def validate(case: Case, request: Validate, names: Sequence[str]) -> FunctionVerdict:
    """The verdict; raises Unsupported, naming what has no meaning here."""
    if request.test_first and any(_runs_long(f) for f in (case.source, case.target)):
        tested = run_only(case, FunctionVerdict(request.function, Verdict(Grade.UNKNOWN)))
        if tested.grade is not Grade.UNKNOWN:
            return replace(
                tested, loops=any(shape_of(f).has_loops for f in (case.source, case.target))
            )
    return _judged(case, _validate(case, request, names))


def _runs_long(function: Function) -> bool:
    """Whether it has loops or calls: what follows them is more than a proof is likely to be for."""
    return bool(calls(function)) or shape_of(function).has_loops


def run_only(case: Case, found: FunctionVerdict) -> FunctionVerdict:
    """The verdict of differential execution alone."""
    return _judged(case, differential.test(case, found))


def _judged(case: Case, found: FunctionVerdict) -> FunctionVerdict:
    """A refutation on an input that no caller may pass is none."""
    if found.grade is not Grade.REFUTED or not knows_callers(case.source, case.target):
        return found
    reason = f"{found.input}; but passes know its callers, which may not pass that"
    return replace(found, verdict=Verdict(Grade.UNKNOWN), reason=reason, input="")


def _validate(case: Case, request: Validate, names: Sequence[str]) -> FunctionVerdict:
    small = min(_SETTLE_SECONDS, request.seconds / 2)
    many = _FEW_QUESTIONS if request.test_first else _QUESTIONS
    budget = _Budget(names, many * request.seconds, small)
    query = refine.ask(
        case.source, case.target, request.bound, case.find_source, case.find_target,
        _ENCODING * request.seconds + _LEAST, budget.settle,
    )  # fmt: skip
    answer = _decide(query, request, budget)
    if answer.result == "unsat":
        found = _proved(query, request, names, answer.solver)
        if found.grade is Grade.UNKNOWN and request.run:
            return differential.test(case, found)
        return found
    found = FunctionVerdict(
        request.function,
        Verdict(Grade.UNKNOWN),
        answer.reason,
        loops=query.loops,
        assumptions=_assumptions(query),
        query=smtlib.script([query.violation]) if request.explain else "",
    )
    if answer.result == "sat":
        found = confirm(case, query, request, names, found)
    if found.grade is Grade.UNKNOWN and request.run:
        return differential.test(case, found)
    return found


@dataclass
class _Budget:
    """Solver time that is left for one function: no chain of questions takes longer than that."""

    names: Sequence[str]
    left: float
    small: float

    def solve(self, term: Term, seconds: float) -> solvers.Answer:
        """Ask for at most so many seconds, or for what is left."""
        if self.left <= 0:
            return solvers.Answer("unknown", reason="the budget of the function is spent")
        started = time.process_time() + sum(os.times()[2:4])
        seconds = min(seconds, self.left)
        answer = solvers.solve([term], seconds=seconds, solvers=self.names)
        spent = time.process_time() + sum(os.times()[2:4]) - started
        self.left -= min(spent, seconds)
        return answer

    def settle(self, term: Term) -> bool:
        """A small question during the encoding: is the term never true?"""
        return self.solve(term, self.small).result == "unsat"


def _decide(query: Query, request: Validate, budget: _Budget) -> solvers.Answer:
    if query.violation is FALSE:
        return solvers.Answer("unsat")
    answer = budget.solve(query.violation, request.seconds)
    if answer.result == "unknown":
        return _by_parts(query, request, budget) or answer
    if answer.result != "sat":
        return answer
    for mapping in _choices(query):
        [violation] = rebuild.substitute([query.violation], mapping)
        if violation is FALSE:
            return solvers.Answer("unsat")
        other = budget.solve(violation, request.seconds)
        if other.result == "unsat":
            return other
    return answer


def _by_parts(query: Query, request: Validate, budget: _Budget) -> solvers.Answer | None:
    """Unsat where each kind of violation is, one after another; None where one is not."""
    found = None
    for part in query.parts:
        if part is FALSE:
            continue
        found = budget.solve(part, request.seconds / 2)
        if found.result != "unsat":
            return None
    return found


def _choices(query: Query) -> list[dict[Term, Term]]:
    """What the source's nondeterminism may choose: as the target does, or zero. Any is sound."""
    ours, theirs = query.source.choices, query.target.choices
    if not ours:
        return []
    same: dict[Term, Term] = {}
    left = list(theirs)
    for choice in ours:
        partner = next((other for other in left if other.sort == choice.sort), None)
        if partner is not None:
            left.remove(partner)
        same[choice] = partner if partner is not None else t.bv(0, choice.sort)
    return [same, {choice: t.bv(0, choice.sort) for choice in ours}]


def _proved(query: Query, request: Validate, names: Sequence[str], solver: str) -> FunctionVerdict:
    """A proof counts only where some path returns: too small a bound proves anything."""
    assumptions = _assumptions(query)
    if query.reached is FALSE or (
        solvers.solve([query.reached], seconds=_SIDE_SECONDS, solvers=names).result == "unsat"
    ):
        reason = "the source is undefined for every input"
        if query.incomplete is not FALSE:
            reason = f"no path returns within {request.bound} rounds of its loops"
        return FunctionVerdict(
            request.function, Verdict(Grade.UNKNOWN), reason, loops=query.loops,
            assumptions=assumptions,
        )  # fmt: skip
    verdict = Verdict(Grade.PROVED)
    if query.incomplete is not FALSE and (
        solvers.solve([query.incomplete], seconds=_SIDE_SECONDS, solvers=names).result != "unsat"
    ):
        verdict = Verdict(Grade.PROVED_TO_BOUND, str(request.bound))
    return FunctionVerdict(
        request.function, verdict, solver=solver, loops=query.loops, assumptions=assumptions
    )


def _assumptions(query: Query) -> tuple[str, ...]:
    return (_NO_UNDEF, *sorted(query.assumptions))
