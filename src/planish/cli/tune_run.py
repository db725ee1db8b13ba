"""What `planish tune` does, by mode: units, a whole program, run time."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from planish.base.errors import UsageError
from planish.base.progress import Progress, Silent
from planish.build import report_data
from planish.build.allocation import Expectation, observed
from planish.build.blobs import Blobs
from planish.build.confirm import Linked, confirm, tuned_objects
from planish.build.linking import find_link, relink
from planish.build.tuning import Outcome, Tuned, tune_units
from planish.build.units import Recording
from planish.cli.opt_run import live_display
from planish.measure.timer import Timed
from planish.proc.command import run_command as run_test
from planish.store import lockfile
from planish.store.store import Store
from planish.tune.session import Options, Session

_DEFAULT_SLOWDOWN = 0.02


@dataclass(frozen=True)
class Asked:
    """What all modes share.

    record   the recording's folder
    program  which program is meant; empty for the largest
    workers  the Ray cluster that builds; empty for this machine
    """

    record: Path
    recording: Recording
    options: Options
    lock: Path
    jobs: int
    program: str
    as_json: bool
    workers: str = ""

    def say(self, words: object) -> None:
        """For people; where JSON is asked for, on standard error."""
        print(words, file=sys.stderr if self.as_json else sys.stdout, flush=True)


def read_slowdown(text: str) -> float:
    """`2%` or `0.02`; raises UsageError for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(%?)\s*", text or f"{_DEFAULT_SLOWDOWN:.0%}")
    if match is None:
        raise UsageError(f"cannot read the slowdown '{text}'", hint="--max-slowdown 2%")
    return float(match[1]) / (100 if match[2] else 1)


def units(asked: Asked, test: str, command: str, slowest: float | None) -> None:
    """Every unit for itself; then the programs linked, tested and timed."""
    from planish.build.mending import Mended, mend

    mended: list[Mended] = []
    with (
        live_display(quiet=asked.as_json) as live,
        _session(asked, live) as session,
    ):
        expect: Expectation = observed
        if asked.options.policy == "learned":
            from planish.build.foresight import foreseen

            expect = foreseen(
                session, asked.recording.units, asked.record, asked.options.goal, asked.lock.parent
            )
        tuned = tune_units(
            session, asked.recording.units, asked.options, asked.lock, watch=asked.say,
            expect=expect,
        )  # fmt: skip
        if test and not tuned.interrupted and any(o.result for o in tuned.outcomes):
            own = [o.unit for o in tuned.outcomes if o.result is not None]
            mended = mend(session, own, asked.options, asked.lock, lambda: run_test(test).ok)
            tuned = _after(tuned, mended)
            for each in mended:
                asked.say(each)
    linked = confirm(asked.record, asked.recording, tuned.outcomes)
    timed = None
    if command and slowest is not None:
        timed, tuned = _bounded(asked, tuned, command, slowest)
    report_data.save(asked.record, tuned, linked, asked.options, [str(m) for m in mended])
    _show(asked, tuned, linked, timed, [str(m) for m in mended])
    if not any(o.result for o in tuned.outcomes):
        sys.exit(2)


def whole(asked: Asked, output: Path | None, *, replay: bool) -> None:
    """A program as one module."""
    from planish.build.whole import prepare, replay_whole, tune_whole

    link = find_link(asked.recording.links, asked.program)
    path = (output or Path(f"{link.path.name}.planish")).resolve()
    with (
        live_display(quiet=asked.as_json) as live,
        _session(asked, live, store=not replay) as session,
    ):
        program = prepare(session, asked.record, asked.recording, link)
        if replay:
            size = replay_whole(session, asked.record, program, asked.lock, path)
            asked.say(f"{link.output}: {size:,} bytes linked, as in the lockfile; wrote {path}")
            if asked.as_json:
                print(json.dumps({"program": link.output, "best": size, "output": str(path)}))
            return
        found = tune_whole(session, asked.record, program, asked.options, asked.lock, path)
    asked.say(found)
    if not found.problem:
        asked.say(f"{len(program.units)} units as one module; wrote {path} and {asked.lock}")
    if asked.as_json:
        print(json.dumps({
            "program": found.program, "plain": found.plain, "lto": found.lto, "best": found.best,
            "problem": found.problem, "sections": found.sections, "result": found.result.to_json(),
            "output": "" if found.problem else str(path),
        }))  # fmt: skip
    if found.problem:
        sys.exit(2)


