"""Labels: what every recipe worth knowing does to every training program.

Programs are searched one after the other, each winner is minimised, and all winners, with the
plans given, are built on all programs: a table of programs times recipes, in allocated bytes and
IR instructions. Recipes under which a program of the list behaves otherwise than its -O0 build are
rejected. Source of the procedure: "Meta Large Language Model Compiler" (2407.02524, section 3).

Every build goes through the store. A run ends when its time is up and says how far it came; the
next one goes on there.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from planish.base.hashing import digest
from planish.base.records import Failure, Measurement, Outcome
from planish.llvm.recipe import Recipe
from planish.model.labels import TRIED, Labelled, Program, write_labels
from planish.proc.pool import Pool
from planish.search.protocol import Plan
from planish.store.store import Key, Store
from planish.tune.common_search import search_common
from planish.tune.differential import Subject, differs
from planish.tune.learn_coreset import earlier_plans, hand_written, make_space, prepare_subjects
from planish.tune.learned import describe as describe_job
from planish.tune.pass_evaluator import PassEvaluator
from planish.tune.pass_space import PassSpace, describe, to_plan, to_recipe
from planish.tune.samples import draw, make_samples
from planish.tune.session import Session
from planish.tune.winners import Sample, Settings, search_winner, spread

Say = Callable[[str], None]
# Where a recipe comes from that was searched for all programs at once.
COMMON = "common"


@dataclass(frozen=True)
class Labels:
    """The table, and how far it reaches.

    plans     the columns, each with where it comes from: a sample's name, "given" or "common"
    outcomes  for each sample one outcome for each plan; a sample that was not reached has none
    rejected  plans that changed what a program does, each with the reason
    searched  samples that were searched, of those that were to be
    """

    samples: tuple[Sample, ...]
    plans: tuple[tuple[Plan, str], ...]
    outcomes: tuple[tuple[Outcome, ...], ...]
    rejected: dict[Plan, str] = field(default_factory=dict)
    searched: tuple[int, int] = (0, 0)
    checked: int = 0

    @property
    def reach(self) -> dict[str, str]:
        """How far it came, in words."""
        built = sum(bool(row) for row in self.outcomes)
        return {
            "searched": f"{self.searched[0]} of {self.searched[1]} programs",
            "built": f"{built} of {len(self.samples)} programs by {len(self.plans)} recipes",
            "checked": f"{self.checked} of {len(self.plans)} recipes, "
            f"{len(self.rejected)} rejected",
        }


class Clock:
    """Says when the time is up; None is no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def up(self) -> bool:
        """Whether it is."""
        return self._end is not None and time.monotonic() >= self._end


def label(
    samples: Sequence[Sample],
    space: PassSpace,
    given: Sequence[Plan],
    settings: Settings,
    clock: Clock,
    say: Say,
) -> Labels:
    """Search, minimise and broadcast as far as the time allows.

    given  plans that every search starts with and that are broadcast in any case
    """
    found: dict[Plan, str] = dict.fromkeys(given, "given")
    chosen = spread(samples, settings)
    searched = 0
    for sample in chosen:
        if clock.up:
            break
        plan = search_winner(sample, space, given, settings, say)
        found.setdefault(plan, sample.name)
        searched += 1
    say(f"searched {searched} of {len(chosen)} programs: {len(found)} recipes")
    if not clock.up:
        for plan in search_common(chosen, space, tuple(found), settings, say):
            found.setdefault(plan, COMMON)
            if clock.up:
                break
    plans = tuple(found)
    rows: list[tuple[Outcome, ...]] = []
    for at, sample in enumerate(samples):
        rows.append(() if clock.up else tuple(sample.evaluate(plans)))
        if at % 10 == 9 and rows[-1]:
            say(f"{at + 1} of {len(samples)} programs built by {len(plans)} recipes")
    origins = tuple(found.items())
    return Labels(tuple(samples), origins, tuple(rows), searched=(searched, len(chosen)))


def reject(
    labels: Labels,
    subjects: Sequence[Subject],
    pool: Pool,
    store: Store | None,
    compiler: str,
    clock: Clock,
    say: Say,
) -> Labels:
    """Try the recipes on programs that run, the most useful first; known verdicts come from
    the store."""
    key = Key(digest(*(word for s in subjects for word in (s.name, *s.blobs))),
              "", "behaviour", compiler)  # fmt: skip
    known = store.outcomes(key) if store is not None else {}
    rejected: dict[Plan, str] = {}
    checked = 0
    for plan in _by_use(labels):
        outcome = known.get(describe(plan))
        if outcome is None:
            if clock.up:
                continue
            outcome = _behaviour(plan, subjects, pool)
            if store is not None:
                store.put(key, outcome)
        checked += 1
        if outcome.failure is not None:
            rejected[plan] = outcome.reason
            say(f"rejected: {plan}: {outcome.reason}")
        elif checked % 10 == 0:
            say(f"checked {checked} of {len(labels.plans)} recipes on {len(subjects)} programs")
    return replace(labels, rejected=rejected, checked=checked)


