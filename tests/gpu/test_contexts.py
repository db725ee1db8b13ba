"""Calling contexts of GPU code: shares by call sites, circles, and that nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.gpu.contexts import gpu_contexts
from planish.gpu.sass import Control, Function, parse_instruction, parse_sass


def function(name: str, *calls: str) -> Function:
    """A function that calls these, one instruction each."""
    texts = [f"CALL.REL.NOINC `({callee})" for callee in calls] + ["EXIT"]
    code = [parse_instruction(16 * i, text, Control()) for i, text in enumerate(texts)]
    return Function(name, code, [(i + 1,) if i + 1 < len(code) else () for i in range(len(code))])


def tree(functions: list[Function], samples: dict[str, dict[int, float]]) -> dict[str, float]:
    """Path to own samples."""
    nodes = gpu_contexts(functions, samples)
    paths: list[str] = []
    for node in nodes:
        above = paths[node.parent] + ">" if node.parent >= 0 else ""
        paths.append(f"{above}{node.function}" + (f"@{node.site}" if node.site >= 0 else ""))
    return dict(zip(paths, [node.own for node in nodes], strict=True))


def test_shared_by_the_samples_of_the_call_sites() -> None:
    functions = [function("kernel", "f", "f", "g"), function("f"), function("g", "f")]
    samples = {"kernel": {0: 6.0, 1: 2.0, 2: 1.0, 3: 1.0}, "f": {0: 100.0}, "g": {0: 2.0, 1: 3.0}}
    # f is called from kernel (6 and 2) and from g (2): 60 %, 20 %, 20 %
    assert tree(functions, samples) == pytest.approx(
        {"kernel": 10, "kernel>f@0": 60, "kernel>f@1": 20, "kernel>g@2": 5, "kernel>g@2>f@0": 20}
    )


def test_sites_without_samples() -> None:
    functions = [function("kernel", "f", "f", "never"), function("f"), function("never")]
    samples = {"kernel": {3: 1.0}, "f": {0: 10.0}}
    # f ran though no site was sampled: each weighs one; what never ran is pruned
    assert tree(functions, samples) == {"kernel": 1, "kernel>f@0": 5, "kernel>f@1": 5}


def test_circles_are_one_node() -> None:
    functions = [function("kernel", "f"), function("f", "g"), function("g", "f")]
    samples = {"kernel": {0: 1.0}, "f": {0: 4.0}, "g": {0: 5.0}}
    assert tree(functions, samples) == {"kernel": 1, "kernel>f, g@0": 9}


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=3), min_size=6, max_size=6),
    st.lists(st.integers(0, 9), min_size=24, max_size=24),
)
def test_nothing_is_lost(calls: list[list[int]], counts: list[int]) -> None:
    functions = [function(f"f{i}", *(f"f{c}" for c in row)) for i, row in enumerate(calls)]
    samples = {
        f"f{i}": {j: float(counts[4 * i + j]) for j in range(len(row) + 1)}
        for i, row in enumerate(calls)
    }
    nodes = gpu_contexts(functions, samples)
    assert sum(node.own for node in nodes) == pytest.approx(sum(counts[4 * i + j]
        for i, row in enumerate(calls) for j in range(len(row) + 1)))  # fmt: skip
    for number, node in enumerate(nodes):
        below = sum(n.total for n in nodes if n.parent == number)
        assert node.total == pytest.approx(node.own + below)


def test_functions_behind_a_kernel_are_told_apart() -> None:
    text = """.section .text._Z6kernelPf,"ax",@progbits
        /*0000*/  CALL.REL.NOINC `($_Z6kernelPf$_Z3divff) ;  /* 0x0000000000000000 */
                                                             /* 0x0000000000000000 */
        /*0010*/  EXIT ;  /* 0x0000000000000000 */
                          /* 0x0000000000000000 */
$_Z6kernelPf$_Z3divff:
        /*0020*/  MUFU.RCP R2, R3 ;  /* 0x0000000000000000 */
                                     /* 0x0000000000000000 */
        /*0030*/  RET.REL.NODEC R20 `(_Z6kernelPf) ;  /* 0x0000000000000000 */
                                                      /* 0x0000000000000000 */
"""
    kernel, callee = parse_sass(text)
    assert kernel.code[0].calls == callee.name == "$_Z6kernelPf$_Z3divff"
    assert [i.offset for i in callee.code] == [0x20, 0x30]
