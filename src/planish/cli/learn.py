"""`planish learn`: from a corpus to what helps other programs."""

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
    variants_option,
)


@click.group("learn")
def command() -> None:
    """Learn from a corpus of programs what helps others."""


@command.command("coreset")
@corpus_option
@click.option(
    "--projects",
    type=click.Path(path_type=Path),
    default=None,
    help="The list the corpus was built from; its programs check what was learned.",
)
@architecture_option
@click.option("--goal", default="size", show_default=True, metavar="size|instructions")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--modules", default=240, show_default=True, help="Training modules.")
@click.option("--largest", default=1200, show_default=True, help="Instructions of one at most.")
@click.option("--searched", default=80, show_default=True, help="Modules that are searched.")
@click.option("--builds", default=160, show_default=True, help="Builds of one search.")
@common_option
@tried_option
@earlier_option
@variants_option
@click.option(
    "--labels", type=click.Path(path_type=Path), default=None,
    help="Search nothing: the plans that add most in this table, the rest from --from.",
)  # fmt: skip
@jobs_option
@click.option("--seed", default=0, show_default=True)
def coreset(
    corpus: Path,
    projects: Path | None,
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
    variants: tuple[str, ...],
    labels: Path | None,
    jobs: int,
    seed: int,
) -> None:
    """Search on training modules, broadcast the winners, choose greedily, check, write OUT.

    Takes about an hour on two cores. Every build is kept in the store: a run that was killed goes
    on where it was.

    \b
    planish learn coreset --corpus corpus --projects bench/corpus/projects.toml --out x86.toml
    planish learn coreset --out new.toml --searched 20 --from x86.toml --variant "-new-option"
    planish learn coreset --out new.toml --labels labels --from x86.toml
    """
    from planish.store.store import Store
    from planish.tune.learn_coreset import learn_coreset
    from planish.tune.session import Session
    from planish.tune.winners import Settings

    settings = Settings(
        searched=searched,
        builds=builds,
        common=common,
        tried=tried,
        earlier=earlier,
        variants=variants,
        seed=seed,
    )
    with Session(jobs=jobs, store=Store.open_default()) as session:
        learn_coreset(
            session,
            corpus,
            projects,
            architecture,
            goal,
            out,
            settings,
            modules=modules,
            largest=largest,
            say=print,
            labels=labels,
        )
    print(f"wrote {out}")


@command.command("policy")
@click.option(
    "--labels",
    type=click.Path(path_type=Path),
    default=Path("labels"),
    show_default=True,
    help="From: planish corpus label.",
)
@click.option("--goal", default="size", show_default=True, metavar="size|instructions")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--steps", type=click.IntRange(1), default=400, show_default=True)
@click.option("--folds", type=click.IntRange(0), default=5, show_default=True, help="0 for none.")
@click.option("--seed", default=0, show_default=True)
def policy(labels: Path, goal: str, out: Path, steps: int, folds: int, seed: int) -> None:
    """Train the model of the policy `learned`; writes OUT (safetensors) and its card (.md).

    Needs the extra planish[learn] (torch). The model is validated on projects left out in turn.

    \b
    planish learn policy --labels labels --out policy-x86-size.safetensors
    """
    from planish.base.errors import unknown
    from planish.llvm.requests import UNITS
    from planish.model.train import Shape
    from planish.tune.learn_policy import learn_policy

    if goal not in UNITS:
        raise unknown("goal", goal, UNITS)
    learn_policy(labels, goal, out, Shape(steps=steps, seed=seed), folds, print)
    print(f"wrote {out} and {out.with_suffix('.md')}")


@command.command("kernels")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--programs", default=160, show_default=True, help="Tensor programs to learn from.")
@click.option("--plans", default=48, show_default=True, help="Schedules measured of each.")
@click.option(
    "--seconds", type=float, default=None, help="Stop measuring after so long; run again to go on."
)
@click.option(
    "--held-out", type=click.Path(path_type=Path), default=None,
    help="A file with the identities of shapes that must not be learned from.",
)  # fmt: skip
@click.option("--seed", default=0, show_default=True)
def kernels(
    out: Path,
    programs: int,
    plans: int,
    seconds: float | None,
    held_out: Path | None,
    seed: int,
) -> None:
    """Learn how long loop schedules take: for `planish tune-kernel --policy cost-model`.

    Measures schedules of contractions, convolutions, reductions and row-wise fusions on this
    machine, fits gradient-boosted trees, checks them on programs left out, and writes OUT
    (safetensors, with its card). What was measured is kept in the store: a run that was killed
    goes on where it was.

    \b
    planish learn kernels --out kernels-cost.safetensors
    """
    from planish.store.store import Store
    from planish.tune.learn_kernels import KernelSettings, learn_kernels, read_identities

    identities = tuple(read_identities(held_out)) if held_out is not None else ()
    settings = KernelSettings(
        programs, plans, float("inf") if seconds is None else seconds, seed, identities
    )
    with Store.open_default() as store:
        learn_kernels(settings, out, store, print)
    print(f"wrote {out}")


