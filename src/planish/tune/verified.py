"""Whether what a recipe built refines the unoptimised module, as far as that can be shown."""

from __future__ import annotations

from dataclasses import dataclass

from planish.base.records import Grade, Verdict
from planish.llvm.requests import Built
from planish.tune.session import Session
from planish.tune.source import Task
from planish.verify.verify import Limits, Report, Verifier

# A search waits for the verdicts of every function of its winner: less time than for a proof
# that somebody asked for by name.
_LIMITS = Limits(seconds=3)


@dataclass(frozen=True)
class Verified:
    """What verification says of a build.

    tested  whether the user's own test has passed: it stands in for what is unknown
    """

    report: Report
    tested: bool

    @property
    def refuted(self) -> list[str]:
        """Names of the functions that were refuted."""
        return [one.function for one in self.report.refuted]

    @property
    def problem(self) -> str:
        """Why the result must not be kept, in words; empty where it may.

        Refuted is never kept. What is neither proved nor tested is kept only where the user's own
        test has passed.
        """
        if self.report.refuted:
            one = self.report.refuted[0]
            return f"refuted: {one.function}: {one.input}"
        unknown = [one.function for one in self.report.functions if one.grade is Grade.UNKNOWN]
        if unknown and not self.tested:
            shown = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
            return f"{len(unknown)} functions are neither proved nor tested ({shown}); give --test"
        return ""

    @property
    def words(self) -> str:
        """The counts of the verdicts."""
        count = self.report.count
        counts = [f"{count(grade)} {grade.value}" for grade in Grade if count(grade)]
        return f"functions: {', '.join(counts)}" if counts else "no function to verify"

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict; the user's test stands in for what is unknown."""
        if self.report.verdict.grade is Grade.UNKNOWN and self.tested:
            return Verdict(Grade.TESTED, "by the given test")
        return self.report.verdict


def verify_build(session: Session, task: Task, built: Built, *, tested: bool) -> Verified:
    """A verdict for every function that the unoptimised module and the build both have."""
    before = session.pool.kept(task.final.blob)
    jobs, store = session.pool.jobs, session.store
    with Verifier(jobs=jobs, seconds=_LIMITS.seconds, store=store) as verifier:
        report = verifier.verify(before, built.artefacts["bc"], limits=_LIMITS)
    return Verified(report, tested)
