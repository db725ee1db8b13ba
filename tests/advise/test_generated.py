"""Kernels that Planish generated are recognised in a trace, and a schedule step is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.traces import Builder

from planish.advise.rules import advise_trace
from planish.trace.marks import Mark, label, parse_label

WORDS = st.text(
    st.characters(codec="ascii", min_codepoint=33, exclude_characters=";[]#"), min_size=1
)


@given(st.lists(st.lists(WORDS, min_size=1, max_size=4), max_size=4), st.integers(1, 64))
def test_labels_read_back(steps: list[list[str]], threads: int) -> None:
    schedule = "\n".join(" ".join(step) for step in steps)
    name = label("Kernel(A f32[8, 8] -> C)", "native", threads, schedule)
    assert parse_label(name) == Mark(
        "Kernel(A f32(8, 8) -> C)", "native", threads, tuple(" ".join(step) for step in steps)
    )


def test_other_names_are_none() -> None:
    assert parse_label("aten::mm") is None
    assert parse_label("planish kernel without an end") is None


@pytest.mark.parametrize(
    ("schedule", "threads", "length", "word"),
    [
        ("", 1, 500, "`tile` or `vectorise`"),
        ("tile C m=8 n=48 vector n", 1, 500, "`pack`"),
        ("tile C m=8 n=48 vector n\nsplit C k 256", 1, 500, "`parallel`"),
        ("tile C m=8 n=48 vector n\nsplit C k 256\nparallel C m/64", 4, 500, "tune-kernel"),
        ("tile C m=8 n=48 vector n", 1, 5, "batch"),
    ],
)  # fmt: skip
def test_the_change_is_named(
    tmp_path: Path, schedule: str, threads: int, length: float, word: str
) -> None:
    name = label("Kernel(A, B -> C)", "native", threads, schedule)
    made = Builder()
    for i in range(4):
        made.host(name, 600 * i, length, cat="user_annotation")
    found = [a for a in advise_trace(made.trace(tmp_path)) if a.rule == "generated-kernel"]
    if length < 20:  # 20 us of 1.8 ms: a third of it is not worth a line
        assert not found or word in found[0].title
        return
    (advice,) = found
    assert word in advice.title
    assert "Kernel(A, B -> C)" in advice.where
    assert advice.evidence
    assert 1 < advice.speedup < 5


@pytest.mark.parametrize(
    ("recipe", "grid", "occupancy", "length", "words"),
    [
        ("out: m=64 n=64 k=32 warps=4 stages=3", 32, 60, 100, "m=32 n=32 or split=2"),
        ("out: m=64 n=64 k=32 warps=4 stages=3", 4000, 60, 5, "record the launches as a graph"),
        ("out: m=64 n=64 k=32 warps=4 stages=3", 4000, 12, 100, "warps=8"),
        ("out: m=64 n=64 k=32 warps=4 stages=1", 4000, 60, 100, "stages=3"),
        ("out: m=64 n=64 k=32 warps=4 stages=3", 4000, 60, 100, "try other tiles"),
    ],
)
def test_the_choice_of_a_gpu_kernel_is_named(
    tmp_path: Path, recipe: str, grid: int, occupancy: float, length: float, words: str
) -> None:
    name = label("GpuKernel(cuda:sm_90; out_kernel: contraction)", "cuda:sm_90", 0,
                 f"{recipe}\nprecision: ieee")  # fmt: skip
    made = Builder(head={"deviceProperties": [{"id": 0, "name": "H100", "numSms": 132}]})
    known = {"registers per thread": 168, "est. achieved occupancy %": occupancy}
    for i in range(4):
        at = 120.0 * i
        made.host(name, at, 10, cat="user_annotation")
        made.call("cuLaunchKernel", at + 2, 3, i + 1)
        made.kernel("out_kernel", at + 6, length, i + 1, grid=[grid, 1, 1], **known)
    # launched outside of the annotation: another's
    made.call("cuLaunchKernel", 500, 3, 99).kernel("other", 504, 100, 99, grid=[1, 1, 1])
    found = [a for a in advise_trace(made.trace(tmp_path)) if a.rule == "generated-kernel"]
    (advice,) = found
    assert words in advice.title
    assert "`out`" in advice.title
    assert "4 launches" in advice.detail
    assert advice.where == f"out_kernel; recipe: {recipe}; precision: ieee"
    assert advice.evidence
    assert 1 < advice.speedup < 5


def test_what_planish_returns_can_be_marked() -> None:
    """Both kinds of kernels bring what the label needs."""
    torch = pytest.importorskip("torch")
    import planish
    from planish.trace.marks import marked

    m, n, k = planish.axes("m n k")
    a, b = planish.tensor("A", (64, 64)), planish.tensor("B", (64, 64))
    product = planish.sum(k, a[m, k] * b[k, n])
    kernels = [planish.compile(product, store=False), planish.gpu_kernel(product)]
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for kernel in kernels:
            with marked(kernel):
                pass
    marks = [mark for event in profile.events() if (mark := parse_label(event.name))]
    assert [mark.gpu for mark in marks] == [False, True]
    assert marks[0].steps
    assert marks[1].steps[0].startswith("out: m=")


def test_a_kernel_under_a_profiler(tmp_path: Path) -> None:
    """End to end: compile, mark, profile with PyTorch where it is installed, advise."""
    torch = pytest.importorskip("torch")
    import numpy as np

    import planish
    from planish.trace.marks import marked

    product = planish.einsum("mk,kn->mn")
    a = np.ones((64, 64), np.float32)
    product(a, a)

    class Shown:
        program, target, threads, schedule = "mk,kn->mn", "native", 1, "tile C m=8 n=16 vector n"

        def __repr__(self) -> str:
            return "Kernel(mk,kn->mn)"

    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        for _ in range(3):
            with marked(Shown()):
                for _ in range(20):
                    product(a, a)
    path = tmp_path / "t.json"
    profile.export_chrome_trace(str(path))
    found = [x for x in planish.read_trace(path).advise() if x.rule == "generated-kernel"]
    assert found
    assert "3 calls" in found[0].detail
