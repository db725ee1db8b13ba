"""The policy of the learned model: recipes in the order of what they promise this program."""

from __future__ import annotations

import functools
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from planish.base.errors import ToolchainError, UsageError
from planish.llvm.features import FEATURES, Description
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Describe, Job
from planish.model.ranker import Belief, Ranker, load
from planish.proc.pool import Call, Pool
from planish.search.expected import ExpectedPolicy
from planish.search.protocol import Space
from planish.tune.pass_space import localise, to_plan
from planish.tune.source import architecture

if TYPE_CHECKING:
    from planish.tune.session import Options, Session
    from planish.tune.source import Task

# Share of the baseline that a build has to promise; below it, single options promise more.
_LEAST = 2e-4
_NAMES = {"X86": "x86", "AArch64": "aarch64"}


@functools.cache
def load_ranker(architecture: str, goal: str) -> Ranker:
    """The model for libLLVM's name of an architecture; raises UsageError where there is none."""
    name = f"model-{_NAMES.get(architecture, architecture)}-{goal}.safetensors"
    path = Path(str(resources.files("planish.tune") / "data" / name))
    if not path.is_file():
        raise UsageError(
            f"there is no model for {architecture} and the goal {goal}",
            hint="use the policy coreset, or train one: planish learn model",
        )
    return load(path)


def model_policy(session: Session, task: Task, space: Space, options: Options) -> ExpectedPolicy:
    """The policy for one task; raises UsageError where no model was learned for its target."""
    ranker = load_ranker(architecture(task.facts.triple), options.goal)
    return expected_policy(ranker, space, describe(session.pool, task.search))


def expected_policy(ranker: Ranker, space: Space, looks: Description) -> ExpectedPolicy:
    """The policy for a program that looks like this."""
    named = dict(zip(FEATURES, looks.features, strict=True))
    features = [named[name] for name in ranker.card["features"]]
    plans = [localise(to_plan(Recipe.parse(text)), space) for text in ranker.recipes]
    belief = Belief(ranker, features, [space.legal(plan.actions) for plan in plans])
    return ExpectedPolicy(space.start, plans, belief, _LEAST)


def describe(pool: Pool, job: Job) -> Description:
    """What a model sees of a module that the pool keeps."""
    [reply] = pool.run([Call((), Describe(job), (job.blob,))])
    if reply.failure is not None:
        raise ToolchainError(f"the module cannot be described: {reply.reason}")
    found: Description = reply.value
    return found
