"""The coreset that ships: plans that served other programs, and how to go on from them.

One file for each architecture and goal under `data/`, written by `planish learn coreset`; the
files say which projects they were learned from.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from planish.llvm.recipe import Recipe
from planish.search.protocol import Plan
from planish.tune.pass_space import to_plan
from planish.tune.targets import TARGETS


@dataclass(frozen=True)
class Coreset:
    """What was learned.

    plans     whole plans, in the order in which they help most
    moves     single actions worth adding to the best plan, most promising first
    suffixes  choices for single functions (passes and attributes), most promising first
    expelled  recipe text to the reason why it must not be used
    source    where it was learned: projects, modules, versions, seed
    """

    plans: tuple[Plan, ...] = ()
    moves: tuple[str, ...] = ()
    suffixes: tuple[str, ...] = ()
    expelled: Mapping[str, str] = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)


@functools.cache
def load_coreset(architecture: str, goal: str) -> Coreset:
    """The coreset for libLLVM's name of an architecture (`X86`, `AArch64`, ...)."""
    own = TARGETS[architecture].coreset if architecture in TARGETS else "x86"
    # Instructions of LLVM IR hardly depend on the target.
    name = f"coreset-{'any' if goal == 'instructions' else own}-{goal}.toml"
    path = resources.files("planish.tune") / "data" / name
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    return Coreset(
        plans=tuple(to_plan(Recipe.parse(row["recipe"])) for row in document["plan"]),
        moves=tuple(document["moves"]),
        suffixes=tuple(document["suffixes"]),
        expelled={row["recipe"]: row["reason"] for row in document.get("expelled", [])},
        source=document["source"],
    )
