from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import RecipeError
from planish.llvm.pipeline import Pass, Pipeline, split_pipeline

NAMES = st.from_regex(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", fullmatch=True)
PARAMETERS = st.one_of(
    st.none(), st.from_regex(r"[a-z0-9]+(;[a-z0-9\-]+(=[0-9]+)?)*(<[a-z]+>)?", fullmatch=True)
)
ATTRIBUTES = st.from_regex(r"@[a-z]+(-[a-z]+)*=[a-z0-9\-]+", fullmatch=True).map(Pass)
PASSES = st.recursive(
    st.builds(Pass, NAMES, PARAMETERS) | ATTRIBUTES,
    lambda inner: st.builds(
        Pass, NAMES, PARAMETERS, st.lists(inner, min_size=1, max_size=4).map(tuple)
    ),
    max_leaves=12,
)


@given(st.lists(PASSES, max_size=6).map(tuple).map(Pipeline))
def test_text_parses_back_to_an_equal_pipeline(pipeline: Pipeline) -> None:
    assert Pipeline.parse(str(pipeline)) == pipeline
    assert ",".join(split_pipeline(str(pipeline))) == str(pipeline)


def test_what_llvm_writes_is_understood() -> None:
    text = (
        "require<profile-summary>,cgscc(devirt<4>(inline,function-attrs<skip-non-recursive>,"
        "function<eager-inv;no-rerun>(sroa<modify-cfg>,loop-mssa(licm<allowspeculation>)))),"
        "default<Oz>,@frame-pointer=non-leaf,@no-minsize"
    )
    pipeline = Pipeline.parse(text)
    assert str(pipeline) == text
    assert len(pipeline.passes) == 5
    assert pipeline.passes[3].is_attribute
    assert {"inline", "sroa", "licm", "default", "@no-minsize"} <= set(pipeline.names())
    assert "function" not in pipeline.names()


def test_spaces_do_not_count() -> None:
    assert Pipeline.parse(" sroa , function( dce ) ") == Pipeline.parse("sroa,function(dce)")
    assert Pipeline.parse("  ") == Pipeline()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("function(sroa", "missing ')' at position 13"),
        ("gvn<pre", "missing '>'"),
        ("sroa,,dce", "a pass name is missing at position 5"),
        ("sroa)", "unexpected ')' at position 4"),
        ("sroa dce", "unexpected 'd' at position 5"),
        ("function()", "a pass name is missing"),
        ("a<b>>", "unexpected '>'"),
    ],
)
def test_errors_say_where(text: str, words: str) -> None:
    with pytest.raises(RecipeError) as caught:
        Pipeline.parse(text)
    assert words in caught.value.message
