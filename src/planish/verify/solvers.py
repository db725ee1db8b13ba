"""z3 and bitwuzla side by side, each in a process of its own that can be killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec

from planish.base.errors import ToolchainError
from planish.proc.race import race
from planish.verify import smtlib
from planish.verify.terms import BOOL, Term

BUSY = 8  # on a busy machine a second of processor time takes up to so many
INSTALL = "pip install 'planish[verify]'"


@dataclass(frozen=True)
class Answer:
    """What the solvers said.

    result  `unsat`, `sat` or `unknown`
    model   values of the terms that were asked for, where it is `sat`
    solver  who answered
    reason  why it is unknown
    """

    result: str
    model: Mapping[int, int] = field(default_factory=dict)
    solver: str = ""
    reason: str = ""


def installed() -> tuple[str, ...]:
    """The solvers that there are; raises ToolchainError where there is none."""
    found = tuple(name for name in ("z3", "bitwuzla") if find_spec(name) is not None)
    if not found:
        raise ToolchainError("no SMT solver is installed", hint=f"install them: {INSTALL}")
    return found


def load() -> tuple[str, ...]:
    """Import the solvers that are installed; raises ToolchainError where there is none."""
    found = installed()
    for name in found:
        __import__(name)
    return found


def solve(
    assertions: Sequence[Term],
    *,
    seconds: float,
    solvers: Sequence[str],
    wanted: Sequence[Term] = (),
) -> Answer:
    """Ask all solvers; the first that decides wins.

    seconds  of processor time for each solver
    wanted  variables and other terms whose values are asked for
    """
    text = smtlib.script(assertions, wanted)
    runners: dict[str, Callable[[], Answer]] = {}
    for name in solvers:
        runners[name] = _runner(name, text, wanted)
    done = race(
        runners, lambda answer: answer.result != "unknown", seconds=seconds * BUSY, cpu=seconds
    )
    if done.winner:
        answer = done.value
        return Answer(answer.result, answer.model, done.winner)
    reason = "; ".join(f"{name}: {how}" for name, how in sorted(done.ends.items()))
    return Answer("unknown", reason=reason)


def _runner(name: str, text: str, wanted: Sequence[Term]) -> Callable[[], Answer]:
    def run() -> Answer:
        return (_z3 if name == "z3" else _bitwuzla)(text, wanted)

    return run


def _z3(text: str, wanted: Sequence[Term]) -> Answer:
    import z3

    solver = z3.Solver()
    solver.from_string(text)
    result = solver.check()
    if result == z3.unsat:
        return Answer("unsat")
    if result != z3.sat:
        return Answer("unknown", reason=solver.reason_unknown())
    model = solver.model()
    held: dict[int, int] = {}
    for at, term in enumerate(wanted):
        sort = z3.BoolSort() if term.sort == BOOL else z3.BitVecSort(term.sort)
        value = model.eval(z3.Const(smtlib.wanted_name(at), sort), model_completion=True)
        held[term.number] = int(z3.is_true(value)) if term.sort == BOOL else value.as_long()
    return Answer("sat", held)


def _bitwuzla(text: str, wanted: Sequence[Term]) -> Answer:
    import bitwuzla

    manager = bitwuzla.TermManager()
    options = bitwuzla.Options()
    options.set(bitwuzla.Option.PRODUCE_MODELS, True)
    parser = bitwuzla.Parser(manager, options)
    parser.parse(text.removesuffix("(check-sat)"), True, False)
    solver = parser.bitwuzla()
    result = solver.check_sat()
    if result == bitwuzla.Result.UNSAT:
        return Answer("unsat")
    if result != bitwuzla.Result.SAT:
        return Answer("unknown", reason="undecided")
    held: dict[int, int] = {}
    for at, term in enumerate(wanted):
        value = solver.get_value(parser.parse_term(smtlib.wanted_name(at)))
        got = value.value()
        held[term.number] = int(got) if term.sort == BOOL else int(str(got), 2)
    return Answer("sat", held)
