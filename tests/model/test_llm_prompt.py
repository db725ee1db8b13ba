"""Answers of language models are read whatever stands around the recipes, and never raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.llvm.recipe import Recipe
from planish.model.llm_prompt import (
    Question,
    chat_again,
    chat_start,
    compiler_prompt,
    normalised,
    read_answer,
    spelled,
)

ONE = Recipe(("function(sroa)", "default<Oz>"))
TWO = Recipe(("default<Oz>", "globaldce"), ("-disable-lsr", "-regalloc=basic"))


@pytest.mark.parametrize(
    "answer",
    [
        f"{ONE}\n\n{TWO}",
        f"Sure! Here you are:\n```\n{ONE}\n{TWO}\n```\nGood luck.",
        f"1. `passes: {ONE.pipeline}`\n2. **passes: {TWO.pipeline}**\n   options: -disable-lsr "
        "-regalloc=basic",
        f"<think>passes: nonsense((</think>\n- passes: {ONE.pipeline}\n- passes: {TWO.pipeline}\n"
        "  - options: -disable-lsr -regalloc=basic",
        f"PASSES = {ONE.pipeline}\noptions: (none)\nPasses: {TWO.pipeline}\nOptions: -disable-lsr "
        "-regalloc=basic",
        f"opt -passes='{ONE.pipeline}' a.bc\nopt -p \"{TWO.pipeline}\" a.bc\n"
        "options: -disable-lsr -regalloc=basic",
    ],
)
def test_recipes_are_found_in_whatever_dress(answer: str) -> None:
    assert read_answer(answer) == [ONE, TWO]


def test_what_cannot_be_read_is_given_back() -> None:
    assert read_answer("I am sorry, I cannot help.") == ["I am sorry, I cannot help."]
    assert read_answer("passes: function(sroa") == ["passes: function(sroa"]
    assert read_answer("passes: sroa\noptions: rm -rf /") == ["options: rm -rf /"]
    assert read_answer(" \n") == []


@given(
    st.text() | st.lists(st.sampled_from(["passes: ", "options: ", "-p '", "a(", ")", "\n", ","]))
)
def test_no_answer_raises(answer: str | list[str]) -> None:
    text = answer if isinstance(answer, str) else "".join(answer)
    for item in read_answer(text):
        assert isinstance(item, Recipe | str)


@given(st.lists(st.sampled_from(["default<Oz>", "function(sroa)", "globaldce"]), min_size=1))
def test_every_recipe_of_ours_is_read_back(passes: list[str]) -> None:
    recipe = Recipe(tuple(passes), ("-disable-lsr",))
    assert read_answer(str(recipe)) == [recipe]


def test_comments_and_metadata_are_left_out_and_nothing_else() -> None:
    text = (
        '; ModuleID = "a"\n@s = constant [3 x i8] c"a;b !x !1"\n\n\n\ndefine void @f() !dbg !4 {\n'
        "1:      ; preds = %0\n  store i32 1, ptr %p, align 4, !tbaa !5, !noalias !6\n"
        "  br label %1, !llvm.loop !7\n}\nattributes #0 = { minsize }\n!5 = !{!6, i64 0} ; x\n"
    )
    assert normalised(text) == (
        '@s = constant [3 x i8] c"a;b !x !1"\n\ndefine void @f() {\n'
        "1:\n  store i32 1, ptr %p, align 4\n  br label %1\n}\nattributes #0 = { minsize }\n"
    )


def test_prompts_hold_what_they_must() -> None:
    assert compiler_prompt("define", "size") == (
        "[INST] Tell me how to optimize this LLVM-IR for object file size:\n\n"
        "<code>define</code> [/INST]"
    )
    assert spelled("default<Oz>") == "module(default<Oz>)"
    assert spelled("function(sroa)") == "function(sroa)"
    assert spelled("@no-minsize") is None
    assert spelled("-disable-lsr") is None
    question = Question("x" * 300_000, "size", "22", "default<Oz>", 10, ["p1"], ["-o1"])
    system, task = chat_start(question, 4)
    assert "p1" in system["content"] and "-o1" in system["content"]
    assert "cut here: 100001 more characters" in task["content"]
    assert "=> 9" in chat_again(question, 4, ["passes: p1\n=> 9"])["content"]
