"""Samples: databases read whole, estimators by their formulas, stalls blamed on their source."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from support.hpctoolkit import write_database
from support.mutate import mutations

from planish.advise.advise import advise_path
from planish.advise.sources import join
from planish.advise.stalls import (
    elimination,
    hiding,
    kernels,
    occupancy_speedup,
    stall_table,
)
from planish.base.errors import PlanishError, TraceError, UsageError
from planish.cli.main import main
from planish.gpu.sass import parse_sass
from planish.trace.hpctoolkit import read_hpctoolkit
from planish.trace.samples import Place

METRICS = ["GCYCLES", "GCYCLES:ISU", "GCYCLES:STL", "GCYCLES:STL:GMEM", "GCYCLES:STL:PIPE"]
LISTING = Path(__file__).parents[1] / "data" / "saxpy.sass"
LOAD, OTHER_LOAD, USE, MULTIPLY = 10, 11, 14, 16  # indices in the listing


def sample(issued: float, **stalls: float) -> dict[str, float]:
    whole = sum(stalls.values())
    row = {"GCYCLES": issued + whole, "GCYCLES:ISU": issued, "GCYCLES:STL": whole}
    return {k: v for k, v in row.items() if v} | {f"GCYCLES:STL:{k}": v for k, v in stalls.items()}


VALUES = {
    10 + LOAD: sample(5),
    10 + USE: sample(10, GMEM=60),
    10 + MULTIPLY: sample(15, PIPE=10),
}


@pytest.fixture
def database(tmp_path: Path) -> Path:
    write_database(tmp_path / "db", VALUES, METRICS)
    return tmp_path / "db"


def test_the_database(database: Path) -> None:
    samples = read_hpctoolkit(database)
    assert samples.title == "synthetic"
    assert samples.total("GCYCLES") == 100
    (kernel,) = kernels(samples)
    assert (kernel.name, kernel.total, kernel.active) == ("saxpy(int)", 100, 30)
    assert stall_table(samples, kernel) == {"GMEM": 60, "PIPE": 10}
    loop = samples.enclosing(kernel.rows[0], Place.LOOP)
    assert samples.contexts[loop].label == "loop at saxpy.cu:7"


def test_both_orders_of_the_values_agree(database: Path) -> None:
    first = read_hpctoolkit(database / "meta.db")
    (database / "profile.db").unlink()
    second = read_hpctoolkit(database)
    assert first.values.keys() == second.values.keys()
    assert all((first.values[k] == second.values[k]).all() for k in first.values)


def test_estimators() -> None:
    # GPA's formulas with T = 100, A = 30
    assert elimination(100, 30, [], 60) == 60
    assert hiding(100, 30, [(20, 60), (10, 5)], 65) == 25
    assert hiding(100, 30, [(50, 60)], 60) == 30
    rate = 0.2
    wanted = (1 - (1 - rate) ** (16 / 4)) / (1 - (1 - rate) ** (8 / 4))
    assert occupancy_speedup(rate, 8, 16) == pytest.approx(wanted)
    assert occupancy_speedup(rate, 16, 16) == 1.0


def test_advice(database: Path) -> None:
    found = {a.rule: a for a in advise_path(database)}
    assert found["memory-access"].speedup == pytest.approx(100 / 40)
    assert found["latency-hiding"].speedup == pytest.approx(100 / 70)  # min(A, B) of the loop
    assert found["strength-reduction"].speedup == pytest.approx(100 / 90)
    assert "+0x10e0 (60.0%)" in found["memory-access"].detail


OPTIMISED = {
    # reason: rules with the samples that they count as saved, of 40 issued and 60 stalled in one
    # loop: eliminated all 60, hidden by the 40 that issue
    "GMEM": {"memory-access": 60, "latency-hiding": 40},
    "LMEM": {"register-pressure": 60, "latency-hiding": 40},
    "CMEM": {"latency-hiding": 40},
    "TMEM": {"latency-hiding": 40},
    "MTHR": {"memory-access": 60},
    "PIPE": {"strength-reduction": 60, "instruction-parallelism": 40},
    "IDEP": {"strength-reduction": 60, "instruction-parallelism": 40},
    "IFET": {"function-split": 60},
    "SYNC": {"warp-balance": 60},
    "OTHR": {},
}


@pytest.mark.parametrize("reason", sorted(OPTIMISED))
def test_each_reason_has_its_optimisers(tmp_path: Path, reason: str) -> None:
    metrics = [*METRICS[:3], *(f"GCYCLES:STL:{name}" for name in sorted(OPTIMISED))]
    values = {10 + LOAD: sample(40), 10 + USE: sample(0, **{reason: 60})}
    write_database(tmp_path / "db", values, metrics)
    found = {a.rule: a for a in advise_path(tmp_path / "db")}
    assert {rule: a.saved for rule, a in found.items()} == OPTIMISED[reason]
    for advice in found.values():
        assert advice.whole == 100
        assert advice.source.startswith("GPA: ")
        assert "+0x10e0" in advice.detail  # the instruction that stalls


def test_stalls_are_blamed_on_the_loads(database: Path) -> None:
    samples = read_hpctoolkit(database)
    ((stalls, issued),) = join(samples, parse_sass(LISTING.read_text())).values()
    assert stalls[USE] == {"GMEM": 60}
    assert issued[MULTIPLY] == 15
    found = [a for a in advise_path(database, sass=LISTING) if a.rule == "stall-source"]
    assert {a.detail.split()[0] for a in found} == {"LDG.E", "DMUL"}
    loads = sum(a.saved for a in found if a.detail.startswith("LDG"))
    assert loads == pytest.approx(60)


def test_mistakes(database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.sass"
    other.write_text(LISTING.read_text().replace("saxpy", "daxpy"))
    with pytest.raises(UsageError, match="no function"):
        advise_path(database, sass=other)
    with pytest.raises(SystemExit):
        main(["trace", str(database / "meta.db")])
    assert "planish advise" in capsys.readouterr().err
    (database / "profile.db").unlink()
    (database / "cct.db").unlink()
    with pytest.raises(TraceError, match="needs meta"):
        advise_path(database)


def test_damaged_databases(database: Path) -> None:
    whole = {part: (database / part).read_bytes() for part in ("meta.db", "profile.db", "cct.db")}
    rng = random.Random(3)
    refused = 0
    for part, data in whole.items():
        for damaged in mutations(data, rng, 80):
            (database / part).write_bytes(damaged)
            if part == "cct.db":
                (database / "profile.db").unlink(missing_ok=True)
            try:
                json.dumps([a.to_json() for a in advise_path(database)])
            except PlanishError as error:
                assert "\n" not in str(error)
                refused += 1
        (database / part).write_bytes(data)
    assert refused > 30


def test_real_samples(real_traces: Path) -> None:
    samples = read_hpctoolkit(real_traces / "pc-sampling" / "nvidia-sm80-profile.db")
    (kernel,) = kernels(samples)
    assert kernel.name.startswith("xcompute(")
    # the database's own totals, of the summary profile
    assert kernel.total == samples.total("GCYCLES") == 194356707328.0
    assert sum(stall_table(samples, kernel).values()) == samples.total("GCYCLES:STL")
    assert samples.total("GCYCLES:ISU") + samples.total("GCYCLES:STL") == kernel.total
    assert np.isclose(samples.total("GKER (s)"), 0.87308, atol=1e-5)


def test_a_table_of_nsight_compute(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As its documentation describes it; no real file has been tried."""
    path = tmp_path / "source.csv"
    path.write_text(
        '"saxpy(int)"\n"#","Source","# Samples","stall_long_sb","stall_math","selected"\n'
        '"1","LDG.E R2, [R2.64]","5","0","0","5"\n'
        '"2","FFMA R8, R2, R3, R7","1,075","1,065","0","10"\n'
        '"3","DMUL R6, R6, R6","n/a","0","20","10"\n'
    )
    found = {a.rule: a for a in advise_path(path)}
    assert found["memory-access"].where == "saxpy(int)"
    assert found["memory-access"].saved == 1065
    assert found["memory-access"].whole == 1110
    assert found["strength-reduction"].saved == 20
    with pytest.raises(SystemExit):
        main(["trace", str(path)])
    assert "planish advise" in capsys.readouterr().err
    path.write_text('"#","Source","stall_long_sb"\n')
    with pytest.raises(TraceError, match="no samples"):
        advise_path(path)


def test_contexts_of_a_listing(database: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["advise", str(database), "--listing", str(LISTING), "--contexts", "--json"])
    nodes = json.loads(capsys.readouterr().out)
    assert sum(node["own"] for node in nodes) == 100
    main(["advise", str(database), "--listing", str(LISTING), "--contexts"])
    assert "100.0%" in capsys.readouterr().out


def test_blocks_and_threads_too_few(tmp_path: Path) -> None:
    """Launch geometry of one kernel: 10 blocks of 32 threads where 64 warps fit."""
    shape = {
        "GKER:COUNT": 2.0, "GKER:BLK_THR_ACUMU": 64.0, "GKER:WARP_AVL_ACUMU": 128.0,
        "GKER:BLKS_AVG_ACUMU": 20.0,
    }  # fmt: skip
    values = {10: {**sample(20, GMEM=80), **shape}}
    write_database(tmp_path / "db", values, [*METRICS, *shape])
    found = {a.rule: a for a in advise_path(tmp_path / "db")}
    assert found["block-increase"].saved == pytest.approx(100 * (1 - 10 / 80))
    gain = occupancy_speedup(0.2, 32, 64)
    assert found["thread-increase"].speedup == pytest.approx(gain)
