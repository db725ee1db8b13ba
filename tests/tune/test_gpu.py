"""GPU kernels without a GPU: the interpreter, the guard, compilation, the judge, recipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from pathlib import Path

import numpy as np
import pytest

from planish.base.errors import LockError, PlanishError, UsageError
from planish.codegen.triton.source import Config
from planish.gpu.hardware import TARGETS
from planish.proc.pool import Call, Pool
from planish.store.lockfile import update
from planish.tensor import functions as f
from planish.tensor.expr import Expr, axes
from planish.tune.gpu_checks import interpret_request
from planish.tune.gpu_contests import attention, layernorm, matmul, softmax
from planish.tune.gpu_inspect import Launch, difference, inspect, of_built, triton_build
from planish.tune.gpu_kernels import GpuKernel, gpu_kernel, workers
from planish.tune.gpu_space import KernelSpace, best_by_estimate, entry, from_lock
from planish.tune.gpu_worker import Describe

pytest.importorskip("triton")
sys.path.insert(0, str(Path(__file__).parent.parent / "tensor"))

from programs import make_case


@pytest.fixture(scope="module")
def interpreter() -> Iterator[Pool]:
    with workers("interpret") as pool:
        yield pool


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PLANISH_CACHE", str(tmp_path_factory.mktemp("gpu")))
        with workers("compile") as pool:
            pool.start()
            yield pool


def must_hold(kernel: GpuKernel, pool: Pool) -> None:
    checked = kernel.check(pool=pool)
    assert checked.verdict.grade.value == "tested", checked.verdict.detail


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_give_what_the_reference_gives(seed: int, interpreter: Pool) -> None:
    case = make_case(seed, steps=0)
    kernel = GpuKernel(case.program)
    try:
        kernel.kernels  # noqa: B018
    except UsageError as error:
        assert "empty" in error.message
        return
    checked = kernel.check(case.arrays, interpreter)
    assert checked.verdict.grade.value == "tested", checked.verdict.detail


@pytest.mark.parametrize(
    ("type", "tiles"),
    [
        ("f16", "m=32 n=32 k=32"), ("bf16", "m=16 n=32 k=16"), ("f32", "m=32 n=16 k=16"),
        ("f16", "m=16 n=16 k=16 group=2"), ("f16", "m=16 n=32 k=16 split=2"),
        ("bf16", "m=32 n=32 k=32 persistent=2"),
    ],
)  # fmt: skip
def test_products_of_odd_shapes(type: str, tiles: str, interpreter: Pool) -> None:
    must_hold(gpu_kernel(matmul(45, 37, 67, type), configs={"C": tiles}), interpreter)


@pytest.mark.parametrize("tiles", ["m=2", "k=32", "m=2 k=128 persistent=2 stages=2"])
def test_rows_whole_in_passes_and_persistent(tiles: str, interpreter: Pool) -> None:
    must_hold(gpu_kernel(softmax(7, 99), configs={"Y": tiles}), interpreter)
    must_hold(gpu_kernel(layernorm(7, 99), configs={"Y": tiles}), interpreter)


def test_attention_of_odd_lengths(interpreter: Pool) -> None:
    for type in ("f16", "bf16"):
        tensor = attention(2, 1, 37, 24, type)
        must_hold(gpu_kernel(tensor, configs={"O": "m=16 n=16"}), interpreter)


_MASKS: dict[str, tuple[Callable[[Expr, Expr], Expr], str]] = {
    "k <= q": (lambda k, q: k <= q, "BLOCK_M, 70)"),
    "q >= k": (lambda k, q: q >= k, "BLOCK_M, 70)"),
    "k < q + 20": (lambda k, q: k < q + 20, "BLOCK_M + 19, 70)"),
    "k - 3 <= q": (lambda k, q: k - 3 <= q, "BLOCK_M + 3, 70)"),
    "k + 21 <= q": (lambda k, q: k + 21 <= q, "BLOCK_M + -21, 70)"),  # some queries see no key
    "k >= q": (lambda k, q: k >= q, ""),
    "k <= 2 q": (lambda k, q: k <= q * 2, ""),
}


@pytest.mark.parametrize("mask", _MASKS)
def test_tiles_of_keys_that_no_query_sees_are_left_out(mask: str, interpreter: Pool) -> None:
    seen, end = _MASKS[mask]
    kernel = gpu_kernel(attention(1, 2, 70, 16, seen=seen), configs={"O": "m=16 n=32"})
    assert [k.form for k in kernel.kernels] == ["attention"]
    assert ("tl.minimum" in kernel.source) == bool(end)
    assert end in kernel.source
    must_hold(kernel, interpreter)


def test_rows_of_minus_infinity_stay_what_they_are(interpreter: Pool) -> None:
    kernel = gpu_kernel(softmax(3, 50), configs={"Y": "k=16"})
    x = np.random.default_rng(0).standard_normal((3, 50)).astype(np.float32)
    x[:, :20] = -np.inf
    checked = kernel.check({"X": x}, interpreter)
    assert checked.verdict.grade.value == "tested", checked.verdict.detail


def test_the_guard_names_line_and_lanes(interpreter: Pool) -> None:
    m, n = axes("m n")
    kernel = gpu_kernel(f.define("Y", [m, n], f.tensor("X", (5, 7))[m, n] * 2.0))
    [source] = kernel.kernels
    wrong = source.text.replace(", mask=mn < 35", "").replace(", mask=mm < 35", "")
    wrong = "\n".join(
        line.split(", mask=")[0] + ")" if "tl.load" in line else line for line in wrong.splitlines()
    )
    lowered = replace(kernel.lowered, kernels=(replace(source, text=wrong + "\n"),))
    request = interpret_request(kernel.program, lowered, {"X": np.ones((5, 7), np.float32)})
    [reply] = interpreter.run([Call((), request)])
    line = next(i for i, t in enumerate(wrong.splitlines(), 1) if "tl.load" in t)
    assert reply.failure is not None
    assert f"line {line} loads out of bounds in program (0, 0, 0), lanes (35,)" in reply.reason


def test_a_wrong_kernel_is_refuted_with_the_place(interpreter: Pool) -> None:
    kernel = gpu_kernel(matmul(16, 16, 16, "f32"))
    [source] = kernel.kernels
    wrong = replace(
        source, text=source.text.replace("acc = tl.dot(a, b, acc", "acc = tl.dot(a, b, acc + 1")
    )
    kernel.__dict__["lowered"] = replace(kernel.lowered, kernels=(wrong,))
    checked = kernel.check(pool=interpreter)
    assert checked.verdict.grade.value == "refuted"
    assert "C[" in checked.verdict.detail


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_compile_for_every_target(target: str, compiler: Pool) -> None:
    tensor = matmul(64, 64, 64)
    [built] = gpu_kernel(tensor, target=target, configs={"C": "m=32 n=32 k=32"}).compiled(compiler)
    found = of_built(built, target)
    assert ("cubin" if target.startswith("cuda") else "hsaco") in built.asm
    assert found.facts.resources.registers > 0
    assert found.facts.occupancy.blocks > 0
    assert found.facts.mix.get("matrix", 0) > 0
    assert [x.rule for x in found.findings] == []


_PAIR = """
import triton
import triton.language as tl

