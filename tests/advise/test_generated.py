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
