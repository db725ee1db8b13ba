"""Calls on torch tensors, as far as they go without a GPU."""

from __future__ import annotations

import pytest

from planish.base.errors import UsageError
from planish.tune.gpu_contests import matmul
from planish.tune.gpu_kernels import gpu_kernel

torch = pytest.importorskip("torch")


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
