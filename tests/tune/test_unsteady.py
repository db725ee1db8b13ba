"""A recipe that builds other bytes in another process loses what makes it do so, and no more."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from planish.llvm.recipe import Recipe
from planish.tune import finish as finishing
from planish.tune.finish import before_of, finish
from planish.tune.session import Options, Session
from planish.tune.source import Request, load

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
_ODD = "function main: sink"


@pytest.mark.parametrize("odd", [_ODD, "globaldce", "default<Oz>"])
def test_only_the_unsteady_element_is_left_out(odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = Recipe(("globaldce", "default<Oz>", "@frame-pointer=none"), (), (("main", "sink"),))
    count, build = itertools.count(), finishing._build

    def unsteady(session: Session, task: Any, recipe: Recipe, options: Options) -> Any:
        built, problem = build(session, task, recipe, options)
        if built is not None and odd in str(recipe):
            built = replace(built, artefacts={"obj": b"%d" % next(count)})
        return built, problem

    monkeypatch.setattr(finishing, "_build", unsteady)
    with Session(jobs=1) as session:
        request = Request(triple="aarch64-linux-gnu")
        task = load(LZSS, request, session.toolchain, session.pool)
        before = before_of(session, task, Options())
        done = finish(session, task, before, recipe, Options())
    assert done.fallbacks[0].endswith(f"same bytes twice: {odd} left out")
    assert odd not in str(done.recipe)
    if odd == "default<Oz>":
        assert done.fallbacks[1:] == ("nothing beat the baseline",)
    else:
        assert done.value < before.size
        assert "@frame-pointer=none" in str(done.recipe)
