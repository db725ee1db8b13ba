"""The policy `learned`: a decoder's recipes in the order of what the model expects of them."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from planish.base.errors import ToolchainError, UsageError
from planish.llvm.features import Description
from planish.llvm.recipe import Recipe
from planish.llvm.requests import Describe, Job
from planish.model.policy_net import NetDecoder, PolicyNet, load
from planish.model.process import Process
from planish.proc.pool import Call, Pool
from planish.search.advised import AdvisedPolicy
from planish.search.priority import priority_samples
from planish.search.protocol import Plan, Space
from planish.tune.pass_space import to_plan, to_recipe, usable
from planish.tune.recipe_grammar import RecipeGrammar
from planish.tune.source import architecture
from planish.tune.targets import TARGETS

if TYPE_CHECKING:
    from planish.tune.session import Options, Session
    from planish.tune.source import Task

# Share of the baseline that a build has to promise; below it, other stages promise more.
LEAST = 5e-5
# Samples of the decoder that are candidates from the start.
_SAMPLES = 64
_ALTERNATIVES = 8
_LONGEST = 12
# Recipes that were never measured have to promise twice as much.
_UNKNOWN_TRUST = 0.5


@functools.cache
def load_net(architecture: str, goal: str) -> PolicyNet:
    """The model for libLLVM's name of an architecture; raises UsageError where there is none."""
    target = TARGETS.get(architecture)
    name = "any" if goal == "instructions" else target.coreset if target else architecture
    path = Path(str(resources.files("planish.tune") / "data" / f"policy-{name}-{goal}.safetensors"))
    if not path.is_file():
        raise UsageError(
            f"there is no learned policy for {architecture} and the goal {goal}",
            hint="use the policy coreset, or train one: planish learn policy",
        )
    return load(path)


def learned_policy(session: Session, task: Task, space: Space, options: Options) -> AdvisedPolicy:
    """The policy for one task; raises UsageError where none was trained for its target."""
    net = load_net(architecture(task.facts.triple), options.goal)
    return advised(net, space, describe(session.pool, task.search))


def advised(
    net: PolicyNet, space: Space, looks: Description, *, feedback: bool = True, least: float = LEAST
) -> AdvisedPolicy:
    """The policy for a program that looks like this."""
    known = usable((to_plan(Recipe.parse(text)) for text in net.recipes), space)
    drawn = islice(samples(net, space, looks), _SAMPLES)
    plans = [plan for plan in dict.fromkeys([*known, *drawn]) if plan != space.start]
    return AdvisedPolicy(space, NetModel(net, looks), plans, least, feedback=feedback)


def promise(net: PolicyNet, looks: Description, builds: int) -> float:
    """The share of its bytes that so many builds are expected to take off a program."""
    process = Process(float(net.card["clip"]))
    recipes = [Recipe.parse(text) for text in net.recipes]
    numbers = process.add(
        net.expect(looks, net.recipes), [(*each.passes, *each.options) for each in recipes]
    )
    return process.promise(numbers, builds)


def samples(net: PolicyNet, space: Space, looks: Description) -> Iterator[Plan]:
    """Priority Sampling on the model, under the grammar of recipes."""
    decoder = RecipeDecoder(net, space, looks)
    for sample in priority_samples(decoder, _ALTERNATIVES):
        yield decoder.grammar.plan(sample.tokens)


def describe(pool: Pool, job: Job) -> Description:
    """What a model sees of a module that the pool keeps."""
    [reply] = pool.run([Call((), Describe(job), (job.blob,))])
    if reply.failure is not None:
        raise ToolchainError(f"the module cannot be described: {reply.reason}")
    found: Description = reply.value
    return found


class RecipeDecoder:
    """The model with the grammar of the space."""

    end = 0

    def __init__(self, net: PolicyNet, space: Space, looks: Description) -> None:
        # No shorter than what it learned, or it would be cut off in the middle.
        known = (len((*r.passes, *r.options)) for r in map(Recipe.parse, net.recipes))
        self.grammar = RecipeGrammar(space, net.actions, max(_LONGEST, *known))
        self.legal = self.grammar.legal
        self.next_logits = NetDecoder(net, looks).next_logits


class NetModel:
    """What the model expects of plans of one program (`search/advised.py`)."""

    def __init__(self, net: PolicyNet, looks: Description) -> None:
        self._net, self._looks = net, looks
        self._process = Process(float(net.card["clip"]))

    def add(self, plans: Sequence[Plan]) -> Sequence[int]:
        texts = [str(to_recipe(plan)) for plan in plans]
        known = np.isin(texts, self._net.recipes)
        return self._process.add(
            self._net.expect(self._looks, texts),
            [plan.actions for plan in plans],
            np.where(known, 1.0, _UNKNOWN_TRUST),
        )

    def see(self, number: int, value: float | None) -> None:
        self._process.see(number, value)

    def expected(self, number: int) -> float:
        return float(self._process.predict([number])[0][0])

    def choose(self, numbers: Sequence[int], count: int, least: float) -> Sequence[int]:
        return self._process.choose(numbers, count, least)
