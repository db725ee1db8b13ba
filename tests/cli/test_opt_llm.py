"""`planish opt --policy llm` with a server: what is kept, what is fed back, and mistakes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.llm_stub import serve

from planish.cli.main import main

LZSS = Path(__file__).parents[2] / "examples" / "lzss.c"
QUICK = ("--no-store", "--no-functions", "--jobs", "2")


def run(*words: str) -> int:
    try:
        main(("opt", str(LZSS), *QUICK, *words))
    except SystemExit as error:
        return int(error.code or 0)
    return 0


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_recipes_are_built_wrong_ones_counted_and_the_best_replays(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = {
        1: "```\npasses: default<Oz>\noptions: -disable-lsr\n```\npasses: nonsense",
        2: "passes: default<Oz>\noptions: -disable-lsr -regalloc=basic\nI hope this helps!",
    }

    def answer(body: dict[str, Any], number: int) -> tuple[int, Any]:
        return 200, answers.get(number, "There is nothing left to try.")

    with serve() as stub:
        stub.answer = answer
        words = ("--policy", "llm", "--llm-url", stub.url, "--budget", "8", "--json")
        assert run(*words) == 0
    [result] = json.loads(capsys.readouterr().out)["results"]
    assert result["best"] < result["baseline"]
    assert result["ledger"]["failures"] == {"invalid": 2}
    assert "define" in stub.bodies[0]["messages"][1]["content"]
    said = stub.bodies[1]["messages"][-1]["content"]
    assert "-disable-lsr\n=> " in said and "'nonsense' is none of the elements" in said
    assert run("--replay") == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--policy", "llm"), "needs a model"),
        (("--llm-url", "http://127.0.0.1:9"), "needs a model"),
        (("--policy", "llm", "--llm-url", "127.0.0.1:9"), "no URL"),
        (("--policy", "llm", "--llm-url", "http://127.0.0.1:9/v1"), "cannot reach"),
    ],
)
def test_mistakes_are_one_line(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    assert run(*words) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1
    assert not Path("lzss.o").exists()
