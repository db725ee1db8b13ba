"""A tiny random model of `transformers`, end to end: spelled, asked, decoded, built."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from support import tiny_llm

from planish.base.errors import PlanishError, UsageError
from planish.base.records import Budget
from planish.model.llm_local import LocalModel, _prompt, pass_lists
from planish.model.llm_prompt import OPENING, compiler_prompt
from planish.model.llm_worker import Model, Next, Spell
from planish.search.protocol import Plan
from planish.tune.pass_space import PassSpace
from planish.tune.passes import optimise
from planish.tune.session import Options, Session
from planish.tune.source import Request

pytest.importorskip("torch")
pytest.importorskip("transformers")

SPACE = PassSpace(
    Plan(("default<Oz>",)), ["function(sroa)", "function(simplifycfg)", "globaldce"], []
)
PROMPT = compiler_prompt("define i32 @f() { ret i32 1 }", "size") + OPENING


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_llm.make(tmp_path_factory.mktemp("tiny"))


@pytest.mark.parametrize("spaces", [False, True])
def test_texts_are_spelled_as_in_the_middle_of_a_line(tmp_path: Path, spaces: bool) -> None:
    from transformers import AutoTokenizer

    source = str(tiny_llm.make(tmp_path, spaces=spaces))
    texts = ("module(default<Oz>),", "function(sroa)'", "cgscc(inline<only-mandatory>)'")
    tokenizer = AutoTokenizer.from_pretrained(source)
    for text, tokens in zip(texts, Model(source)(Spell(texts), {}), strict=True):
        assert tokenizer.decode(tokens, clean_up_tokenization_spaces=False).strip() == text


def test_what_is_kept_of_earlier_questions_changes_no_answer(folder: Path) -> None:
    kept = Model(str(folder))
    wanted = tuple(range(40))
    prompts = {"p": PROMPT.encode()}
    for tokens in [(), (5,), (5, 6), (5, 6, 7, 8), (5, 9), (), (5, 6, 7), (10, 11)]:
        answer = kept(Next("p", tokens, wanted), prompts)
        alone = Model(str(folder))(Next("p", tokens, wanted), {"p": PROMPT.encode()})
        np.testing.assert_allclose(answer, alone, rtol=1e-4, atol=1e-5)
        prompts = {}


def test_a_session_builds_the_lists_of_the_model(folder: Path, tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int f(int a) { return a * 3; }\n", encoding="utf-8")
    options = Options(
        policy="llm", llm_model=str(folder), budget=Budget(builds=6), functions=False,
        goal="instructions",
    )  # fmt: skip
    with Session(jobs=2) as session:
        first, again = (optimise(session, source, Request(), options) for _ in range(2))
        model = session.keep(f"llm {folder}", lambda: LocalModel("a second one"))
        plans = list(islice(pass_lists(model, "define i32 @f()", "size", SPACE), 6))
    assert (first.recipe, first.ledger.curve) == (again.recipe, again.ledger.curve)
    assert first.best <= first.baseline
    assert first.ledger.builds == 6
    assert len(set(plans)) == 6
    assert all(plan.actions and SPACE.legal(plan.actions) for plan in plans)


def test_a_module_that_does_not_fit_goes_without_metadata_or_is_told() -> None:
    class Small:
        """Counts characters, and takes 600."""

        def measure(self, prompt: str) -> tuple[int, int]:
            return len(prompt), 600

    text = "define i32 @f() {\n  ret i32 1, !tbaa !5\n}\n" + "!5 = !{!6}\n" * 20
    asked = _prompt(Small(), text, "size")  # type: ignore[arg-type]
    assert "ret i32 1\n" in asked and "!5" not in asked
    assert "!5" in _prompt(Small(), text[:80], "size")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"is \d+ tokens long, and the language model takes 600"):
        _prompt(Small(), "x" * 600, "size")  # type: ignore[arg-type]


def test_what_is_no_model_is_one_line(tmp_path: Path) -> None:
    with (
        LocalModel(str(tmp_path)) as model,
        pytest.raises(PlanishError, match=r"cannot be used: .*--llm-model names a folder") as told,
    ):
        model.spell(("x",))
    assert "\n" not in str(told.value)


def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(PlanishError, match=r"needs torch.*planish\[llm\]"):
        LocalModel("x")


def test_options_belong_together() -> None:
    for given in ({"policy": "llm"}, {"llm_model": "x"}, {"llm_url": "http://x"}):
        with pytest.raises(UsageError, match="needs a model"):
            Options(**given)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no URL"):
        Options(policy="llm", llm_url="localhost:8080")
