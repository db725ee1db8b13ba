"""The chat policy against a stub server on loopback: feedback, wrong answers, slow ones, errors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.llm_stub import Stub, serve

from planish.base.config import LlmConfig, read_llm_config
from planish.base.errors import PlanishError, UsageError
from planish.base.records import Budget, Failure, Measurement, Outcome
from planish.llvm.recipe import Recipe
from planish.model import llm_server
from planish.model.llm_prompt import Question
from planish.model.llm_server import ChatPolicy, Server
from planish.search.loop import run
from planish.search.protocol import Plan
from planish.tune.llm import checked
from planish.tune.pass_space import PassSpace, to_plan

SPACE = PassSpace(Plan(("default<Oz>",)), ["globaldce", "function(sroa)"], ["-disable-lsr"])
QUESTION = Question(
    "define void @f()", "size", "22.1.8", "default<Oz>", 10, ["globaldce"], ["-disable-lsr"]
)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stub]:
    monkeypatch.setattr(llm_server, "_WAIT_SECONDS", 0.0)
    with serve() as stub:
        yield stub


def ask(stub: Stub, key: str = "", seconds: float = 20.0) -> str:
    return Server(stub.url, "m", LlmConfig(key, seconds)).ask([{"role": "user", "content": "?"}])


def search(stub: Stub, builds: int) -> tuple[list[Plan], list[Outcome]]:
    """Run the policy; a plan's value is 10 less one for each action."""
    seen: list[tuple[Plan, Outcome]] = []

    def evaluate(plans: Any) -> list[Outcome]:
        assert all(SPACE.legal(plan.actions) for plan in plans)
        return [Outcome("", Measurement(10.0 - len(p.actions), "bytes")) for p in plans]

    def plan(item: Recipe | str) -> Plan:
        return Plan((item,)) if isinstance(item, str) else to_plan(item)

    policy = ChatPolicy(Server(stub.url, "m", LlmConfig("", 20.0)).ask, QUESTION, plan)
    run(
        SPACE, policy, checked(SPACE, evaluate), Budget(builds=builds),
        baseline=Outcome("", Measurement(10.0, "bytes")),
        watch=lambda plan, outcome, best: seen.append((plan, outcome)),
    )  # fmt: skip
    return [plan for plan, _ in seen], [outcome for _, outcome in seen]


def test_outcomes_are_fed_back_round_by_round(stub: Stub) -> None:
    answers = {1: "passes: globaldce\npasses: nonsense", 2: "passes: globaldce,function(sroa)"}
    stub.answer = lambda body, number: (200, answers.get(number, "passes: globaldce"))
    plans, outcomes = search(stub, 32)
    assert [plan.actions for plan in plans] == [
        ("globaldce",), ("nonsense",), ("globaldce", "function(sroa)"),
    ]  # fmt: skip
    assert [outcome.failure for outcome in outcomes] == [None, Failure.INVALID, None]
    second = stub.bodies[1]["messages"]
    assert [message["role"] for message in second] == ["system", "user", "assistant", "user"]
    assert "passes: globaldce\n=> 9" in second[-1]["content"]
    assert "invalid: 'nonsense' is none of the elements" in second[-1]["content"]
    assert "=> 8" in stub.bodies[2]["messages"][-1]["content"]
    # Three rounds that bring nothing new, and the policy is done.
    assert len(stub.bodies) == 2 + 3
    assert stub.bodies[0]["temperature"] == 0 and stub.bodies[0]["model"] == "m"


def test_nonsense_is_an_outcome(stub: Stub) -> None:
    said = [
        "I cannot do that.",
        "passes: ((((",
        "passes: globaldce\noptions: -disable-lsr -disable-lsr",
    ]
    stub.answer = lambda body, number: (200, said[min(number, 3) - 1])
    _, outcomes = search(stub, 32)
    assert len(outcomes) == 3
    assert all(outcome.failure is Failure.INVALID for outcome in outcomes)


