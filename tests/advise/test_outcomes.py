"""Outcomes of advice are kept, and calibrated against their estimates."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.traces import Builder

from planish.advise.advice import Advice, Confidence
from planish.advise.outcomes import (
    AdviceOutcome,
    calibrate,
    chosen,
    keep_outcomes,
    measured_speedup,
    read_outcomes,
)
from planish.base.errors import UsageError
from planish.cli.main import main
from planish.store.store import Store


def advice(rule: str, saved: float) -> Advice:
    return Advice(rule, "do it", "there | here", "why", saved, 100.0, Confidence.LOW, "a source")


def test_kept_and_read_back(tmp_path: Path) -> None:
    with Store(tmp_path / "s.db") as store:
        kept = keep_outcomes(store, [advice("launch-bound", 50), advice("few-blocks", 20)], 1.4)
        assert sorted(read_outcomes(store), key=lambda o: o.rule) == sorted(
            kept, key=lambda o: o.rule
        )
    assert [o.estimate for o in kept] == [2.0, 1.25]
    assert kept[0].reached == pytest.approx(0.4)


def test_calibration() -> None:
    found = [AdviceOutcome("a", "x", "low", 2.0, measured, 0) for measured in (1.5, 1.7, 2.5)] + [
        AdviceOutcome("b", "y", "low", 1.2, 1.0, 0)
    ]
    first, second = calibrate(found)
    assert (first.rule, first.count, first.measured, first.overrun) == ("a", 3, 1.7, 1)
    assert first.reached == pytest.approx(0.7)
    assert (second.rule, second.reached) == ("b", 0.0)


def test_which_was_followed() -> None:
    found = [advice("a", 50), advice("b", 20)]
    assert [a.rule for a in chosen(found, ["2", "a"])] == ["b", "a"]
    for wrong in ("3", "0", "c"):
        with pytest.raises(UsageError):
            chosen(found, [wrong])


def slow(tmp_path: Path, name: str, gap: float) -> Path:
    """Two steps; each launches a kernel, waits `gap` for the host, and launches another."""
    made = Builder()
    link = 1
    for step in range(2):
        base = step * (gap + 300)
        made.host(f"ProfilerStep#{step}", base, gap + 250, cat="user_annotation")
        made.call("cudaLaunchKernel", base + 1, 5, link).kernel("a", base + 10, 100, link)
        made.host("prepare", base + 110, gap)
        made.call("cudaLaunchKernel", base + gap + 115, 5, link + 1)
        made.kernel("b", base + gap + 125, 100, link + 1)
        link += 2
    return made.write(tmp_path / name)


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path / "cache"))
    before, after = slow(tmp_path, "before.json", 500), slow(tmp_path, "after.json", 50)
    main(["advise", "--calibration"])
    assert "no outcome" in capsys.readouterr().out
    main(["advise", str(before), "--outcome", str(after), "--followed", "host-bound"])
    assert "2.50x measured" in capsys.readouterr().out  # steps of 750 and of 300 us
    main(["advise", "--calibration", "--json"])
    (row,) = json.loads(capsys.readouterr().out)["rules"]
    assert (row["rule"], row["count"], row["measured"]) == ("host-bound", 1, 2.5)
    main(["advise", "--calibration"])
    assert "host-bound" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["advise", str(before), "--outcome", str(after)])
    assert "go together" in capsys.readouterr().err


def test_spans_where_there_are_no_steps(tmp_path: Path) -> None:
    one = Builder().kernel("a", 0, 300, 1).trace(tmp_path)
    other = Builder().kernel("a", 0, 100, 1).trace(tmp_path)
    assert measured_speedup(one, other) == 3.0