@triton.jit
def copy(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0.0) * 2.0, mask=at < n)

@triton.jit
def across(x, y, STRIDE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) + tl.arange(0, BLOCK) * STRIDE
    tl.store(y + at, tl.load(x + at) + 1.0)
"""


def test_the_judge_finds_faults_and_is_silent_on_good_kernels(
    compiler: Pool, tmp_path: Path
) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(_PAIR)
    rules = {}
    for name, function, signature in (
        ("good", "copy", "*fp16:16, *fp16:16, i32:16, 1024"),
        ("unhinted", "copy", "*fp16:16, *fp16:16, i32, 1024"),
        ("across", "across", "*fp32:16, *fp32:16, 4096, 256"),
    ):
        [described] = compiler.run([Call((), Describe(str(path), function))])
        build = triton_build(path, function, described.value, "cuda:sm_90", Launch(signature))
        [reply] = compiler.run([Call((), build)])
        found = of_built(reply.value, "cuda:sm_90")
        rules[name] = ([x.rule for x in found.findings], found)
    assert rules["good"][0] == []
    assert rules["unhinted"][0] == ["missing-divisibility"]
    assert set(rules["across"][0]) == {"uncoalesced"}
    # Each finding names the line of the kernel's own source.
    assert all(":8" in x.where for x in rules["unhinted"][1].findings)
    rows = difference(rules["good"][1], rules["unhinted"][1])
    assert ("finding", "-", "missing-divisibility at kernels.py:8") in rows
    assert difference(rules["good"][1], rules["good"][1]) == []


@pytest.mark.parametrize("length", [512, 4096])
@pytest.mark.parametrize("heads", [1, 16])
def test_attention_gives_no_word_on_the_order_of_its_blocks(
    length: int, heads: int, compiler: Pool
) -> None:
    """Each block has queries of its own: no order lets blocks share them."""
    kernel = gpu_kernel(attention(2, heads, length, 64), target="cuda:sm_90")
    [built] = kernel.compiled(compiler)
    [source] = kernel.kernels
    assert prod(source.grid) >= 8
    assert [f.rule for f in of_built(built, kernel.target, grid=source.grid).findings] == []


@pytest.mark.parametrize("group", [1, 8])
def test_the_order_of_a_product_s_blocks_is_judged_on_their_grid(
    group: int, compiler: Pool
) -> None:
    tiles = f"m=32 n=32 k=32 warps=4 stages=3 group={group}"
    kernel = gpu_kernel(matmul(4096, 4096, 4096), target="cuda:sm_80", configs={"C": tiles})
    [built] = kernel.compiled(compiler)
    found = of_built(built, kernel.target, grid=kernel.kernels[0].grid).findings
    assert ("program-order" in [f.rule for f in found]) == (group == 1)


def test_kernels_are_saved_with_what_a_launch_needs(compiler: Pool, tmp_path: Path) -> None:
    kernel = gpu_kernel(softmax(8, 100))
    wrote = kernel.save(tmp_path / "out", pool=compiler)
    names = {p.name for p in wrote}
    assert {"Y_kernel.py", "Y_kernel.cubin", "launch.json"} <= names
    found = json.loads((tmp_path / "out" / "launch.json").read_text())
    assert found["kernels"][0]["arguments"] == ["X", "Y"]
    [one] = inspect(str(tmp_path / "out" / "Y_kernel.cubin"))
    assert one.facts.name == "Y_kernel"
    [ptx] = inspect(str(tmp_path / "out" / "Y_kernel.ptx"))
    assert ptx.facts.resources.registers == one.facts.resources.registers


def test_a_triton_function_needs_a_signature_that_fits(tmp_path: Path) -> None:
    path = tmp_path / "kernels.py"
    path.write_text(_PAIR)
    parameters = [("x", False, None), ("n", True, None)]
    for signature in ("*fp16", "*fp16, ?", "*fp16, 1, 2"):
        with pytest.raises(UsageError):
            triton_build(path, "copy", parameters, "cuda:sm_90", Launch(signature))


def test_spaces_hold_only_what_fits_the_hardware() -> None:
    for target in TARGETS:
        space = KernelSpace(gpu_kernel(matmul(4096, 4096, 4096), target=target))
        assert space.legal(())
        assert not space.legal(("C k=128", "C m=256", "C n=256", "C stages=4"))
        assert not space.legal(("C m=16", "C m=32"))
        ranked = space.ranked("C", 5)
        assert [r.estimate for r in ranked] == sorted(r.estimate for r in ranked)
        assert ranked[0].config.m * ranked[0].config.n >= 64 * 64


def test_a_recipe_in_the_lockfile_gives_the_same_kernel(tmp_path: Path) -> None:
    path = tmp_path / "planish.lock"
    tensor = matmul(512, 512, 512)
    kernel = best_by_estimate(tensor, target="cuda:sm_80")
    update(path, [entry(kernel, "product", "unknown")])
    again = from_lock(path, "product", tensor, target="cuda:sm_80")
    assert again.source == kernel.source
    assert again.recipe == kernel.recipe
    with pytest.raises(LockError, match="stale"):
        from_lock(path, "product", matmul(512, 512, 256), target="cuda:sm_80")
    with pytest.raises(LockError, match="no kernel"):
        from_lock(path, "product", tensor, target="cuda:sm_90")


def test_strides_change_the_source_and_not_the_meaning() -> None:
    kernel = gpu_kernel(matmul(64, 64, 64))
    other = kernel.lowered_for({"A": (1, 64)})
    assert other.source != kernel.source
    assert kernel.lowered_for({"A": (64, 1)}).source == kernel.source


def test_mistakes_are_told_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        gpu_kernel(matmul(64, 64, 64), target="cuda:sm_10")
    with pytest.raises(UsageError):
        gpu_kernel(matmul(64, 64, 64), configs={"X": Config(m=16)})
    for name in ("absent.cubin", "k.py", "absent.py:f"):
        with pytest.raises(PlanishError):
            inspect(str(tmp_path / name))
    text = tmp_path / "a.txt"
    text.write_text("hello")
    with pytest.raises(UsageError, match="no GPU kernel"):
        inspect(str(text))
    elf = tmp_path / "a.o"
    elf.write_bytes(b"\x7fELF" + bytes(14) + (62).to_bytes(2, "little") + bytes(100))
    with pytest.raises(UsageError, match="another machine"):
        inspect(str(elf))


def test_compilers_compile_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    [built] = gpu_kernel(softmax(3, 20)).compiled()
    assert built.asm["cubin"][:4] == b"\x7fELF"
