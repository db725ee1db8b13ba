"""What a network's nests are worth: its first ones, measured on programs of another seed."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import islice
from statistics import geometric_mean

from planish.gym.loops import LoopProblem
from planish.model.mlp import Mlp
from planish.tune.cursor_policy import network_plans
from planish.tune.kernel_training import training_examples

_SAMPLES = 24


@dataclass(frozen=True)
class Score:
    """Times as fast as the rules' schedule, geometric means over programs.

    first  the first nest; `speed`, the best of so many samples; `programs`, how many there were
    """

    first: float
    speed: float
    programs: int

    def __str__(self) -> str:
        return (
            f"first nest {self.first:.3f}, best of {_SAMPLES} {self.speed:.3f} times as fast as "
            f"the rules' schedule ({self.programs} other programs)"
        )


def trial(
    networks: Mapping[str, Mlp], count: int, seed: int, held_out: Collection[str]
) -> dict[str, Score]:
    """Each network on the same programs; a nest that fails counts as a tenth of the rules'."""
    examples = training_examples(count, seed, held_out)
    problem = LoopProblem({f"{e.group} {at}": e.program for at, e in enumerate(examples)})
    found: dict[str, list[list[float]]] = {name: [] for name in networks}
    try:
        for benchmark in problem.benchmarks:
            baseline = problem.start(benchmark).baseline
            space = problem.space(benchmark)
            for name, network in networks.items():
                plans = list(islice(network_plans(network, space, problem.target), _SAMPLES))
                outcomes = problem.measure(benchmark, plans)
                found[name].append([baseline / o.value if o.ok else 0.1 for o in outcomes] or [0.1])
    finally:
        problem.close()
    return {
        name: Score(
            geometric_mean(each[0] for each in speeds),
            geometric_mean(max(each) for each in speeds), len(speeds),
        )
        for name, speeds in found.items()
    }  # fmt: skip
