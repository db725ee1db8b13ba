"""Tuning of tiles: ranked, compiled, rejected; measured on a pretended device; kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pretended import Pretended

from planish.base.errors import UsageError
from planish.cli.main import main
from planish.tensor.reference import evaluate, load, store
from planish.tune import gpu_tune
from planish.tune.gpu_contests import matmul, softmax
from planish.tune.gpu_kernels import GpuKernel
from planish.tune.gpu_tune import Candidate, tune_gpu_kernel

pytest.importorskip("triton")


def fit(rules: GpuKernel, candidate: Candidate, pool: object) -> Candidate:
    return candidate


def test_the_first_by_the_estimate_that_does_not_spill_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tuned = tune_gpu_kernel(softmax(64, 300), count=2)
    assert tuned.compiled == 3 and tuned.device == ""
    assert str(tuned.candidates[0].config) in str(GpuKernel(tuned.kernel.program).recipe)
    assert all(c.registers > 0 and c.seconds is None for c in tuned.candidates)
    best = tuned.candidates[1]
    assert best.estimate <= tuned.candidates[2].estimate

    def spilling(rules: GpuKernel, candidate: Candidate, pool: object) -> Candidate:
        bad = candidate.config == best.config
        return Candidate(**{**vars(candidate), "rejected": "8 bytes spilled" if bad else ""})

    monkeypatch.setattr(gpu_tune, "_compiled", spilling)
    again = tune_gpu_kernel(softmax(64, 300), count=2)
    assert again.rejected == 1
    assert again.kernel.configs["Y"] != best.config


def test_where_everything_spills_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        gpu_tune, "_compiled", lambda r, c, p: Candidate(c.kernel, c.config, 1.0, rejected="spills")
    )
    with pytest.raises(UsageError, match="no tiles of Y"):
        tune_gpu_kernel(softmax(64, 300), count=1)
    with pytest.raises(UsageError, match="compiles nothing"):
        tune_gpu_kernel(softmax(64, 300), count=0)


def test_on_a_device_the_fastest_right_one_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_tune, "_compiled", fit)
    device = Pretended()
    asked: list[str] = []

    def measure(kernel: GpuKernel) -> Callable[[Sequence[Any], Sequence[Any]], None]:
        config = str(kernel.configs["C"])
        asked.append(config)
        at = len(asked)

        def call(inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            program = kernel.program
            given = {t.name: store(a.astype(np.float32), t.type)
                     for t, a in zip(program.inputs, inputs, strict=True)}  # fmt: skip
            found = evaluate(program, given)["C"]
            outputs[0][...] = load(found, program.outputs[0].type) * (2.0 if at == 2 else 1.0)
            device.cost = {1: 5.0, 2: 0.1, 3: 2.0}.get(at, 9.0)

        return call

    tuned = tune_gpu_kernel(matmul(64, 48, 32), count=4, device=device, measure=measure, rounds=8)
    assert tuned.device == "pretended"
    wrong, fastest = tuned.candidates[1], tuned.candidates[2]
    assert "wrong" in wrong.rejected and wrong.seconds is None
    assert fastest.seconds == 2.0
    assert tuned.kernel.configs["C"] == fastest.config


def test_a_kept_kernel_is_loaded_and_nothing_is_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = str(tmp_path / "planish.lock")
    words = ["gpu", "tune", "mk,kn->mn", "--shape", "m=64,k=64,n=64", "--no-measure", "--count",
             "2", "--lock", lock, "--json"]  # fmt: skip
    monkeypatch.setattr(gpu_tune, "_compiled", fit)
    main(words)
    first = json.loads(capsys.readouterr().out)
    assert first["chosen_by"] == "estimate" and first["compiled"] == 3

    def never(*_: object) -> Candidate:
        raise AssertionError("compiled although it was kept")

    monkeypatch.setattr(gpu_tune, "_compiled", never)
    main(words)
    again = json.loads(capsys.readouterr().out)
    assert again["compiled"] == 0 and again["recipe"] == first["recipe"]
