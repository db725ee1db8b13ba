from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import RecipeError
from planish.llvm.recipe import Recipe, check_options, split_pipeline

TEXT = """\
passes: function(sroa),default<Oz>,cgscc(inline<only-mandatory>,function(newgvn,adce))
options: -disable-lsr -regalloc=basic
function "a b\\u2028\\udc80": simplifycfg
function main: instcombine<no-verify-fixpoint;max-iterations=1>,loop-mssa(licm)"""

_NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}(<[a-z0-9;=-]{1,8}>)?", fullmatch=True)
_PASSES = st.recursive(
    _NAMES,
    lambda inner: st.builds(
        lambda name, parts: f"{name}({','.join(parts)})",
        st.sampled_from(["function", "cgscc", "loop", "loop-mssa", "module"]),
        st.lists(inner, min_size=1, max_size=3),
    ),
    max_leaves=4,
)
_OPTIONS = st.lists(
    st.from_regex(r"-[a-z][a-zA-Z0-9._-]{0,8}(=[A-Za-z0-9_.+-]{0,6})?", fullmatch=True),
    max_size=4,
    unique_by=lambda option: option.partition("=")[0],
)
_FUNCTIONS = st.dictionaries(
    st.text(alphabet=st.characters(), min_size=1, max_size=8),  # surrogates too
    st.lists(_PASSES, min_size=1, max_size=3).map(",".join),
    max_size=4,
)
_RECIPES = st.builds(
    lambda passes, options, functions: Recipe(tuple(passes), tuple(options)).with_functions(
        functions
    ),
    st.lists(_PASSES, max_size=5),
    _OPTIONS,
    _FUNCTIONS,
)


@given(_RECIPES)
def test_a_recipes_text_parses_back(recipe: Recipe) -> None:
    text = str(recipe)
    assert Recipe.parse(text) == recipe
    assert str(Recipe.parse(text)) == text
    assert hash(Recipe.parse(text)) == hash(recipe)


@given(st.text(max_size=40))
def test_no_text_raises_anything_else(text: str) -> None:
    for prefix in ("", "passes: ", "options: ", "function ", 'function "', "function f: "):
        try:
            recipe = Recipe.parse(prefix + text)
        except RecipeError as error:
            assert str(error)
        else:
            assert Recipe.parse(str(recipe)) == recipe


def test_the_text_form() -> None:
    recipe = Recipe.parse(TEXT)
    assert str(recipe) == TEXT
    assert recipe.passes == (
        "function(sroa)",
        "default<Oz>",
        "cgscc(inline<only-mandatory>,function(newgvn,adce))",
    )
    assert recipe.pipeline == ",".join(recipe.passes)
    assert recipe.options == ("-disable-lsr", "-regalloc=basic")
    assert recipe.functions[0] == ("a b\u2028\udc80", "simplifycfg")


def test_the_empty_text_does_nothing() -> None:
    assert Recipe.parse("") == Recipe() == Recipe.parse("\n  \n")
    assert str(Recipe()) == ""


def test_functions_are_sorted_and_empty_suffixes_left_out() -> None:
    recipe = Recipe(("sroa",)).with_functions({"b": "adce", "a": "dce", "c": ""})
    assert recipe.functions == (("a", "dce"), ("b", "adce"))
    assert recipe.with_functions({}) == Recipe(("sroa",))


def test_spaces_between_passes_do_not_count() -> None:
    assert split_pipeline(" a , b<c, d> ") == ("a", "b<c, d>")
    assert split_pipeline("") == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sroa", "cannot read the recipe line 'sroa'"),
        ("passes: function(sroa", "missing ')'"),
        ("passes: function(sroa>)", "missing ')'"),
        ("passes: sroa)", "unexpected ')'"),
        ("passes: sroa,,dce", "a pass name is missing"),
        ("options: disable-lsr", "'disable-lsr' is no code generator option"),
        ("options: -a -b=1 -a=2", "the option -a stands twice"),
        ("options: -a;b", "'-a;b' is no"),
        ("function main sroa", "cannot read"),
        ("function : sroa", "cannot read"),
        ('function "main: sroa', "cannot read"),
        ('function "": sroa', "cannot read"),
        ("function main: sroa)", "unexpected"),
    ],
)
def test_what_does_not_parse_is_named(text: str, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Recipe.parse(f"passes: dce\n{text}" if not text.startswith("passes") else text)
    assert words in str(caught.value)


def test_options_are_checked_one_by_one() -> None:
    assert check_options(["-a", "-b=x.y+1", "-c="]) == ("-a", "-b=x.y+1", "-c=")
    assert check_options([]) == ()
