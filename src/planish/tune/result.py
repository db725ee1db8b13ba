"""The result of optimising one source, and how it is kept."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planish.base.files import write_atomic
from planish.base.records import Ledger, Verdict
from planish.llvm.recipe import Recipe
from planish.llvm.requests import UNITS
from planish.store.lockfile import LockEntry

if TYPE_CHECKING:
    from planish.tune.session import Options, Session
    from planish.tune.source import Baseline, Task


@dataclass(frozen=True)
class Share:
    """What one element of the recipe earns: the value without it, less the value with it."""

    element: str
    gain: float


@dataclass(frozen=True)
class Finished:
    """What is handed out.

    recipe    empty when it is the baseline itself
    value     the goal's value
    fallbacks, checks  what happened on the way, in words
    """

    recipe: Recipe
    artefact: bytes
    value: int
    sections: dict[str, int]
    verdict: Verdict
    fallbacks: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()
    builds: int = 0


@dataclass(frozen=True)
class Result:
    """One optimised source.

    baseline, best  value of the goal before and after, in `unit`; best <= baseline
    artefact        the object (or what `emit` asked for)
    stale           the lockfile's entry was for another version of the source
    """

    source: Path
    goal: str
    unit: str
    target: str
    baseline: int
    best: int
    recipe: Recipe
    artefact: bytes
    ledger: Ledger
    verdict: Verdict
    functions: int
    hash: str
    compiler: str
    level: str = "Oz"
    cpu: str = ""
    flags: tuple[str, ...] = ()
    sections_before: dict[str, int] = field(default_factory=dict)
    sections_after: dict[str, int] = field(default_factory=dict)
    shares: tuple[Share, ...] = ()
    stale: bool = False
    interrupted: bool = False

    @property
    def change(self) -> float:
        """Relative change of the goal; negative is an improvement."""
        return self.best / self.baseline - 1 if self.baseline else 0.0

    def save(self, path: str | Path) -> Path:
        """Write the artefact; raises UsageError when it cannot be written."""
        write_atomic(Path(path), self.artefact)
        return Path(path)

    def entry(self, folder: Path) -> LockEntry:
        """The lockfile's entry, with the source relative to the lockfile's folder."""
        return LockEntry(
            source=lock_name(self.source, folder),
            hash=self.hash,
            goal=self.goal,
            target=self.target,
            cpu=self.cpu,
            flags=self.flags,
            level=self.level,
            recipe=str(self.recipe),
            baseline=self.baseline,
            result=self.best,
            unit=self.unit,
            compiler=self.compiler,
            verdict=str(self.verdict),
        )

    def to_json(self) -> dict[str, Any]:
        """Everything but the artefact, for machines."""
        ledger = self.ledger
        return {
            "source": str(self.source),
            "goal": self.goal,
            "unit": self.unit,
            "target": self.target,
            "cpu": self.cpu,
            "baseline": self.baseline,
            "best": self.best,
            "change": self.change,
            "recipe": {
                "passes": list(self.recipe.passes),
                "options": list(self.recipe.options),
                "functions": dict(self.recipe.functions),
            },
            "functions": self.functions,
            "sections": {"baseline": self.sections_before, "best": self.sections_after},
            "shares": [{"element": share.element, "gain": share.gain} for share in self.shares],
            "verdict": {"grade": self.verdict.grade.value, "detail": self.verdict.detail},
            "hash": self.hash,
            "compiler": self.compiler,
            "stale": self.stale,
            "interrupted": self.interrupted,
            "ledger": {
                "builds": ledger.builds,
                "duplicates": ledger.duplicates,
                "check_builds": ledger.check_builds,
                "cached": ledger.cached,
                "seconds": round(ledger.seconds, 3),
                "failures": dict(ledger.failures),
                "baseline": ledger.baseline,
                "policy": ledger.policy,
                "seed": ledger.seed,
                "fallbacks": list(ledger.fallbacks),
                "checks": list(ledger.checks),
                "curve": list(ledger.curve),
            },
        }

    def __str__(self) -> str:
        return (
            f"{self.source}: {self.baseline:,} -> {self.best:,} {self.unit} "
            f"({self.change:+.1%}), {self.ledger.builds} builds, {self.ledger.seconds:.1f} s"
        )

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{name}</td><td style='text-align:right'>{value}</td></tr>"
            for name, value in (
                ("goal", self.goal),
                ("baseline", f"{self.baseline:,} {self.unit}"),
                ("best", f"{self.best:,} {self.unit}"),
                ("change", f"{self.change:+.1%}"),
                ("builds", self.ledger.builds),
                ("checked", str(self.verdict)),
            )
        )
        return f"<table><caption>{self.source}</caption>{rows}</table>"


def to_result(
    session: Session,
    task: Task,
    before: Baseline,
    done: Finished,
    options: Options,
    ledger: Ledger,
    shares: Sequence[Share] = (),
    *,
    interrupted: bool = False,
    stale: bool = False,
) -> Result:
    """The record of what was found."""
    request = task.request
    return Result(
        source=task.source,
        goal=options.goal,
        unit=UNITS[options.goal],
        target=task.facts.triple,
        baseline=before.value(options.goal),
        best=done.value,
        recipe=done.recipe,
        artefact=done.artefact,
        ledger=ledger,
        verdict=done.verdict,
        functions=len(task.facts.functions),
        hash=task.hash,
        compiler=session.compiler,
        level=request.level,
        cpu=request.cpu,
        flags=request.flags,
        sections_before=before.sections,
        sections_after=done.sections,
        shares=tuple(shares),
        stale=stale,
        interrupted=interrupted,
    )


def lock_name(source: Path, folder: Path) -> str:
    """How the lockfile in `folder` calls a source: relative to the folder, with slashes."""
    return Path(os.path.relpath(source.resolve(), folder.resolve())).as_posix()
