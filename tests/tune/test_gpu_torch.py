"""Calls on torch tensors, as far as they go without a GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import planish as pl
from planish.base.errors import UsageError
from planish.tune.gpu_contests import layernorm, matmul
from planish.tune.gpu_kernels import gpu_kernel

torch = pytest.importorskip("torch")
pytest.importorskip("triton")


def test_wrong_tensors_are_refused_before_anything_runs() -> None:
    kernel = gpu_kernel(matmul(16, 16, 16))
    good = torch.zeros(16, 16, dtype=torch.float16)
    with pytest.raises(UsageError, match="takes 2 tensors"):
        kernel(good)
    with pytest.raises(UsageError, match="torch tensor"):
        kernel(good, [1.0])
    with pytest.raises(UsageError, match=r"float32.*made for"):
        kernel(good, good.float())
    with pytest.raises(UsageError, match="shape"):
        kernel(good, good[:8])
    with pytest.raises(UsageError, match="lie on cpu"):
        kernel(good, good)


def test_the_operator_can_be_traced() -> None:
    operator = gpu_kernel(matmul(16, 32, 8)).custom_op("planish_tests::product")
    made = [torch.empty(*shape, dtype=torch.float16, device="meta") for shape in ((16, 8), (8, 32))]
    found = operator(*made)
    assert found.shape == (16, 32) and found.dtype == torch.float16
    with pytest.raises(UsageError, match="names no operator"):
        gpu_kernel(matmul(16, 16, 16)).custom_op("product")


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")


@pytest.mark.usefixtures("interpreted")
def test_tensors_of_the_cpu_of_any_strides_by_the_interpreter() -> None:
    torch.manual_seed(0)
    kernel = gpu_kernel(matmul(33, 40, 21), configs={"C": "m=32 n=32 k=32"})
    a, b = torch.randn(33, 42).half()[:, ::2], torch.randn(40, 21).half().T
    assert torch.allclose(kernel(a, b).float(), a.float() @ b.float(), atol=2e-2)
    assert len(kernel.lowered_for({"A": a.stride(), "B": b.stride()}).kernels) == 1
    m, k = pl.axes("m k")
    x = pl.tensor("X", (5, 30), "f8e4m3")
    outputs = [pl.define("most", [m], pl.argmax(k, x[m, k]), "i64"),
               pl.define("half", [k, m], x[m, k] * 0.5, "f8e5m2")]  # fmt: skip
    given = torch.randn(5, 30).to(torch.float8_e4m3fn)
    most, half = gpu_kernel(outputs)(given)
    assert torch.equal(most, given.float().argmax(1))
    wanted = (given.float() * 0.5).to(torch.float8_e5m2)
    assert half.dtype == torch.float8_e5m2 and torch.equal(half.float(), wanted.float().T)


@pytest.mark.usefixtures("interpreted")
def test_the_operator_passes_what_torch_checks_of_operators() -> None:
    kernel = gpu_kernel(matmul(33, 40, 21), configs={"C": "m=32 n=32 k=32"})
    operator = kernel.custom_op("planish_tests::checked")
    a, b = torch.randn(33, 21).half(), torch.randn(21, 40).half()
    found = torch.library.opcheck(operator, (a, b))
    assert set(found.values()) == {"SUCCESS"}
    traced = torch.compile(lambda x, y: operator(x, y) * 2, fullgraph=True, backend="aot_eager")
    assert torch.equal(traced(a, b), 2 * kernel(a, b))


@pytest.mark.parametrize("name", ["a b::c", "a::b::c", "::x", "1a::b"])
def test_names_that_torch_does_not_take_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match="operator"):
        gpu_kernel(matmul(16, 16, 16)).custom_op(name)


_SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import torch
from run import run
torch.manual_seed(0)
x, w, b = torch.randn(5, 100), torch.randn(100), torch.randn(100)
wanted = torch.nn.functional.layer_norm(x, (100,), w, b, 1e-5)
assert torch.allclose(run(x, w, b), wanted, atol=1e-5)
try:
    run(x, w)
except ValueError as error:
    assert "3 tensors" in str(error)
assert "planish" not in sys.modules
"""


def test_saved_kernels_run_without_planish(tmp_path: Path) -> None:
    kernel = gpu_kernel(layernorm(5, 100, "f32"), target="cuda:sm_80")
    kernel.save(tmp_path)
    about = json.loads((tmp_path / "launch.json").read_text())
    assert about["kernels"][0]["options"]["num_warps"] > 0
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)], capture_output=True, text=True,
        check=False, env={**environment, "TRITON_INTERPRET": "1"}, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
