"""`planish corpus`: real programs to learn from."""

from __future__ import annotations

from pathlib import Path

import click

from planish.cli.corpus_options import (
    architecture_option,
    common_option,
    corpus_option,
    earlier_option,
    jobs_option,
    tried_option,
)


@click.group("corpus")
def command() -> None:
    """Build a corpus of real programs to learn from."""


@command.command("build")
@click.argument("projects", type=click.Path(path_type=Path), required=False)
@click.option("--out", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True)
@click.option("--only", multiple=True, metavar="NAME", help="Only these projects.")
@click.option("--directory", type=click.Path(path_type=Path), help="Add the sources below it.")
@click.option(
    "--record", type=click.Path(path_type=Path), help="Add a build's: .planish of planish record."
)
@click.option("--name", default="", help="Of the project that is added; else the folder's.")
@click.option("--licence", default="unknown", show_default=True, help="Of what is added.")
@click.option("--split", default="train", show_default=True, metavar="train|held-out")
@jobs_option
@click.option(
    "--most",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Modules of one project at most.",
)
def build(
    projects: Path | None,
    out: Path,
    only: tuple[str, ...],
    directory: Path | None,
    record: Path | None,
    name: str,
    licence: str,
    split: str,
    jobs: int,
    most: int,
) -> None:
    """Compile real programs to bitcode: Debian source packages, a folder, a recorded build.

    PROJECTS is a TOML list of source packages. A run that was killed goes on where it was; a
    project that fails costs only itself.

    \b
    planish corpus build bench/corpus/projects.toml --out corpus
    planish corpus build --directory ~/src/mine --licence MIT --out corpus
    planish corpus build --record .planish --out corpus
    """
    from planish.base.errors import UsageError, unknown
    from planish.build.corpora import from_directory, from_recording
    from planish.model.corpus import build_corpus, load_corpus
    from planish.model.projects import SPLITS, load_projects, own_project
    from planish.tune.session import Session

    if not (projects or directory or record):
        raise UsageError("nothing to build a corpus from", hint="PROJECTS, --directory, --record")
    if split not in SPLITS:
        raise unknown("split", split, SPLITS)
    chosen = load_projects(projects) if projects else []
    names = {project.name for project in chosen}
    for wanted in only:
        if wanted not in names:
            raise unknown("project", wanted, names)
    chosen = [project for project in chosen if not only or project.name in only]
    with Session(jobs=jobs) as session:
        front_end = session.toolchain.need_front_end()
        if chosen:
            build_corpus(chosen, out, front_end, session.pool, jobs=jobs, most=most, say=print)
        if directory:
            own = own_project(name or directory.resolve().name, licence, split)
            from_directory(own, directory, out, front_end, session.pool, jobs, most)
        if record:
            own = own_project(name or record.resolve().parent.name, licence, split)
            from_recording(own, record, out, session.pool)
    index = load_corpus(out)
    by_split: dict[str, int] = {}
    for module in index.modules:
        by_split[module.split] = by_split.get(module.split, 0) + 1
    counts = ", ".join(f"{count} {split}" for split, count in sorted(by_split.items()))
    print(f"{out}: {len(index.projects)} projects, {len(index.modules)} modules ({counts})")
    for failed, reason in index.failed.items():
        print(f"failed: {failed}: {reason}")


@command.command("pack")
@corpus_option
@click.option("--out", type=click.Path(path_type=Path), default=Path("dataset"), show_default=True)
@click.option(
    "--smallest", default=5, show_default=True, help="Instructions of a function at least."
)
@jobs_option
def pack(corpus: Path, out: Path, smallest: int, jobs: int) -> None:
    """Write the corpus as Parquet: modules and single functions, each content once.

    Each row has its bitcode, features, project, licence and split; a function that stands in both
    splits counts as training's.

    \b
    planish corpus pack --corpus corpus --out dataset
    """
    from planish.model.dataset import pack_corpus
    from planish.tune.session import Session

    with Session(jobs=jobs) as session:
        packed = pack_corpus(corpus, out, session.pool, smallest, print)
    for kind, by_split in packed.items():
        counts = ", ".join(f"{count} {split}" for split, count in sorted(by_split.items()))
        print(f"{sum(by_split.values())} distinct {kind} ({counts})")
    print(f"wrote {out}")


@command.command("label")
@corpus_option
@click.option(
    "--projects",
    type=click.Path(path_type=Path),
    default=None,
    help="The list the corpus was built from; its programs judge the recipes.",
)
@click.option("--program", "programs", multiple=True, metavar="NAME", help="Only these judge.")
@architecture_option
@click.option("--goal", default="size", show_default=True, metavar="size|instructions")
@click.option("--out", type=click.Path(path_type=Path), default=Path("labels"), show_default=True)
@click.option("--modules", default=240, show_default=True, help="Training modules.")
@click.option("--largest", default=1200, show_default=True, help="Instructions of one at most.")
@click.option("--searched", default=80, show_default=True, help="Modules that are searched.")
@click.option("--builds", default=160, show_default=True, help="Builds of one search.")
@common_option
@tried_option
@earlier_option
@click.option("--seconds", type=click.FloatRange(1), default=None, help="Stop then; go on later.")
@jobs_option
@click.option("--seed", default=0, show_default=True)
def label(
    corpus: Path,
    projects: Path | None,
    programs: tuple[str, ...],
    architecture: str,
    goal: str,
    out: Path,
    modules: int,
    largest: int,
    searched: int,
    builds: int,
    common: int,
    tried: int,
    earlier: tuple[Path, ...],
    seconds: float | None,
    jobs: int,
    seed: int,
) -> None:
    """Find out which recipes serve which training programs: a table for `planish learn policy`.

    Searches some of them, builds every program by every winner, and rejects recipes that change
    what a program does. Every build is kept in the store: a run that ended goes on where it was.

    \b
    planish corpus label --corpus corpus --out labels --seconds 600
    """
    from planish.store.store import Store
    from planish.tune.label import label_corpus
    from planish.tune.session import Session
    from planish.tune.winners import Settings

    settings = Settings(
        searched=searched, builds=builds, common=common, tried=tried, earlier=earlier, seed=seed
    )
    with Session(jobs=jobs, store=Store.open_default()) as session:
        labels = label_corpus(
            session, corpus, projects, architecture, goal, out, settings, modules=modules,
            largest=largest, programs=programs, seconds=seconds, say=print,
        )  # fmt: skip
    for what, reach in labels.reach.items():
        print(f"{what}: {reach}")
    print(f"wrote {out}")