def test_empty_answers_end_the_search(stub: Stub) -> None:
    stub.answer = lambda body, number: (200, {"choices": [{"message": {"content": None}}]})
    assert search(stub, 32) == ([], [])
    assert len(stub.bodies) == 3


def test_long_chats_keep_the_task_and_the_last_rounds(stub: Stub) -> None:
    stub.answer = lambda body, number: (200, "passes: " + ",".join(["globaldce"] * number))
    plans, _ = search(stub, 20)
    assert len(plans) == 20
    last = [message["role"] for message in stub.bodies[-1]["messages"]]
    assert last[:3] == ["system", "user", "assistant"] and last[-1] == "user"
    assert len(last) == 2 + 12
    assert all(left != right for left, right in itertools.pairwise(last))


@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_busy_server_is_asked_again(stub: Stub, status: int) -> None:
    stub.answer = lambda body, number: (status, "busy") if number < 3 else (200, "passes: x")
    assert ask(stub) == "passes: x"
    stub.answer = lambda body, number: (status, {"error": {"message": "out\nof order"}})
    with pytest.raises(PlanishError, match=f"answers {status} .*: out of order"):
        ask(stub)
    assert len(stub.bodies) == 6


@pytest.mark.parametrize(
    ("status", "said", "words"),
    [
        (401, {"error": {"message": "no key"}}, "401.*no key.*PLANISH_LLM_KEY"),
        (404, "nothing here", "404.*/v1"),
        (400, {"error": {"message": "too long"}}, "400.*too long"),
        (302, "moved", "302"),
        (200, b"<html>", "does not answer as an OpenAI"),
        (200, {"choices": []}, "does not answer as an OpenAI"),
        (200, [1], "does not answer as an OpenAI"),
    ],
)
def test_errors_are_one_line(stub: Stub, status: int, said: Any, words: str) -> None:
    stub.answer = lambda body, number: (status, said)
    with pytest.raises(PlanishError, match=words) as caught:
        ask(stub, key="secret")
    assert "\n" not in str(caught.value) and "secret" not in str(caught.value)
    assert len(stub.bodies) == 1


def test_parameters_that_a_server_refuses_are_left_out(stub: Stub) -> None:
    def answer(body: dict[str, Any], number: int) -> tuple[int, Any]:
        for name in ("temperature", "max_tokens"):
            if name in body:
                return 400, {"error": {"message": f"Unsupported parameter: '{name}'"}}
        return 200, "passes: globaldce"

    stub.answer = answer
    assert ask(stub) == "passes: globaldce"
    assert "seed" in stub.bodies[-1]


def test_the_key_is_sent_as_a_bearer(stub: Stub) -> None:
    ask(stub, key="k")
    ask(stub)
    assert stub.headers[0]["Authorization"] == "Bearer k"
    assert "Authorization" not in stub.headers[1]


def test_slow_answers_are_waited_for_and_too_slow_ones_are_told(stub: Stub) -> None:
    def slow(body: dict[str, Any], number: int) -> tuple[int, Any]:
        time.sleep(0.3)
        return 200, "passes: globaldce"

    stub.answer = slow
    assert ask(stub, seconds=30.0) == "passes: globaldce"
    with pytest.raises(PlanishError, match=r"did not answer within 0.05 s.*PLANISH_LLM_SECONDS"):
        ask(stub, seconds=0.05)


def test_a_server_that_is_not_there_is_one_line() -> None:
    server = Server("http://127.0.0.1:9/v1", "m", LlmConfig("", 5.0))
    with pytest.raises(PlanishError, match="cannot reach the language model at http") as caught:
        server.ask([])
    assert "\n" not in str(caught.value)


def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PLANISH_LLM_SECONDS", "7")
    assert read_llm_config().seconds == 7
    for text in ("soon", "-1", "inf", "nan"):
        monkeypatch.setenv("PLANISH_LLM_SECONDS", text)
        with pytest.raises(UsageError, match="is no time"):
            read_llm_config()
