"""Run time as goal and bound, with a meter that reads the time off the program's bytes."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from planish.base.errors import PlanishError
from planish.build import timing
from planish.cli.main import main
from planish.measure.sizes import measure_object
from planish.measure.timer import Timed, compare
from planish.store import lockfile

_TIME = ["tune", "--goal", "time", "--run", "$PROGRAM", "--json"]
_BOUND = ["tune", "--budget", "6", "--run", "$PROGRAM", "--json"]


def _timed(ratio: float, noise: float) -> Timed:
    return Timed("it", (ratio,), ratio, ratio, ratio - noise, ratio + noise)


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Callable[[float, float], list[float]]:
    """The less code a program has, the faster it is called: its ratio is that of the text's sizes.

    What comes back are the seconds of all comparisons.
    """

    def make(noise: float, factor: float) -> list[float]:
        asked: list[float] = []

        def time_programs(
            programs: Mapping[str, Path], command: str, seconds: float, seed: int = 0
        ) -> dict[str, Timed]:
            asked.append(seconds)
            sizes = [measure_object(p.read_bytes()).sections[".text"] for p in programs.values()]
            name = list(programs)[1]
            return {name: _timed(factor * sizes[1] / sizes[0], noise)}

        monkeypatch.setattr(timing, "time_programs", time_programs)
        return asked

    return make


def test_the_fastest_candidate_is_kept_when_it_wins_again(
    program: Path,
    meter: Callable[[float, float], list[float]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    asked = meter(0.001, 0.01)
    main(_TIME)
    told = json.loads(capfd.readouterr().out)
    ratios = {each["recipe"]: each["ratio"][0] for each in told["tried"]}
    assert len(ratios) > 3 and ratios[told["recipe"]] == min(ratios.values())
    assert len(asked) == len(told["tried"]) + 1 and asked[-1] > asked[0], "a fresh, longer one"
    entries = lockfile.load(program / "planish.lock").entries
    assert {e.source for e in entries} == {"start.c", "work.c"}
    assert {e.recipe for e in entries} == {told["recipe"]}
    assert all(e.extra["time"].startswith(f"{told['ratio'][0]:.3f}") for e in entries)


def test_a_gain_inside_the_noise_is_none(
    program: Path,
    meter: Callable[[float, float], list[float]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    meter(1000.0, 0.01)
    with pytest.raises(SystemExit) as caught:
        main(_TIME)
    assert caught.value.code == 2
    told = json.loads(capfd.readouterr().out)
    assert "inside the noise" in told["problem"] and told["ratio"] is None
    assert not (program / "planish.lock").exists()


@pytest.mark.parametrize(("factor", "kept"), [(1.0, True), (100.0, False)])
def test_size_is_kept_within_the_slowdown_that_was_allowed(
    factor: float,
    kept: bool,
    program: Path,
    meter: Callable[[float, float], list[float]],
    capfd: pytest.CaptureFixture[str],
) -> None:
    meter(0.01, factor)
    words = [*_BOUND, "--max-slowdown", "2%"]
    if kept:
        main(words)
    else:
        with pytest.raises(SystemExit):
            main(words)
    told = json.loads(capfd.readouterr().out)
    assert (told["after"] < told["before"]) == kept
    lock = program / "planish.lock"
    entries = lockfile.load(lock).entries if lock.exists() else ()
    assert bool(entries) == kept


def test_a_run_command_that_fails_is_one_line(
    program: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["tune", "--goal", "time", "--run", "false"])
    assert caught.value.code == 2
    assert "the run command fails (exit code 1)" in capfd.readouterr().err
    with pytest.raises(PlanishError, match="cannot read the slowdown"):
        from planish.cli.tune_run import read_slowdown

        read_slowdown("much")


def test_programs_are_run_in_turn_after_a_warm_up() -> None:
    calls: list[str] = []
    rows = compare(
        {"own": lambda: calls.append("own"), "it": lambda: calls.append("it")}, seconds=0
    )
    assert calls[:2] == ["own", "it"], "the warm-up"
    rounds = [set(calls[at : at + 2]) for at in range(2, len(calls), 2)]
    assert len(rounds) >= 5 and all(pair == {"own", "it"} for pair in rounds)
    # One round more warms up, and rounds in which the processor was lost do not count.
    assert 5 <= len(rows["it"].samples) <= len(rounds)
