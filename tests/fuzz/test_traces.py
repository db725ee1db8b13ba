"""Mutated profiler files: a table or an error with its place, never anything else."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from support.mutate import mutations
from support.traces import training

from planish.base.errors import PlanishError
from planish.trace.read import read_table
from planish.trace.trace import Trace


@pytest.mark.parametrize("salvage", [False, True])
@pytest.mark.parametrize("indent", [None, 1])
def test_mutated_traces(tmp_path: Path, salvage: bool, indent: int | None) -> None:
    text = training(2).text(indent).encode()
    rng = random.Random(7)
    good = refused = 0
    for data in mutations(text, rng, 150):
        path = tmp_path / "m.json"
        path.write_bytes(data)
        try:
            trace = Trace(read_table(path, salvage=salvage))
        except PlanishError as error:
            assert "\n" not in str(error)
            refused += 1
            continue
        json.dumps(trace.summary(5))
        for row in trace.breakdown():
            assert trace.idle(row.device).total == row.idle
            assert int(trace.charges(row.device).own.sum()) == row.idle
        good += 1
    assert good > 10
    if not salvage:
        assert refused > 10
