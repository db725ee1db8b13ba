"""Rules over traces: each finds its pattern on a trace made to have it, and only there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.traces import Builder, training

import planish
from planish.advise.advice import Advice, Confidence, ranked
from planish.advise.advise import advise_path
from planish.advise.rules import advise_trace
from planish.cli.main import main
from planish.trace.trace import Trace

DEVICE = {"deviceProperties": [{"id": 0, "name": "X", "numSms": 100}]}


def rules(trace: Trace) -> dict[str, Advice]:
    return {advice.rule: advice for advice in advise_trace(trace)}


def back_to_back(gap: float, length: float, count: int = 50, **args: object) -> Builder:
    """Kernels launched well ahead, `gap` apart."""
    made = Builder(head=dict(DEVICE))
    for i in range(count):
        made.call("cudaLaunchKernel", i * 0.5, 0.4, i + 1)
        made.kernel(f"k{i % 2}", 100 + i * (gap + length), length, i + 1, **args)
    return made


def test_launch_bound(tmp_path: Path) -> None:
    found = rules(back_to_back(5, 20).trace(tmp_path))
    assert found["launch-bound"].saved == 49 * 5000
    assert found["launch-bound"].speedup == pytest.approx(1245 / 1000)
    assert "launch-bound" not in rules(back_to_back(0, 20).trace(tmp_path))


def test_small_kernels(tmp_path: Path) -> None:
    assert "small-kernels" in rules(back_to_back(1, 3).trace(tmp_path))
    assert "small-kernels" not in rules(back_to_back(1, 30).trace(tmp_path))


def test_few_blocks_and_low_occupancy(tmp_path: Path) -> None:
    few = rules(back_to_back(0, 50, grid=[10, 1, 1]).trace(tmp_path))
    assert few["few-blocks"].saved == pytest.approx(25 * 50_000 * 0.9)
    low = {"grid": [1000, 1, 1], "registers per thread": 255, "est. achieved occupancy %": 12}
    found = rules(back_to_back(0, 50, **low).trace(tmp_path))
    assert "registers" in found["low-occupancy"].title
    assert "few-blocks" not in found


def test_synchronisation_is_replayed(tmp_path: Path) -> None:
    made = Builder()
    for i in range(5):
        base = 300 * i
        made.call("cudaLaunchKernel", base, 10, i + 1)
        made.kernel("a", base + 10, 100, i + 1)
        made.call("cudaStreamSynchronize", base + 10, 101, 100 + i)
        made.host("prepare", base + 111, 180)
    advice = rules(made.trace(tmp_path))["redundant-synchronisation"]
    assert advice.where == "cudaStreamSynchronize"
    assert advice.confidence is Confidence.HIGH
    assert advice.saved == 5 * 101_000 - 100_000  # the last kernel stays in view
    assert len(advice.evidence) == 3


def test_host_and_exposed_work(tmp_path: Path) -> None:
    found = rules(training().trace(tmp_path))
    assert found["host-bound"].where.endswith("data loading")
    assert "load data" in found["host-bound"].title
    assert found["exposed-communication"].saved > 0


def test_pageable_copies(tmp_path: Path) -> None:
    made = Builder()
    for i in range(4):
        kind = "Pageable" if i % 2 else "Pinned"
        made.call("cudaMemcpyAsync", 100 * i, 1, i + 1)
        made.kernel(f"Memcpy HtoD ({kind} -> Device)", 100 * i + 2, 40 if i % 2 else 10, i + 1,
                    cat="gpu_memcpy", bytes=100_000)  # fmt: skip
    advice = rules(made.trace(tmp_path))["pageable-copies"]
    assert advice.saved == pytest.approx(2 * 30_000)


def test_repeated_operations(tmp_path: Path) -> None:
    made = Builder()
    for i in range(40):
        made.host("aten::add_", 10 * i, 9, **{"Input Dims": [[8], [8]]})
        made.call("cudaLaunchKernel", 10 * i + 1, 2, i + 1)
        made.kernel("add", 10 * i + 4, 3, i + 1)
    assert rules(made.trace(tmp_path))["repeated-operations"].where == "aten::add_"


def test_ranks(tmp_path: Path) -> None:
    for rank in range(3):
        made = Builder(head={"distributedInfo": {"rank": rank}})
        made.kernel("gemm", 0, 100 if rank != 2 else 200, 1).write(tmp_path / f"r{rank}.json")
    first = advise_path(tmp_path)[0]
    assert (first.rule, first.where) == ("unbalanced-ranks", "rank 2")


def test_small_gains_are_left_out_and_the_rest_is_ranked() -> None:
    def advice(saved: float) -> Advice:
        return Advice("r", "t", "w", "d", saved, 1000, Confidence.LOW, "s")

    assert [a.saved for a in ranked(map(advice, (1, 100, 10, 300)))] == [300, 100, 10]
    assert advice(500).speedup == 2.0


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = training().write(tmp_path / "t.json")
    main(["advise", str(path)])
    assert "data loading" in capsys.readouterr().out
    main(["advise", str(path), "--json", "--top", "2"])
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 2
    assert rows[0]["speedup"] >= rows[1]["speedup"] >= 1
    assert {"rule", "title", "where", "detail", "confidence", "evidence", "source"} <= set(rows[0])


def test_the_face(tmp_path: Path) -> None:
    trace = planish.read_trace(training().write(tmp_path / "t.json"))
    assert trace.advise() == advise_trace(trace)
    assert trace.idle().total == sum(row.own for row in trace.blame())
    assert trace.kernels()[0].name in trace.strings
    assert len(trace.events.start) == len(trace.events)
