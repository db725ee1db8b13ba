"""From a corpus to the data file of a coreset: samples, learning, checking, provenance."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from planish.base.errors import PlanishError, UsageError, unknown
from planish.base.files import write_atomic
from planish.llvm.recipe import Recipe
from planish.llvm.requests import UNITS
from planish.llvm.vocabulary import Vocabulary
from planish.model.labels import read_labels
from planish.model.projects import load_projects
from planish.search.protocol import Plan
from planish.tune.differential import Subject, expel, find_platform, prepare
from planish.tune.learn import Learned, learn, varied
from planish.tune.pass_space import PassSpace, describe, to_plan, to_recipe
from planish.tune.samples import Say, draw, make_samples
from planish.tune.session import Session
from planish.tune.source import default_pipeline
from planish.tune.targets import find_target
from planish.tune.winners import Settings, cover


def learn_coreset(
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
    say: Say,
    labels: Path | None = None,
) -> None:
    """Learn, check on programs that can run, and write the file.

    labels  choose the plans by this table (`label.py`), and search nothing: moves and suffixes
            are those of the first earlier file
    """
    words, space = make_space(session, architecture, goal)
    start = space.start
    if labels is not None:
        learned, taught = _from_labels(labels, goal, settings)
    else:
        chosen = draw(corpus, "train", modules, settings.seed, largest=largest)
        options = words.options if goal == "size" else ()
        attributes = words.attributes if goal == "size" else ()
        samples = make_samples(session, corpus, chosen, architecture, goal, start, say)
        seeds, suffixes = hand_written(words, space, goal)
        seeds += earlier_plans(space, settings)
        # Function passes are not among the moves: single functions choose them as suffixes.
        moves = [*options, *attributes] if goal == "size" else list(words.module)
        learned = learn(samples, space, moves, suffixes, seeds, settings, say)
        taught = [module.project for module in chosen]
    expelled: dict[Plan, str] = {}
    subjects: list[Subject] = []
    if projects is not None:
        subjects = prepare_subjects(session, corpus, projects, architecture, say)
        expelled = expel(subjects, _plans_of(learned, start), session.pool, say)
    document = _document(session, learned, expelled, taught, subjects, settings, start)
    write_atomic(out, tomli_w.dumps(document, multiline_strings=True))


def _from_labels(labels: Path, goal: str, settings: Settings) -> tuple[Learned, list[str]]:
    """The plans that add most in a table of labels, and each program's project."""
    if not settings.earlier:
        raise UsageError(
            "a table of labels has no options and suffixes", hint="--from CORESET has them"
        )
    table = read_labels(labels, goal)
    plans = [to_plan(Recipe.parse(text)) for text in table.recipes[: table.broadcast]]
    rows = [
        {plan: float(r) for plan, r in zip(plans, row, strict=False) if np.isfinite(r)}
        for row in table.ratios
    ]
    first = _read(settings.earlier[0])
    return Learned(
        tuple(cover(rows, plans, settings.plans)),
        tuple((move, 0.0) for move in first["moves"]),
        tuple((suffix, 0.0) for suffix in first["suffixes"]),
    ), list(table.projects)


def make_space(session: Session, architecture: str, goal: str) -> tuple[Vocabulary, PassSpace]:
    """The vocabulary of an architecture and its space; instructions know no generator.

    Raises UsageError for a target or a goal that nothing can be learned for.
    """
    find_target(architecture)
    if goal not in UNITS:
        raise unknown("goal", goal, UNITS)
    words = session.vocabulary(architecture)
    start = Plan((default_pipeline("Oz", session.pool),))
    if goal != "size":
        return words, PassSpace(start, words.module, ())
    return words, PassSpace(start, (*words.module, *words.attributes), words.options)


def check_coreset(
    session: Session,
    path: Path,
    corpus: Path,
    projects: Path,
    architecture: str,
    only: Sequence[str],
    say: Say,
) -> None:
    """Check an existing file on programs, expel what breaks one, and write it again.

    architecture  what the programs are built for; run by QEMU where this machine is another
    only          names of the programs; all that can run when empty
    """
    plans, document = _plans_in(path), _read(path)
    start = Plan((default_pipeline("Oz", session.pool),))
    learned = Learned(
        tuple((plan, 0.0) for plan in plans),
        tuple((move, 0.0) for move in document["moves"]),
        tuple((suffix, 0.0) for suffix in document["suffixes"]),
    )
    subjects = prepare_subjects(session, corpus, projects, architecture, say, only)
    if not subjects:
        raise UsageError("no program can be run here", hint="build the corpus first")
    expelled = expel(subjects, _plans_of(learned, start), session.pool, say)
    moves, suffixes = _bad_parts(learned, expelled, start)
    document["moves"] = [move for move in document["moves"] if move not in moves]
    document["suffixes"] = [s for s in document["suffixes"] if s not in suffixes]
    rows = zip(document["plan"], plans, strict=True)
    document["plan"] = [row for row, plan in rows if plan not in expelled]
    known = document.get("expelled", [])
    document["expelled"] = known + _expelled_rows(expelled)
    checked = {*document["source"].get("checked by", []), *(s.name for s in subjects)}
    document["source"]["checked by"] = sorted(checked)
    write_atomic(path, tomli_w.dumps(document, multiline_strings=True))


