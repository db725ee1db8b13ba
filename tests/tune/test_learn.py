from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planish.llvm.recipe import Recipe
from planish.search.protocol import Plan
from planish.tune.coreset import load_coreset
from planish.tune.learn import cover_parts
from planish.tune.pass_space import PassSpace, localise, to_plan, to_recipe
from planish.tune.safety import culprits, elements, without
from planish.tune.winners import cover

PLANS = [Plan((name,)) for name in "abcde"]
RATIOS = st.lists(
    st.dictionaries(st.sampled_from(PLANS), st.floats(0.5, 1.5)), min_size=1, max_size=8
)


@given(RATIOS, st.integers(0, 5))
def test_each_chosen_plan_adds_the_most_and_gains_fall(
    ratios: list[dict[Plan, float]], count: int
) -> None:
    chosen = cover(ratios, PLANS, count)
    gains = [gain for _, gain in chosen]
    assert len(chosen) <= count
    assert gains == sorted(gains, reverse=True)
    assert all(gain > 0 for gain in gains)
    best = [min([1.0, *(row.get(plan, 1.0) for plan, _ in chosen)]) for row in ratios]
    assert abs(sum(gains) - sum(1 - b for b in best) / len(ratios)) < 1e-9


def test_suffixes_are_chosen_for_what_they_add_to_single_functions() -> None:
    rows = [
        {"": {"f": 0.5, "g": 0.5}, "x": {"f": 0.3, "g": 0.9}, "y": {"f": 0.4, "g": 0.45}, "z": {}}
    ]
    chosen = cover_parts(rows, ["z", "y", "x"], 3)
    assert [suffix for suffix, _ in chosen] == ["x", "y"]


def test_plans_and_recipes_turn_into_each_other() -> None:
    recipe = Recipe(("default<Oz>", "@no-minsize"), ("-a", "-b=1"), (("f", "sroa"),))
    assert to_recipe(to_plan(recipe)) == recipe


def test_an_option_stands_once_and_unknown_actions_are_illegal() -> None:
    space = PassSpace(Plan(("default<O2>",)), ["sroa"], ["-r=a", "-r=b"])
    assert space.legal(("sroa", "default<O2>", "-r=a"))
    assert not space.legal(("-r=a", "-r=b"))
    assert not space.legal(("dce",))


def test_a_level_that_is_missing_means_the_baselines() -> None:
    with_oz = PassSpace(Plan(("default<Oz>",)), [], [])
    without_oz = PassSpace(Plan(("default<O2>",)), ["sroa"], [])
    plan = Plan(("sroa", "default<Oz>"))
    assert localise(plan, with_oz) == plan
    assert localise(plan, without_oz) == Plan(("sroa", "default<O2>"))


def test_shipped_coresets_load_and_say_where_they_come_from() -> None:
    for architecture in ("X86", "AArch64"):
        coreset = load_coreset(architecture, "size")
        assert len(coreset.plans) >= 5
        assert len(coreset.moves) >= 8
        assert len(coreset.suffixes) >= 8
        assert coreset.source["projects"]
        assert not set(map(str, map(to_recipe, coreset.plans))) & set(coreset.expelled)
    assert load_coreset("X86", "instructions").plans


@given(st.sets(st.integers(0, 7), max_size=3))
def test_culprits_are_found_by_bisection(bad: set[int]) -> None:
    recipe = Recipe(tuple("abcde"), ("-f", "-g"), (("h", "sroa"),))
    names = elements(recipe)
    guilty = {names[at] for at in bad}

    def passes(part: Recipe) -> bool:
        return not guilty & set(elements(part))

    found, tried = culprits(recipe, passes)
    assert set(found) == guilty
    assert passes(without(recipe, found))
    assert tried <= 2 + 5 * (len(guilty) + 1)
