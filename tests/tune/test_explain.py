from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from planish.base.records import Measurement, Outcome
from planish.llvm.recipe import Recipe
from planish.search.protocol import Plan
from planish.tune.explain import explain
from planish.tune.safety import elements

NAMES = "abcde"
WHOLE = Recipe(tuple("abc"), ("-d", "-e"), (("f", "sroa"),))


@given(
    st.dictionaries(st.sampled_from("abc"), st.integers(-5, 5)),
    st.dictionaries(st.tuples(st.sampled_from("abc"), st.sampled_from(["-d", "-e"])),
                    st.integers(-5, 5)),
)  # fmt: skip
def test_no_single_element_can_be_spared(
    single: dict[str, int], pairs: dict[tuple[str, str], int]
) -> None:
    """Elements earn bytes alone and in pairs, so that taking out one makes another useless."""

    def evaluate(plans: Sequence[Plan]) -> Sequence[Outcome]:
        outcomes = []
        for plan in plans:
            used = {*plan.actions, *(suffix for _, suffix in plan.parts)}
            value = 100 - sum(gain for name, gain in single.items() if name in used)
            value -= sum(gain for pair, gain in pairs.items() if used.issuperset(pair))
            outcomes.append(Outcome("", Measurement(value, "bytes")))
        return outcomes

    whole = evaluate([Plan((*WHOLE.passes, *WHOLE.options), WHOLE.functions)])[0].value
    recipe, shares = explain(WHOLE, evaluate)
    left = evaluate([Plan((*recipe.passes, *recipe.options), recipe.functions)])[0].value
    assert left <= whole
    assert set(elements(recipe)) <= set(elements(WHOLE))
    assert all(share.gain > 0 for share in shares)
    assert [s.gain for s in shares] == sorted((s.gain for s in shares), reverse=True)
