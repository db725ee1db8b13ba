"""What is asked of a verifying worker and what it answers; the worker itself is `worker.py`."""

from __future__ import annotations

from dataclasses import dataclass

from planish.base.records import Grade, Verdict

HANDLER = "planish.verify.worker:Validator"
DEFAULT_BOUND = 4
DEFAULT_SECONDS = 10.0


@dataclass(frozen=True)
class List:
    """Ask for the functions of a module: (name, hash of its text) of each that has a body."""

    blob: str


@dataclass(frozen=True)
class Validate:
    """Ask whether one function of `after` refines that of `before`.

    bound    rounds of each loop that are followed
    seconds  wall time for the solvers
    explain  give the query back where it is not decided
    run      confirm by running and test by running; without it, only proofs count
    proofs   try to prove; without it, only runs count
    test_first  functions with loops or calls are run before a proof is tried, and then none is
    same        neither the function nor anything that it refers to has changed
    """

    before: str
    after: str
    function: str
    bound: int = DEFAULT_BOUND
    seconds: float = DEFAULT_SECONDS
    explain: bool = False
    run: bool = True
    proofs: bool = True
    test_first: bool = False
    same: bool = False


@dataclass(frozen=True)
class FunctionVerdict:
    """How far one function has been checked.

    reason       why it is not proved, in words; names what is not supported
    unsupported  the reason is something that has no meaning here
    input        the refuting input, source's and target's result
    assumptions  what the verdict rests on besides LLVM's semantics
    solver       who decided; empty where no solver was needed
    seconds      wall time
    query        the SMT-LIB script, where it was asked for
    """

    function: str
    verdict: Verdict
    reason: str = ""
    unsupported: bool = False
    input: str = ""
    assumptions: tuple[str, ...] = ()
    solver: str = ""
    seconds: float = 0.0
    loops: bool = False
    query: str = ""

    @property
    def grade(self) -> Grade:
        return self.verdict.grade
