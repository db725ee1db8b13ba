"""The contests of `planish gpu bench` on the CPU: torch, our kernels and the hand-written ones.

Triton's interpreter runs all Triton kernels on torch tensors of the CPU, in a process of its own
(Triton decides when it is imported). Times mean nothing there; results are checked as on a GPU.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton")
pytest.importorskip("torch")

_SCRIPT = """
import json, sys, time
import torch
from planish.tune import gpu_tutorials as hand
from planish.tune.gpu_bench import run_contest
from planish.tune.gpu_contests import Shapes, contests
from planish.tune.gpu_torch import TORCH

class Cpu:
    name = "cpu"
    def put(self, array, type_name):
        return torch.from_numpy(array).to(getattr(torch, TORCH[type_name]))
    def get(self, tensor):
        return tensor.double().numpy()
    def poison(self, tensor):
        tensor.fill_(float("nan"))
    def flush(self):
        pass
    def timed(self, call):
        started = time.perf_counter()
        call()
        return time.perf_counter() - started

shapes = Shapes([(70, 50, 40)], [(5, 100)], [(3, 130)], [(1, 1, 128, 32)])
torch.compile = lambda function: lambda *given: function(*given) * 1.5  # a rival that is wrong
product = hand.Matmul((32, 32, 32, 4, 2))
found = []
for contest in contests("cuda:sm_90", torch, shapes=shapes, matmul_tutorial=product):
    found.append(run_contest(Cpu(), contest, rounds=2, sets=1).to_json())
print(json.dumps(found))
"""


def test_every_rival_is_right_and_a_wrong_one_is_not_timed() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], capture_output=True, text=True, check=False,
        env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    reports = json.loads(done.stdout.splitlines()[-1])
    assert [r["name"].split()[0] for r in reports] == [
        "matmul", "softmax", "layernorm", "attention",
    ]  # fmt: skip
    for report in reports:
        assert list(report["refused"]) == ["torch.compile"], report["refused"]
        assert {t["rival"] for t in report["timings"]} == {
            "planish", "planish, tiles by rule", "torch", "Triton tutorial",
        }  # fmt: skip
