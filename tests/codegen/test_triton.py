"""Lowering to Triton source: forms, fusion, refusals, recipes. Needs no Triton."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.errors import PlanishError, RecipeError, UsageError
from planish.codegen.triton.lower import Lowered, lower_program
from planish.codegen.triton.source import Config
from planish.tensor import functions as f
from planish.tensor.expr import Tensor, axes, cast
from planish.tensor.program import lower
from planish.tune.gpu_contests import attention, layernorm, matmul, softmax


def lowered(*outputs: Tensor, **options: object) -> Lowered:
    return lower_program(lower(outputs), **options)  # type: ignore[arg-type]


def forms(found: Lowered) -> list[str]:
    return [k.form for k in found.kernels]


def test_known_programs_become_one_kernel_each() -> None:
    assert forms(lowered(matmul(64, 64, 64))) == ["contraction"]
    assert forms(lowered(softmax(8, 100))) == ["rows"]
    assert forms(lowered(layernorm(8, 100))) == ["rows"]
    assert forms(lowered(attention(1, 2, 32, 16))) == ["attention"]


def test_nothing_lies_between_fused_statements() -> None:
    for tensor in (softmax(8, 100), layernorm(8, 100), attention(1, 2, 32, 16)):
        assert lowered(tensor).temporaries == ()


def test_an_epilogue_and_a_padding_are_fused() -> None:
    n, h, w, r, s, c, o = axes("n h=8 w=8 r s c o")
    x, k = f.tensor("X", (1, 8, 8, 4), "f16"), f.tensor("K", (3, 3, 4, 16), "f16")
    padded = f.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    total = f.sum([r, s, c], padded[n, h + r, w + s, c] * k[r, s, c, o])
    found = lowered(f.define("Y", [n, h, w, o], f.relu(total), "f16"))
    assert forms(found) == ["contraction"]
    assert found.temporaries == ()
    assert "tl.dot" in found.source


def test_split_sums_have_a_second_kernel_and_a_temporary() -> None:
    found = lowered(matmul(64, 64, 4096), configs={"C": Config(split=4)})
    assert forms(found) == ["contraction", "tile"]
    assert [t.shape for t in found.temporaries] == [(4, 64, 64)]


@pytest.mark.parametrize("choice", ["split=4", "group=8", "persistent=132"])
@pytest.mark.parametrize("modulo", [None, 7])
def test_a_choice_that_a_kernel_does_not_know_is_refused(choice: str, modulo: int | None) -> None:
    m, k = axes("m k")
    x = f.tensor("X", (64, 4096), "i32")
    product = f.define("Y", [m], f.sum(k, x[m, k], modulo=modulo))
    each = f.define("Y", [m, k], x[m, k] + 1)
    for result in (product, each):
        if result is product and modulo is None and choice.startswith("split"):
            assert len(lowered(result, configs={"Y": Config.parse(choice)}).kernels) == 2
            continue
        with pytest.raises(UsageError, match=choice.split("=")[0]):
            lowered(result, configs={"Y": Config.parse(choice)})


@pytest.mark.parametrize("modulo", [None, 7])
def test_every_choice_that_a_kernel_offers_is_taken(modulo: int | None) -> None:
    m, k = axes("m k")
    x = f.tensor("X", (4, 1 << 16), "i32")
    product = f.define("Y", [m], f.sum(k, x[m, k], modulo=modulo))
    offered = lowered(product).kernels[0].domain
    assert ("split" in offered) == (modulo is None)
    for choice, values in offered.items():
        for value in values:
            assert lowered(product, configs={"Y": Config(**{choice: value})}).kernels


@given(st.sampled_from([16, 32, 64]), st.sampled_from([16, 128]), st.sampled_from([1, 4]),
       st.sampled_from([0, 3]))  # fmt: skip
def test_every_source_is_python_that_names_only_what_it_has(
    m: int, n: int, split: int, persistent: int
) -> None:
    config = Config(m=m, n=n, k=32, split=split, persistent=persistent)
    for kernel in lowered(matmul(100, 70, 500), configs={"C": config}).kernels:
        tree = ast.parse(kernel.text)
        function = next(
            x for x in tree.body if isinstance(x, ast.FunctionDef) and x.name == kernel.name
        )
        known = {a.arg for a in function.args.args} | {"tl", "range", "float", "triton"}
        known |= {x.name for x in tree.body if isinstance(x, ast.FunctionDef)}
        names = [x for x in ast.walk(function) if isinstance(x, ast.Name)]
        known |= {x.id for x in names if isinstance(x.ctx, ast.Store)}
        assert {x.id for x in names if isinstance(x.ctx, ast.Load)} <= known


def test_the_same_program_gives_the_same_source() -> None:
    assert lowered(attention(1, 2, 32, 16)).source == lowered(attention(1, 2, 32, 16)).source


def test_tensors_may_have_names_that_kernels_use() -> None:
    m, n = axes("tl pid")
    found = lowered(f.define("acc", [m, n], f.tensor("range", (8, 8))[m, n] + 1.0))
    ast.parse(found.source)
    assert "range_ptr" in found.source and "acc_ptr" in found.source


@given(st.builds(Config, *[st.sampled_from([0, 1, 2, 16, 128])] * 8))
def test_the_text_of_tiles_parses_back(config: Config) -> None:
    assert Config.parse(str(config)) == config


@pytest.mark.parametrize("text", ["m=3", "m=x", "q=4", "m", "m=-2"])
def test_tiles_that_make_no_sense_are_refused(text: str) -> None:
    with pytest.raises(PlanishError):
        Config.parse(text)
    with pytest.raises((RecipeError, UsageError)):
        Config.parse(f"m=16 {text}")


def test_what_has_no_lowering_is_refused_with_the_reason() -> None:
    m, n = axes("m n")
    with pytest.raises(UsageError, match="empty"):
        lowered(f.define("Y", [m, n], f.tensor("X", (0, 3))[m, n] + 1.0))
    with pytest.raises(UsageError, match="precision"):
        lowered(matmul(64, 64, 64), precision="f24")
    with pytest.raises(UsageError, match="kernel"):
        lowered(matmul(64, 64, 64), configs={"D": Config(m=16)})


def test_bytes_are_converted_in_packs() -> None:
    i, j, x = axes("m n k")
    a, b = f.tensor("A", (64, 64), "i8"), f.tensor("B", (64, 64), "bf16")
    total = f.sum(x, cast(a[i, x], "f32") * b[x, j])
    assert "_i8_to_bf16(" in lowered(f.define("C", [i, j], total, "bf16")).source


def test_products_of_single_rows_are_no_work_for_matrix_units() -> None:
    assert forms(lowered(matmul(1, 64, 64))) == ["tile"]


def test_a_long_reduction_to_few_points_keeps_a_gpu_busy() -> None:
    m, n = axes("m n")
    x = f.tensor("X", (4096, 4096))
    first, second = lowered(f.define("Y", [], f.sum([m, n], x[m, n]))).kernels
    assert first.grid[2] >= 256 and second.grid == (1, 1, 1)
    assert len(lowered(f.define("Y", [m], f.sum(n, x[m, n]))).kernels) == 1


def test_an_axis_may_be_called_part() -> None:
    part, n, k = axes("part n k")
    a, b = f.tensor("A", (64, 4096), "f16"), f.tensor("B", (4096, 64), "f16")
    product = f.define("C", [part, n], f.sum(k, a[part, k] * b[k, n]))
    found = lowered(product, configs={"C": Config(split=4)})
    assert len(found.kernels) == 2
    ast.parse(found.source)
