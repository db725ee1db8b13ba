"""`planish corpus`: real programs to learn from."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("corpus")
def command() -> None:
    """Build a corpus of real programs to learn from."""


@command.command("build")
@click.argument("projects", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), default=Path("corpus"), show_default=True)
@click.option("--only", multiple=True, metavar="NAME", help="Only these projects.")
@click.option("--jobs", "-j", type=click.IntRange(1, 512), default=2, show_default=True)
@click.option(
    "--most",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="Modules of one project at most.",
)
def build(projects: Path, out: Path, only: tuple[str, ...], jobs: int, most: int) -> None:
    """Fetch the PROJECTS (a TOML list of Debian source packages) and compile them to bitcode.

    A run that was killed goes on where it was; a project that fails costs only itself.

    \b
    planish corpus build bench/corpus/projects.toml --out corpus
    """
    from planish.base.errors import unknown
    from planish.model.corpus import build_corpus
    from planish.model.projects import load_projects
    from planish.tune.session import Session

    chosen = load_projects(projects)
    names = {project.name for project in chosen}
    for name in only:
        if name not in names:
            raise unknown("project", name, names)
    chosen = [project for project in chosen if not only or project.name in only]
    with Session(jobs=jobs) as session:
        front_end = session.toolchain.need_front_end()
        index = build_corpus(chosen, out, front_end, session.pool, jobs=jobs, most=most, say=print)
    by_split: dict[str, int] = {}
    for module in index.modules:
        by_split[module.split] = by_split.get(module.split, 0) + 1
    counts = ", ".join(f"{count} {split}" for split, count in sorted(by_split.items()))
    print(f"{out}: {len(index.projects)} projects, {len(index.modules)} modules ({counts})")
    for name, reason in index.failed.items():
        print(f"failed: {name}: {reason}")