def _behaviour(plan: Plan, subjects: Sequence[Subject], pool: Pool) -> Outcome:
    for subject in subjects:
        reason = differs(subject, plan, pool)
        if reason:
            words = f"{subject.name}: {reason}"
            return Outcome(describe(plan), failure=Failure.REJECTED, reason=words)
    return Outcome(describe(plan), Measurement(0.0, "differences"))


def _by_use(labels: Labels) -> list[Plan]:
    """The plans, those first that are the best of most programs."""
    plans = [plan for plan, _ in labels.plans]
    wins = dict.fromkeys(plans, 0)
    for row in labels.outcomes:
        if row:
            wins[min(zip(row, plans, strict=True), key=lambda pair: pair[0].value)[1]] += 1
    return sorted(plans, key=lambda plan: -wins[plan])


def label_corpus(
    session: Session,
    corpus: Path,
    projects: Path | None,
    architecture: str,
    goal: str,
    out: Path,
    settings: Settings,
    *,
    modules: int,
    largest: int,
    programs: Sequence[str],
    seconds: float | None,
    say: Say,
) -> Labels:
    """Label the training programs of a corpus and write the tables (`model/labels.py`).

    projects  the list whose programs judge the recipes; none are judged without it
    programs  names of those that do; all when empty
    """
    clock = Clock(seconds)
    words, space = make_space(session, architecture, goal)
    chosen = draw(corpus, "train", modules, settings.seed, largest=largest)
    samples = make_samples(session, corpus, chosen, architecture, goal, space.start, say)
    seeds, _ = hand_written(words, space, goal)
    given = list(dict.fromkeys([*earlier_plans(space, settings), *seeds]))
    labels = label(samples, space, given, settings, clock, say)
    if projects is not None:
        subjects = prepare_subjects(session, corpus, projects, architecture, say, programs)
        labels = reject(labels, subjects, session.pool, session.store, session.compiler, clock, say)
    _write(session, labels, space, out, architecture, goal, settings)
    return labels


def _write(
    session: Session,
    labels: Labels,
    space: PassSpace,
    out: Path,
    architecture: str,
    goal: str,
    settings: Settings,
) -> None:
    rows = []
    for sample in labels.samples:
        assert sample.job is not None
        sha = sample.job.blob.removeprefix(f"{architecture}-")
        looks = describe_job(session.pool, sample.job)
        rows.append(Program(sample.name, sha, sample.project, _values(sample.baseline), looks))
    recipes = [
        (str(to_recipe(plan)), origin, labels.rejected.get(plan, ""))
        for plan, origin in labels.plans
    ]
    numbers = {text: at for at, (text, _, _) in enumerate(recipes)}
    outcomes = []
    for at, (sample, row) in enumerate(zip(labels.samples, labels.outcomes, strict=True)):
        if not row:
            continue
        named = {recipes[number][0]: outcome for number, outcome in enumerate(row)}
        for text, outcome in {**_tried(sample, space), **named}.items():
            if text not in numbers:
                numbers[text] = len(recipes)
                recipes.append((text, TRIED, ""))
            outcomes.append(_row(at, numbers[text], outcome))
    words = {
        "compiler": session.compiler, "architecture": architecture, "goal": goal,
        "seed": settings.seed, "builds of a search": settings.builds,
        "earlier": [path.name for path in settings.earlier], **labels.reach,
    }  # fmt: skip
    write_labels(out, rows, recipes, outcomes, words)


def _tried(sample: Sample, space: PassSpace) -> Mapping[str, Outcome]:
    """What the store holds of a program besides, where it is a recipe of this space."""
    known = sample.evaluate.known if isinstance(sample.evaluate, PassEvaluator) else {}
    found = {}
    for text, outcome in known.items():
        if "probe: " in text:
            continue
        recipe = Recipe.parse(text)
        if not recipe.functions and space.legal(to_plan(recipe).actions):
            found[text] = outcome
    return found


def _row(program: int, recipe: int, outcome: Outcome) -> Labelled:
    size, count = (int(v) if math.isfinite(v) else None for v in _values(outcome))
    return Labelled(program, recipe, size, count, outcome.failure.value if outcome.failure else "")


def _values(outcome: Outcome) -> tuple[float, float]:
    """Bytes and IR instructions; not a number where they are not known."""
    measured = outcome.measurement if outcome.ok else None
    if measured is None:
        return math.nan, math.nan
    if measured.unit == "instructions":
        return math.nan, measured.value
    return measured.value, measured.beside.get("instructions", math.nan)
