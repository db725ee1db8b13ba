"""Do passes of LLVM refine a module? What they break is reduced and saved."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from planish.base.errors import RecipeError
from planish.base.records import Grade
from planish.llvm.pipeline import split_pipeline
from planish.proc.pool import Pool
from planish.verify import reduction, reproducer
from planish.verify.verify import Limits, Report, Verifier

_REDUCE_SECONDS = 120.0


def verify_passes(
    data: bytes,
    passes: str,
    limits: Limits,
    functions: Sequence[str],
    jobs: int,
    save: Path | None = None,
) -> Report:
    """The verdicts on a module against what the passes make of it.

    save  folder for the reduced module of the first refutation and a script that replays it
    Raises RecipeError where the passes cannot be run.
    """
    chosen = tuple(split_pipeline(passes))
    with (
        reduction.open_pool() as pool,
        Verifier(jobs=jobs, seconds=limits.seconds) as verifier,
    ):
        after = reduction.run_passes(data, chosen, pool)
        report = verifier.verify(data, after, limits=limits, functions=functions)
        if not report.refuted:
            return report
        name = report.refuted[0].function
        breaks = functools.partial(_breaks, data, name, limits, pool, verifier)
        first, kept = reduction.shortest(chosen, breaks)
    if save is not None:
        test = reduction.is_refuted(kept, name)
        small = reduction.smaller(data, test, seconds=_REDUCE_SECONDS)
        reproducer.save_passes(save, small, kept, name)
    return replace(report, broken_by=first, shortest=kept)


def _breaks(
    data: bytes, name: str, limits: Limits, pool: Pool, verifier: Verifier, passes: tuple[str, ...]
) -> bool:
    try:
        after = reduction.run_passes(data, passes, pool)
    except RecipeError:
        return False
    if name not in verifier.common(data, after):
        return False
    [one] = verifier.verify(data, after, limits=limits, functions=[name]).functions
    return one.grade is Grade.REFUTED
