"""Whether what a recipe built refines the unoptimised module, as far as that can be shown."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from planish.base.records import Grade, Verdict
from planish.llvm.requests import Built
from planish.tune.session import Session
from planish.tune.source import Task
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Limits, Report, Verifier

# A search waits for the verdicts of every function of its winner: less time than for a proof
# that somebody asked for by name; and tested is enough, so that loops are not unrolled first.
_LIMITS = Limits(seconds=0.3, test_first=True)


@dataclass(frozen=True)
class Verified:
    """What verification says of a build.

    tested     whether the user's own test has passed: it stands in for what is unknown
    sheltered  functions that the recipe leaves alone: they are as default simplification makes
               them, and as trustworthy as the baseline is
    """

    report: Report
    tested: bool
    sheltered: frozenset[str] = frozenset()

    @property
    def refuted(self) -> list[str]:
        """Names of the functions that were refuted."""
        return [one.function for one in self.report.refuted]

    @property
    def unknown(self) -> list[str]:
        """Names of the functions that the recipe changes and that are not even tested."""
        return [one.function for one in self._changed if one.grade is Grade.UNKNOWN]

    @property
    def problem(self) -> str:
        """Why the result must not be kept, in words; empty where it may.

        Refuted is never kept. What is neither proved nor tested is kept only where the user's own
        test has passed.
        """
        if self.report.refuted:
            one = self.report.refuted[0]
            return f"refuted: {one.function}: {one.input}"
        if self.tested or not self.unknown:
            return ""
        first = next(one for one in self._changed if one.grade is Grade.UNKNOWN)
        shown = ", ".join(self.unknown[:3]) + (", ..." if len(self.unknown) > 3 else "")
        return (
            f"{len(self.unknown)} of {len(self.report.functions)} functions are neither proved nor "
            f"tested and stay unoptimised by the recipe: {shown} ({first.function}: {first.reason})"
        )

    @property
    def words(self) -> list[str]:
        """The counts of the verdicts, and which functions the recipe leaves alone."""
        some = Report(tuple(self._changed))
        counts = [f"{some.count(grade)} {grade.value}" for grade in Grade if some.count(grade)]
        found = [f"functions: {', '.join(counts)}" if counts else "no function to verify"]
        if self.sheltered:
            found.append(f"as by default simplification: {', '.join(sorted(self.sheltered))}")
        return found

    @property
    def verdict(self) -> Verdict:
        """The weakest verdict; the user's test stands in for what is unknown."""
        found = Report(tuple(self._changed)).verdict
        if found.grade is Grade.UNKNOWN and self.tested:
            return Verdict(Grade.TESTED, "by the given test")
        return found

    @property
    def _changed(self) -> list[FunctionVerdict]:
        return [one for one in self.report.functions if one.function not in self.sheltered]


def verify_build(
    session: Session,
    task: Task,
    built: Built,
    sheltered: Collection[str] = (),
    functions: Sequence[str] = (),
    *,
    tested: bool,
) -> Verified:
    """A verdict for every function that the unoptimised module and the build both have.

    sheltered  not asked about: no pass of the recipe has touched them
    functions  only these, as far as both have them
    """
    before, after = session.pool.kept(task.final.blob), built.artefacts["bc"]
    jobs, store = session.pool.jobs, session.store
    with Verifier(jobs=jobs, seconds=_LIMITS.seconds, store=store) as verifier:
        both = verifier.common(before, after)
        wanted = functions or both
        chosen = [name for name in both if name in wanted and name not in sheltered]
        if not chosen:
            return Verified(Report(()), tested, frozenset(sheltered))
        report = verifier.verify(before, after, limits=_LIMITS, functions=chosen)
    return Verified(report, tested, frozenset(sheltered))
