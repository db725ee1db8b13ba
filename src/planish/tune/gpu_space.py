"""The space of tiles of GPU kernels, ranked by the estimate; recipes in the lockfile."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from math import prod
from pathlib import Path

from planish.base.errors import LockError, UsageError
from planish.base.hashing import digest
from planish.codegen.triton.source import Config, KernelSource
from planish.gpu.hardware import Hardware, hardware_of
from planish.search.protocol import Plan
from planish.store.lockfile import LockEntry, load
from planish.tensor.expr import Expr, Tensor
from planish.tensor.program import Program, lower
from planish.tune.gpu_cost import estimate, refusal
from planish.tune.gpu_kernels import GpuKernel, gpu_kernel, parse_recipe
from planish.tune.tensors import as_tensors

_GOAL = "gpu"


@dataclass(frozen=True)
class Ranked:
    """A configuration with its rank by the estimate (smaller first) and its ratio to the best."""

    config: Config
    estimate: float


class KernelSpace:
    """An action is one choice of one kernel: `C m=64`. The start is the rules' configuration."""

    def __init__(self, kernel: GpuKernel) -> None:
        self.kernel = kernel
        self.hardware: Hardware = kernel.hardware
        # A kernel that only adds up another one's parts has no choices of its own.
        self._sources = {
            k.outputs[-1].removesuffix("_parts"): k for k in kernel.kernels if k.domain
            and not k.name.endswith("_add")
        }  # fmt: skip

    @property
    def start(self) -> Plan:
        """No change."""
        return Plan()

    @cached_property
    def all_actions(self) -> tuple[str, ...]:
        """Every choice that differs from the rules', sorted."""
        found = []
        for name, source in self._sources.items():
            for key, values in source.domain.items():
                chosen = getattr(source.config, key)
                found += [
                    f"{name} {key}={v}"
                    for v in values
                    if v != chosen and (v or key == "persistent")
                ]
        return tuple(sorted(found))

    def actions(self, plan: Plan) -> Sequence[str]:
        """All of them: any may stand somewhere."""
        return self.all_actions

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether no choice is made twice and all kernels fit the hardware."""
        keys = [a.split("=")[0] for a in actions]
        if list(actions) != sorted(actions) or len(set(keys)) != len(keys):
            return False
        chosen = self.configs(actions)
        return all(not refusal(self._sources[n], c, self.hardware) for n, c in chosen.items())

    def configs(self, actions: Sequence[str]) -> dict[str, Config]:
        """The configuration of each kernel under these choices."""
        found = {name: source.config for name, source in self._sources.items()}
        for action in actions:
            name, _, choice = action.partition(" ")
            key, _, value = choice.partition("=")
            found[name] = replace(found[name], **{key: int(value)})
        return found

    def estimate(self, name: str, config: Config) -> float:
        """A kernel's rank under a configuration: smaller is better, infinite what is not legal."""
        return estimate(self._sources[name], config, self.hardware)

    def ranked(self, name: str, most: int = 10) -> list[Ranked]:
        """The best configurations of a kernel by the estimate, of all that are legal."""
        source = self._sources[name]
        found = [
            Ranked(config, estimate(source, config, self.hardware))
            for config in configurations(source)
        ]
        legal = [r for r in found if r.estimate != float("inf")]
        return sorted(legal, key=lambda r: (r.estimate, str(r.config)))[:most]

    @property
    def names(self) -> tuple[str, ...]:
        """The kernels that have choices, by their results."""
        return tuple(self._sources)


def configurations(source: KernelSource) -> Iterator[Config]:
    """Every combination of a kernel's choices."""
    names = [f.name for f in fields(Config) if f.name in source.domain]
    for values in itertools.product(*(source.domain[n] for n in names)):
        yield replace(source.config, **dict(zip(names, values, strict=True)))


def grid_points(kernel: KernelSource, config: Config) -> float:
    """Elements that all tiles together have, relative to those of the result and its rows."""
    row = int(kernel.facts.get("row", 0))
    if kernel.form != "rows" or not row:
        return 1.0
    return max(1.0, -(-row // config.k) * config.k / row)


def best_by_estimate(
    outputs: Tensor | Expr | Sequence[Tensor], *, target: str, precision: str = "ieee"
) -> GpuKernel:
    """The kernel with the tiles that the estimate ranks first."""
    start = gpu_kernel(outputs, target=target, precision=precision)
    space = KernelSpace(start)
    configs = {n: space.ranked(n, 1)[0].config for n in space.names if space.ranked(n, 1)}
    return GpuKernel(start.program, target=target, configs=configs, precision=precision)


# -- the lockfile ----------------------------------------------------------------------------------


def entry(kernel: GpuKernel, source: str, verdict: str) -> LockEntry:
    """What `planish.lock` keeps: tiles and precision; `source` names the program.

    Baseline and result are blocks of the grids, by rule and as kept: nothing was timed.
    """
    rules = GpuKernel(kernel.program, target=kernel.target, precision=kernel.precision)
    blocks = [sum(prod(k.grid) for k in one.kernels) for one in (rules, kernel)]
    return LockEntry(
        source, _hash(kernel.program), _GOAL, kernel.target, kernel.recipe, blocks[0], blocks[1],
        "blocks", "triton", verdict, level="rules",
    )  # fmt: skip


def from_lock(
    path: Path, source: str, outputs: Tensor | Expr | Sequence[Tensor], *, target: str
) -> GpuKernel:
    """The kernel that a lockfile keeps, with no search.

    Raises LockError where there is no entry, or one for another program (stale).
    """
    found = load(path).find(source, _GOAL, target)
    if found is None:
        raise LockError(f"{path} has no kernel '{source}' for {target}",
                        hint="planish gpu compile .. --lock writes one")  # fmt: skip
    program = lower(as_tensors(outputs))
    if found.hash != _hash(program):
        raise LockError(f"the kernel '{source}' in {path} is stale: the program has changed",
                        hint="compile it again with --lock")  # fmt: skip
    configs, precision = parse_recipe(found.recipe)
    given = {k: Config.parse(v) if isinstance(v, str) else v for k, v in configs.items()}
    made = GpuKernel(program, target=target, configs=given, precision=precision)
    hardware = hardware_of(target)
    for kernel in made.kernels:
        words = refusal(kernel, kernel.config, hardware) if kernel.domain else ""
        if words:
            raise UsageError(f"{kernel.name} does not fit {target}: {words}")
    return made


def _hash(program: Program) -> str:
    return digest(str(program))