@command.command("loops")
@click.option("--out", type=click.Path(path_type=Path), required=True, help="The file to write.")
@click.option("--algorithm", default="ppo", show_default=True, metavar="ppo|dqn")
@click.option("--steps", default=20_000, show_default=True, help="Actions, over all episodes.")
@click.option("--programs", default=40, show_default=True, help="Tensor programs to learn from.")
@click.option(
    "--nests",
    default=0,
    show_default=True,
    help="Nests measured of each program first, for ppo to imitate the fastest; 0 for none.",
)
@click.option(
    "--rounds",
    default=0,
    show_default=True,
    help="Then so many times: measure the network's own nests, imitate the fastest known.",
)
@click.option(
    "--trials",
    default=0,
    show_default=True,
    help="Other programs, on which the network is compared with the one that only imitated.",
)
@click.option(
    "--reward", default="rate", show_default=True, metavar="rate|log",
    help="Change of GFLOP/s over the peak, or of the logarithm of the time.",
)  # fmt: skip
@click.option(
    "--held-out", type=click.Path(path_type=Path), default=None,
    help="A file with the identities of shapes that must not be learned from.",
)  # fmt: skip
@click.option("--seconds", type=float, default=None, help="Stop after so long; run again to go on.")
@click.option("--seed", default=0, show_default=True)
def loops(
    out: Path,
    algorithm: str,
    steps: int,
    programs: int,
    nests: int,
    rounds: int,
    trials: int,
    reward: str,
    held_out: Path | None,
    seconds: float | None,
    seed: int,
) -> None:
    """Train a policy over cursor actions by reinforcement learning (extra planish[learn]).

    On contractions, convolutions, reductions and row-wise fusions; writes a small network with
    its card, which NumPy alone can run. With --nests the agent begins with what the fastest of
    that many measured nests have in common, which takes it far beyond what it finds alone; with
    --rounds it then learns from the fastest of its own (expert iteration).

    \b
    planish learn loops --steps 20000 --out loops-ppo.safetensors
    planish learn loops --programs 240 --nests 144 --rounds 3 --steps 0 --trials 40 \
        --out cursor.safetensors
    """
    from planish.gym.train import TrainSettings, train_loops
    from planish.tune.learn_kernels import read_identities

    identities = tuple(read_identities(held_out)) if held_out is not None else ()
    settings = TrainSettings(
        algorithm, steps, programs, reward, seed, identities,
        seconds=float("inf") if seconds is None else seconds, nests=nests, rounds=rounds,
        trials=trials,
    )  # fmt: skip
    train_loops(settings, out, print)
    print(f"wrote {out}")


@command.command("check")
@click.argument("coreset", type=click.Path(path_type=Path))
@corpus_option
@click.option(
    "--projects",
    type=click.Path(path_type=Path),
    required=True,
    help="The list the corpus was built from; its programs are run.",
)
@architecture_option
@click.option("--only", multiple=True, metavar="PROGRAM", help="Only these programs.")
@jobs_option
def check(
    coreset: Path,
    corpus: Path,
    projects: Path,
    architecture: str,
    only: tuple[str, ...],
    jobs: int,
) -> None:
    """Build programs by every recipe of the CORESET and run them; expel what breaks one.

    Programs for an architecture that is not this machine's are run by QEMU (qemu-aarch64, ...).

    \b
    planish learn check x86.toml --corpus corpus --projects bench/corpus/projects.toml
    """
    from planish.tune.learn_coreset import check_coreset
    from planish.tune.session import Session

    with Session(jobs=jobs) as session:
        check_coreset(session, coreset, corpus, projects, architecture, only, print)
    print(f"wrote {coreset}")
