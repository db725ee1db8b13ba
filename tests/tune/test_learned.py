"""The policy `learned`: the grammar of recipes, its candidates, and a search with the shipped
model."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.tiny_net import ACTIONS, RECIPES, looks, tiny_net

from planish.base.errors import UsageError
from planish.base.records import Budget
from planish.llvm.features import FEATURES
from planish.llvm.recipe import Recipe
from planish.search.decoding import Tree, beam, greedy, sampled
from planish.search.priority import priority_samples
from planish.search.protocol import Plan
from planish.tune.learned import RecipeDecoder, advised, load_net, samples
from planish.tune.pass_space import PassSpace, to_plan, to_recipe
from planish.tune.passes import optimise
from planish.tune.recipe_grammar import RecipeGrammar
from planish.tune.session import Options, Session
from planish.tune.source import Request

_START = Plan(("default<Oz>",))
SPACE = PassSpace(_START, ("default<O1>", "@frame-pointer=non-leaf"),
                  ("-disable-lsr", "-regalloc=basic", "-regalloc=pbqp"))  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 100), max_size=9))
def test_every_walk_in_the_grammar_is_a_recipe_with_one_spelling(choices: list[int]) -> None:
    grammar = RecipeGrammar(SPACE, ACTIONS, longest=6)
    tokens: tuple[int, ...] = ()
    for choice in choices:
        legal = [token for token in grammar.legal(tokens).nonzero()[0].tolist() if token]
        if not legal:
            break
        tokens = (*tokens, legal[choice % len(legal)])
    plan = grammar.plan(tokens)
    assert SPACE.legal(plan.actions) and len(tokens) <= 6
    assert grammar.legal(tokens)[0]
    # Text sorts options: a second spelling of the recipe would come back as another plan.
    assert to_plan(to_recipe(plan)) == plan
    net = tiny_net()
    assert net.tokens(Recipe.parse(str(to_recipe(plan)))) == tokens


def test_actions_that_the_space_has_not_are_never_legal() -> None:
    grammar = RecipeGrammar(PassSpace(_START, (), ("-disable-lsr",)), ACTIONS)
    assert grammar.legal(()).nonzero()[0].tolist() == [0, 2, 4]


def test_samples_are_unique_recipes_and_the_first_is_greedy() -> None:
    net, program = tiny_net(), looks(4)
    drawn = list(islice(samples(net, SPACE, program), 50))
    assert len({str(to_recipe(plan)) for plan in drawn}) == 50
    assert all(SPACE.legal(plan.actions) for plan in drawn)
    tree = Tree(RecipeDecoder(net, SPACE, program))
    first = next(priority_samples(tree))
    assert first.tokens == greedy(tree).tokens == next(priority_samples(tree, 8)).tokens
    for other in (*beam(tree, 5), *islice(sampled(tree, seed=1), 5)):
        assert SPACE.legal(RecipeGrammar(SPACE, ACTIONS).plan(other.tokens).actions)


def test_candidates_are_the_known_recipes_and_the_samples() -> None:
    policy = advised(tiny_net(), SPACE, looks(4), least=-1.0)
    plans: list[Plan] = []
    while found := policy.suggest(400):
        plans += found
    assert {str(to_recipe(plan)) for plan in plans} >= set(RECIPES)
    assert len(set(plans)) == len(plans) and SPACE.start not in plans


@pytest.fixture
def session(tmp_path: Path) -> Session:
    with Session(jobs=2) as made:
        yield made  # type: ignore[misc]


@pytest.mark.parametrize("builds", [1, 12])
def test_a_search_with_the_shipped_model(
    session: Session, sample_source: Path, builds: int
) -> None:
    options = Options(policy="learned", budget=Budget(builds=builds))
    results = [optimise(session, sample_source, Request(), options) for _ in range(2)]
    assert results[0].best <= results[0].baseline
    assert results[0].recipe == results[1].recipe
    assert results[0].ledger.policy == "learned"
    if builds > 1:
        assert results[0].best < results[0].baseline


def test_the_shipped_models_are_small_and_fit_these_features() -> None:
    folder = Path(__file__).parents[2] / "src/planish/tune/data"
    files = sorted(folder.glob("policy-*.safetensors"))
    assert files
    for path in files:
        _, architecture, goal = path.stem.split("-")
        net = load_net({"x86": "X86", "any": "X86"}[architecture], goal)
        assert path.stat().st_size <= 8 << 20
        assert net.card["features"] == list(FEATURES)
        assert path.with_suffix(".md").read_text().startswith("# Recipes for")
        assert net.card["saved on projects left out"]["learned"]


def test_a_target_without_a_model_is_said() -> None:
    with pytest.raises(UsageError, match="no learned policy for Mips"):
        load_net("Mips", "size")
