"""Kernels as users call them: arrays in and out, refusals, files, threads, the store."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.base.errors import PlanishError, UsageError
from planish.codegen.native import Image
from planish.measure.machine import processor
from planish.tune.tensors import Kernel

pytestmark = pytest.mark.skipif(not processor().vector, reason="not an x86 machine with AVX2")


def _whole(*shape: int, kind: str = "float32") -> np.ndarray:
    return np.random.default_rng(len(shape)).integers(-3, 4, shape).astype(kind)


@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("mk,kn->mn", [(8, 8), (8, 8)]), ("mk,kn->mn", [(127, 129), (129, 131)]),
        ("mk,nk->mn", [(33, 40), (70, 40)]), ("km,kn->mn", [(20, 33), (20, 48)]),
        ("bmk,bkn->bmn", [(3, 9, 10), (3, 10, 11)]), ("mk,k->m", [(50, 33), (33,)]),
        ("k,kn->n", [(33,), (33, 50)]), ("mn->nm", [(7, 9)]), ("ii->i", [(6, 6)]), ("ii", [(6, 6)]),
        ("i,j->ij", [(5,), (6,)]), ("mn->", [(30, 31)]), ("mk,kn,n->m", [(4, 5), (5, 6), (6,)]),
        ("mk,kn->mn", [(0, 4), (4, 3)]), ("mk,kn->mn", [(2, 0), (0, 3)]), (",i->i", [(), (4,)]),
        ("bhqd,bhkd->bhqk", [(2, 2, 30, 16), (2, 2, 40, 16)]),
        ("...mk,...kn->...mn", [(2, 3, 5, 6), (2, 3, 6, 7)]), ("...k,k->...", [(4, 5, 6), (6,)]),
        ("...ij->...ji", [(2, 3, 4)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
def test_einsum_is_numpys(spec: str, shapes: list[tuple[int, ...]], kind: str) -> None:
    arrays = [_whole(*shape, kind=kind) for shape in shapes]
    f = pl.einsum(spec)
    for _ in range(2):
        assert np.array_equal(f(*arrays), np.einsum(spec, *arrays))


def test_semirings() -> None:
    a, b = _whole(9, 10), _whole(10, 11)
    sums = a[:, :, None] + b[None]
    assert np.array_equal(pl.einsum("mk,kn->mn", semiring="min-plus")(a, b), sums.min(1))
    assert np.array_equal(pl.einsum("mk,kn->mn", semiring="max-plus")(a, b), sums.max(1))
    p, q = a > 0, b > 0
    both = p[:, :, None] & q[None]
    assert np.array_equal(pl.einsum("mk,kn->mn", semiring="or-and")(p, q), both.any(1))
    parity = both.sum(1) % 2 == 1
    assert np.array_equal(pl.einsum("mk,kn->mn", semiring="xor-and")(p, q), parity)
    whole = a.astype(np.int64), b.astype(np.int64)
    modular = pl.einsum("mk,kn->mn", modulo=7)(*whole)
    assert np.array_equal(modular, (whole[0] @ whole[1]) % 7)


def test_any_strides_are_taken_and_never_wrong() -> None:
    a, b = _whole(20, 24), _whole(24, 36)
    f = pl.einsum("mk,kn->mn")
    f(a[:10, ::2], b[::2])
    for left, right in (
        (a[::-1, ::2], b[::2]), (a[:, 1:13], b[12:][::-1]), (a.T[:12].T, b[:12, ::3]),
        (np.broadcast_to(a[0], (20, 24))[:, :12], b[:12]), (a[:10, :12], b[:12]),
    ):  # fmt: skip
        assert np.array_equal(f(left, right), left @ right)


def test_out_may_be_strided_and_may_overlap_its_inputs() -> None:
    a, b = _whole(16, 16), _whole(16, 16)
    f = pl.einsum("mk,kn->mn")
    wanted = a @ b
    wide = np.zeros((16, 32), np.float32)
    assert f(a, b, out=wide[:, ::2]) is not None
    assert np.array_equal(wide[:, ::2], wanted) and not wide[:, 1::2].any()
    for _ in range(2):
        copy = a.copy()
        f(copy, b, out=copy)
        assert np.array_equal(copy, wanted)


def test_wrong_arrays_are_refused_before_and_after_the_first_call() -> None:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (4, 5)), pl.tensor("B", (5, 6))
    kernel = pl.compile(pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n])))
    x, y = _whole(4, 5), _whole(5, 6)
    for _ in range(2):
        assert np.array_equal(kernel(x, y), x @ y)
        for arguments, words in (
            ((x.astype(np.float64), y), "is of float64"), ((x.T, y), "has the shape"),
            ((x,), "'B' is missing"), ((x, y, y), "takes 2 arrays"),
            ((x.astype(">f4"), y), "is of >f4"), ((3, y), "is of int"),
        ):  # fmt: skip
            with pytest.raises(UsageError, match=words):
                kernel(*arguments)
    frozen = np.zeros((4, 6), np.float32)
    frozen.flags.writeable = False
    with pytest.raises(UsageError, match="read-only"):
        kernel(x, y, out=frozen)
    with pytest.raises(UsageError, match="strides overlap"):
        kernel(x, y, out=np.lib.stride_tricks.as_strided(np.zeros(6, np.float32), (4, 6), (0, 4)))
    assert np.array_equal(kernel(A=x, B=y), x @ y)
    with pytest.raises(UsageError, match="'Q'"):
        kernel(x, Q=y)


def test_fused_statements() -> None:
    m, n, k = pl.axes("m n k")
    x = pl.tensor("x", (13, 50))
    e = pl.define("e", [m, n], pl.exp(x[m, n] - pl.max(n, x[m, n])))
    softmax = pl.compile(pl.define("y", [m, n], e[m, n] / pl.sum(n, e[m, n])))
    data = np.random.default_rng(0).standard_normal((13, 50)).astype(np.float32)
    shifted = np.exp(data - data.max(1, keepdims=True))
    assert np.allclose(softmax(data), shifted / shifted.sum(1, keepdims=True), rtol=1e-6)
    assert str(softmax.loops).startswith("for m\n"), "all four stages are computed row by row"
    del k


def test_convolution_with_padding_and_strides() -> None:
    h, w, r, s, c, o = pl.axes("h w r s c o")
    x, f = pl.tensor("x", (11, 12, 3)), pl.tensor("f", (3, 3, 3, 20))
    padded = pl.pad(x, ((1, 1), (1, 1), (0, 0)))
    body = padded[2 * h + r, 2 * w + s, c] * f[r, s, c, o]
    kernel = pl.compile(pl.define("y", [h, w, o], pl.sum([r, s, c], body)))
    data, weights = _whole(11, 12, 3), _whole(3, 3, 3, 20)
    around = np.pad(data, ((1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (0, 1))[::2, ::2]
    assert np.array_equal(kernel(data, weights), np.einsum("hwcrs,rsco->hwo", windows, weights))


@pytest.mark.parametrize("threads", [2, 3])
def test_threads_give_the_same(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("planish.tune.default_schedule._WORTH_SHARING", 0)
    a, b = _whole(67, 40), _whole(40, 90)
    assert np.array_equal(pl.einsum("mk,kn->mn", threads=threads)(a, b), a @ b)
    m, n = pl.axes("m n")
    x = pl.tensor("x", (67, 40))
    t = pl.define("t", [m, n], x[m, n] * 2.0)
    y = pl.define("y", [m], pl.sum(n, t[m, n]))
    assert np.array_equal(pl.compile([y, t], threads=threads)(a)[0], (2 * a).sum(1))


def test_the_code_is_kept_on_disk_and_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANISH_CACHE", str(tmp_path))
    m, n = pl.axes("m n")
    x = pl.tensor("x", (6, 7))
    tensor = pl.define("y", [m, n], x[m, n] + 1.0)
    first, second = pl.compile(tensor), pl.compile(tensor)
    data = _whole(6, 7)
    assert np.array_equal(first(data), data + 1) and not first.ledger.cached
    assert np.array_equal(second(data), data + 1) and second.ledger.cached
    (file,) = [p for p in (tmp_path / "kernels").rglob("*") if p.is_file()]
    file.write_bytes(file.read_bytes()[:-3])
    third = pl.compile(tensor)
    assert np.array_equal(third(data), data + 1) and not third.ledger.cached


def test_images_survive_their_bytes() -> None:
    kernel = pl.einsum("mk,kn->mn").kernel(_whole(40, 600), _whole(600, 500))
    image = kernel.native().image
    assert Image.from_bytes(image.to_bytes()) == image
    for cut in (0, 3, 20, len(image.to_bytes()) - 1):
        with pytest.raises(ValueError, match=r"cut off|not a kernel"):
            Image.from_bytes(image.to_bytes()[:cut])


def _shared_object(folder: Path, kernel: Kernel) -> ctypes.CDLL:
    kernel.save(folder / "kernel.o", header=folder / "kernel.h")
    import ziglang

    zig = Path(ziglang.__file__).parent / "zig"
    subprocess.run(
        [zig, "cc", "-shared", "-o", "kernel.so", "kernel.o"],
        cwd=folder, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    return ctypes.CDLL(str(folder / "kernel.so"))


@pytest.mark.parametrize("packed", [False, True])
def test_a_saved_kernel_works_from_c(tmp_path: Path, packed: bool) -> None:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (33, 40)), pl.tensor("B", (40, 50))
    tensor = pl.define("C", [m, n], pl.relu(pl.sum(k, a[m, k] * b[k, n])))
    schedule = "tile C m=4 n=16 vector n\npack C B as n/16 k n" if packed else None
    kernel = pl.compile(tensor, schedule=schedule)
    library = _shared_object(tmp_path, kernel)
    x, y, out = _whole(33, 40), _whole(40, 50), np.empty((33, 50), np.float32)
    workspace = np.zeros(kernel.native().image.workspace + 64, np.uint8)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (x, y, out)]
    if packed:
        base = workspace.ctypes.data
        pointers.append(ctypes.c_void_p(base + -base % 64))
    library.kernel(*pointers)
    assert np.array_equal(out, np.maximum(x @ y, 0))
    header = (tmp_path / "kernel.h").read_text()
    assert ("void *workspace" in header) == packed
    assert "ret" in kernel.asm


def test_an_object_for_arm_is_written_but_not_run(tmp_path: Path) -> None:
    (i,) = pl.axes("i")
    x = pl.tensor("x", (8,))
    kernel = pl.compile(pl.define("y", [i], x[i] + 1.0), target="aarch64")
    kernel.save(tmp_path / "arm.o")
    assert (tmp_path / "arm.o").read_bytes()[:4] == b"\x7fELF"
    with pytest.raises(PlanishError, match="aarch64"):
        kernel(np.zeros(8, np.float32))


def test_a_call_by_several_threads_at_once_is_right() -> None:
    from concurrent.futures import ThreadPoolExecutor

    kernel = pl.einsum("mk,kn->mn")
    a, b = _whole(64, 300), _whole(300, 400)
    wanted = a @ b
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(lambda _: kernel(a, b), range(24)):
            assert np.array_equal(found, wanted)


def test_importing_planish_imports_no_numpy() -> None:
    code = "import sys, planish; assert 'numpy' not in sys.modules; planish.tensor('A', (2,))"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_kernel_that_the_machine_lacks_instructions_for_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from planish.measure.machine import Processor

    (i,) = pl.axes("i")
    y = pl.define("y", [i], pl.tensor("x", (8,))[i] + 1.0)
    monkeypatch.setattr(Processor, "vector", property(lambda self: 32))
    with pytest.raises(UsageError, match="avx512 does not run here"):
        pl.compile(y, target="avx512")(np.zeros(8, np.float32))
    monkeypatch.setattr(Processor, "vector", property(lambda self: 0))
    with pytest.raises(UsageError, match="neither AVX2"):
        pl.compile(y)


def test_outputs_that_overlap_themselves_and_masked_arrays_are_refused() -> None:
    f = pl.einsum("ij,ij->ij")
    x = np.ones((4, 5), np.float32)
    shared = np.zeros(64, np.float32)
    for strides in ((0, 4), (4, 4), (16, 4), (8, 4)):
        out = np.lib.stride_tricks.as_strided(shared, (4, 5), strides)
        with pytest.raises(UsageError, match="overlap"):
            f(x, x, out=out)
    backwards = shared[:20].reshape(4, 5)[::-1]
    apart = [
        np.lib.stride_tricks.as_strided(shared, (4, 5), s) for s in ((20, 4), (24, 4), (4, 16))
    ]
    for out in (backwards, *apart):
        out[...] = 0
        f(x, x, out=out)
        assert (out == 1).all()
    with pytest.raises(UsageError, match="mask"):
        f(np.ma.masked_array(x, x > 0), x)


def test_a_schedule_that_does_not_fit_is_refused_when_it_is_given() -> None:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (8, 8))
    with pytest.raises(UsageError, match="q"):
        pl.compile(x[m, n] * 2.0, schedule="tile out m=4 vector q")


@pytest.mark.parametrize("kind", ["int8", "uint8", "int16"])
def test_narrow_sums_of_products_wrap_like_numpy(kind: str) -> None:
    numbers = np.random.default_rng(0)
    info = np.iinfo(kind)
    a, b = (numbers.integers(info.min, info.max, s).astype(kind) for s in ((9, 21), (21, 17)))
    assert np.array_equal(pl.einsum("mk,kn->mn")(a, b), np.einsum("mk,kn->mn", a, b))


def test_types_of_gpus_are_refused_in_one_line() -> None:
    m, n = pl.axes("m n")
    x = pl.tensor("X", (3, 4), "f8e4m3")
    with pytest.raises(UsageError, match="GPU kernels only"):
        pl.compile(pl.define("Y", [n, m], x[m, n] * 2.0, "f32"))
