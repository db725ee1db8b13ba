"""Whether what a recipe built refines the unoptimised module, as far as that can be shown."""

from __future__ import annotations

from planish.base.records import Grade, Verdict
from planish.llvm.requests import Built
from planish.tune.session import Options, Session
from planish.tune.source import Task
from planish.verify.verify import Limits, Report, Verifier


def report_on(session: Session, task: Task, built: Built, limits: Limits) -> Report:
    """A verdict for every function that both have."""
    before = session.pool.kept(task.final.blob)
    with Verifier(jobs=session.pool.jobs, seconds=limits.seconds, store=session.store) as verifier:
        return verifier.verify(before, built.artefacts["bc"], limits=limits)


def problem(report: Report, options: Options) -> str:
    """Why the result must not be kept, in words; empty where it may.

    Refuted is never kept. What is neither proved nor tested is kept only where the user's own
    test has passed.
    """
    if report.refuted:
        one = report.refuted[0]
        return f"refuted: {one.function}: {one.input}"
    unknown = [one.function for one in report.functions if one.grade is Grade.UNKNOWN]
    if unknown and options.check is None:
        shown = ", ".join(unknown[:3]) + (", ..." if len(unknown) > 3 else "")
        return f"{len(unknown)} functions are neither proved nor tested ({shown}); give --test"
    return ""


def words(report: Report) -> str:
    """The counts of the verdicts."""
    counts = [f"{report.count(grade)} {grade.value}" for grade in Grade if report.count(grade)]
    return f"functions: {', '.join(counts)}" if counts else "no function to verify"


def verdict_of(report: Report, options: Options) -> Verdict:
    """The weakest verdict; the user's test stands in for what is unknown."""
    if report.verdict.grade is Grade.UNKNOWN and options.check is not None:
        return Verdict(Grade.TESTED, "by the given test")
    return report.verdict