def _plans_in(path: Path) -> list[Plan]:
    return [to_plan(Recipe.parse(row["recipe"])) for row in _read(path)["plan"]]


def _read(path: Path) -> dict[str, Any]:
    """A coreset file; raises UsageError for what is none."""
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        for words in (*document["moves"], *document["suffixes"]):
            words.split()
        for row in document["plan"]:
            Recipe.parse(row["recipe"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, PlanishError) as error:
        raise UsageError(f"cannot read the coreset {path}: {error}") from error
    return document


def earlier_plans(space: PassSpace, settings: Settings) -> list[Plan]:
    """The plans of earlier files and their variants, as far as they are legal."""
    earlier = [plan for path in settings.earlier for plan in _plans_in(path)]
    return [plan for plan in varied(earlier, settings.variants) if space.legal(plan.actions)]


def prepare_subjects(
    session: Session,
    corpus: Path,
    projects: Path,
    architecture: str,
    say: Say,
    only: Sequence[str] = (),
) -> list[Subject]:
    """The programs that can be built and run here; the others are named."""
    subjects = []
    platform = find_platform(architecture, session.toolchain.need_front_end())
    for project in load_projects(projects):
        for program in project.programs:
            if only and program.name not in only:
                continue
            try:
                sources = corpus / "sources"
                subjects.append(
                    prepare(project, program, sources, platform, session.toolchain, session.pool)
                )
            except PlanishError as error:
                say(f"not checked: {program.name}: {error}")
    say(f"checked by {len(subjects)} programs: {', '.join(s.name for s in subjects)}")
    return subjects


def hand_written(words: Vocabulary, space: PassSpace, goal: str) -> tuple[list[Plan], list[str]]:
    """Plans and suffixes to start from (`data/seeds.toml`), as far as they are legal."""
    path = resources.files("planish.tune") / "data" / "seeds.toml"
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    known = set(space.actions(space.start))
    rows = [tuple(row.split()) for row in document["plans"]]
    plans = [Plan(row) for row in rows if set(row) <= known]
    singles = [*(words.attributes if goal == "size" else ()), *words.function]
    several = [] if goal != "size" else document["suffixes"]
    return plans, [*singles, *(s for s in several if _known_suffix(s, words))]


def _known_suffix(suffix: str, words: Vocabulary) -> bool:
    attributes = [word for word in suffix.split(",") if word.startswith("@")]
    return set(attributes) <= set(words.attributes)


def _plans_of(learned: Learned, start: Plan) -> list[Plan]:
    """Everything that was learned, as plans to be checked."""
    first = learned.plans[0][0] if learned.plans else start
    moves = [first.acting((*first.actions, move)) for move, _ in learned.moves]
    probes = [Plan(first.actions, everywhere=suffix) for suffix, _ in learned.suffixes]
    return [*(plan for plan, _ in learned.plans), *moves, *probes]


def _document(
    session: Session,
    learned: Learned,
    expelled: dict[Plan, str],
    taught: Sequence[str],
    subjects: Sequence[Subject],
    settings: Settings,
    start: Plan,
) -> dict[str, Any]:
    """The file: what was kept with its gain, what was expelled, and where it comes from.

    taught  the project of each module that was learned from
    """
    bad_moves, bad_suffixes = _bad_parts(learned, expelled, start)
    return {
        "moves": [move for move, _ in learned.moves if move not in bad_moves],
        "suffixes": [s for s, _ in learned.suffixes if s not in bad_suffixes],
        "source": {
            "compiler": session.compiler,
            "projects": sorted(set(taught)),
            "modules": len(taught),
            "searched": settings.searched,
            "builds": settings.builds,
            "common": settings.common,
            "earlier": [path.name for path in settings.earlier],
            "variants": list(settings.variants),
            "seed": settings.seed,
            "checked by": [subject.name for subject in subjects],
        },
        "plan": [
            {"recipe": str(to_recipe(plan)), "gain": round(gain, 5)}
            for plan, gain in learned.plans
            if plan not in expelled
        ],
        "expelled": _expelled_rows(expelled),
    }


def _bad_parts(
    learned: Learned, expelled: dict[Plan, str], start: Plan
) -> tuple[set[str], set[str]]:
    """Moves and suffixes whose plans (see `_plans_of`) were expelled."""
    first = learned.plans[0][0] if learned.plans else start
    moves = {m for m, _ in learned.moves if first.acting((*first.actions, m)) in expelled}
    suffixes = {s for s, _ in learned.suffixes if Plan(first.actions, everywhere=s) in expelled}
    return moves, suffixes


def _expelled_rows(expelled: dict[Plan, str]) -> list[dict[str, str]]:
    return [{"recipe": describe(plan), "reason": reason} for plan, reason in expelled.items()]
