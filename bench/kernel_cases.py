"""The shapes that kernel tuning is judged on, with NumPy's way of each; nothing learns from them.

`python bench/kernel_cases.py` prints their identities, for `planish learn kernels --held-out`.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensor_cases as t

from planish.tensor.program import lower
from planish.tune.kernel_training import shape_identity

_CONTRACTIONS = (
    (64, 64, 64), (96, 96, 96), (128, 128, 128), (192, 192, 192), (256, 256, 256), (384, 384, 384),
    (512, 512, 512), (768, 768, 768), (1024, 1024, 1024), (100, 100, 100), (127, 129, 131),
    (255, 255, 255), (333, 333, 333), (500, 500, 500), (65, 67, 1000), (1000, 72, 90),
    (64, 1024, 64), (1024, 64, 1024), (64, 64, 1024), (16, 1024, 1024), (1024, 16, 256),
)  # fmt: skip


def cases() -> Iterator[t.Case]:
    """The table's rows, 48 of them."""
    for m, n, k in _CONTRACTIONS:
        yield t.matmul("contraction", m, n, k)
    for nchw in (False, True):
        yield t.conv("28x28 128>128 3x3", 28, 128, 128, 3, 1, nchw)
        yield t.conv("14x14 256>256 3x3", 14, 256, 256, 3, 1, nchw)
        yield t.conv("55x55 24>40 3x3", 55, 24, 40, 3, 1, nchw)
        yield t.conv("28x28 192>64 1x1", 28, 192, 64, 1, 1, nchw)
        yield t.conv("56x56 32>64 3x3/2", 56, 32, 64, 3, 2, nchw)
    yield t.depthwise(56, 64)
    yield t.depthwise(30, 100)
    for count, size in ((256, 8), (128, 16), (64, 32), (16, 64), (10, 100)):
        yield t.batched(count, size)
    yield t.reduction("rows", (1000, 1000), 1)
    yield t.reduction("columns", (1000, 1000), 0)
    yield t.reduction("columns", (4096, 100), 0)
    yield t.matrix_vector(1024, 1024, transposed=False)
    yield t.matrix_vector(1000, 300, transposed=True)
    yield t.softmax(128, 128)
    yield t.softmax(200, 1000)
    yield t.layernorm(128, 768)
    yield t.layernorm(333, 500)
    yield t.min_plus(128)


def main() -> None:
    for case in cases():
        print(shape_identity(lower([case.tensor])))


if __name__ == "__main__":
    main()