def time(asked: Asked, command: str) -> None:
    """All units of a program for its measured run time."""
    from planish.build.timing import race

    link = find_link(asked.recording.links, asked.program)
    with _session(asked, Silent()) as session:
        found = race(
            session, asked.record, asked.recording, link, command, asked.options, asked.lock,
            watch=asked.say,
        )  # fmt: skip
    asked.say(found)
    if asked.as_json:
        print(json.dumps({
            "program": found.program, "problem": found.problem, "recipe": str(found.recipe),
            "ratio": _interval(found.timed),
            "tried": [{"recipe": words, "ratio": _interval(t)} for words, t in found.tried],
        }))  # fmt: skip
    if found.problem:
        sys.exit(2)


def _session(asked: Asked, progress: Progress, *, store: bool = True) -> Session:
    opened = Store.open_default() if store else None
    return Session(jobs=asked.jobs, store=opened, progress=progress, workers=asked.workers)


def _after(tuned: Tuned, mended: object) -> Tuned:
    """The outcomes with what was tuned again; what lost its recipe has no result."""
    from planish.build.mending import Mended

    assert isinstance(mended, list)
    latest: dict[Path, Mended] = {}
    for each in mended:
        latest[Path(each.source)] = each
    outcomes = []
    for outcome in tuned.outcomes:
        found = next((m for path, m in latest.items() if outcome.unit.path.match(str(path))), None)
        if found is None:
            outcomes.append(outcome)
        elif found.outcome is not None:
            outcomes.append(found.outcome)
        else:
            outcomes.append(Outcome(outcome.unit, None, "the test fails with it", failed=True))
    return replace(tuned, outcomes=tuple(outcomes))


def _bounded(asked: Asked, tuned: Tuned, command: str, slowest: float) -> tuple[Timed, Tuned]:
    """The tuned program's time; nothing is kept where it is slower than was allowed."""
    from planish.build.timing import time_programs

    link = find_link(asked.recording.links, asked.program)
    blobs = Blobs(asked.record)
    with tempfile.TemporaryDirectory(prefix="planish-") as folder:
        own, mine = Path(folder) / "own", Path(folder) / "tuned"
        relink(link, blobs, {}, own)
        relink(link, blobs, tuned_objects(tuned.outcomes), mine)
        timed = time_programs({"own": own, "tuned": mine}, command, 4.0)["tuned"]
    words = f"{timed.ratio:.3f} of the time [{timed.low:.3f}, {timed.high:.3f}]"
    # The whole interval: what may be slower than was allowed is not kept in silence.
    if timed.high <= 1 + slowest:
        asked.say(f"{link.output}: {words}, at most {1 + slowest:.3f} was asked for")
        return timed, tuned
    held = lockfile.load(asked.lock)
    parts = {e for o in tuned.outcomes if o.result for e in [o.result.entry(asked.lock.parent)]}
    left = tuple(e for e in held.entries if e.task not in {part.task for part in parts})
    replace(held, entries=left).save(asked.lock)
    asked.say(f"{link.output}: {words}, more than {1 + slowest:.3f}: nothing is kept")
    dropped = tuple(
        Outcome(o.unit, None, o.problem or "the program would be too slow", o.own, o.builds)
        for o in tuned.outcomes
    )
    return timed, replace(tuned, outcomes=dropped)


def _show(
    asked: Asked,
    tuned: Tuned,
    linked: list[Linked],
    timed: Timed | None,
    mended: list[str],
) -> None:
    kept = [o for o in tuned.outcomes if o.result is not None]
    results = [o.result for o in kept if o.result is not None]
    before = sum(o.own or (o.result.baseline if o.result else 0) for o in kept)
    after = sum(r.best for r in results)
    if asked.as_json:
        print(json.dumps({
            "results": [r.to_json() for r in results],
            "skipped": [
                {"source": o.unit.source, "problem": o.problem}
                for o in tuned.outcomes if o.result is None
            ],
            "dropped": mended, "before": before, "after": after, "builds": tuned.builds,
            "left": tuned.left, "ratio": _interval(timed),
            "linked": [
                {"program": x.program, "before": x.before, "after": x.after, "problem": x.problem}
                for x in linked
            ],
        }))  # fmt: skip
        return
    for each in linked:
        print(each)
    if results:
        print(
            f"{len(results)} units: the build's own {before:,} -> {after:,} {results[0].unit} "
            f"({after / before - 1:+.1%}), {tuned.builds} builds; wrote {asked.lock.name}"
        )
    if tuned.left:
        print(f"about {tuned.left:,.0f} {_unit(tuned)} left to gain by a larger --budget")


def _unit(tuned: Tuned) -> str:
    return next((o.result.unit for o in tuned.outcomes if o.result is not None), "bytes")


def _interval(timed: Timed | None) -> list[float] | None:
    return None if timed is None else [timed.ratio, timed.low, timed.high]
