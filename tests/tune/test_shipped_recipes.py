"""What ships names nothing that was kept out of the vocabulary since it was learned."""

from __future__ import annotations

import tomllib
from importlib import resources

import pytest

from planish.llvm.pipeline import Pipeline
from planish.tune.coreset import load_coreset
from planish.tune.targets import TARGETS

_PASSES = tomllib.loads((resources.files("planish.llvm") / "data" / "passes.toml").read_text())
_DENIED = set(_PASSES["denied"])


@pytest.mark.parametrize("element", [*_PASSES["module"], *_PASSES["function"]])
def test_no_element_holds_a_denied_pass(element: str) -> None:
    bare = [name for name in Pipeline.parse(element).names() if name != "instcombine"]
    assert not _DENIED.intersection(bare)


@pytest.mark.parametrize("goal", ["size", "instructions"])
@pytest.mark.parametrize("architecture", sorted(TARGETS))
def test_no_coreset_holds_a_denied_pass(architecture: str, goal: str) -> None:
    coreset = load_coreset(architecture, goal)
    known = {f"function({element})" for element in _PASSES["function"]} | set(_PASSES["module"])
    plans = [action for plan in coreset.plans for action in plan.actions]
    for action in (*plans, *coreset.moves):
        assert action[0] in "-@" or action in known, action
    for suffix in coreset.suffixes:
        assert suffix.startswith("@") or suffix in _PASSES["function"], suffix
