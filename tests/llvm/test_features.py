"""Features: one number for each that is described, sensible on modules of known shape."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from planish.llvm.features import FEATURES, features
from planish.llvm.requests import Describe, Job
from planish.proc.pool import Call, Pool

_TEXT = """
@.str = private unnamed_addr constant [6 x i8] c"hello\\00", align 1
@counter = dso_local global i32 0, align 4

declare i32 @puts(ptr)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

define internal i32 @twice(i32 %x) #0 {
entry:
  %y = add nsw i32 %x, %x
  ret i32 %y
}

define dso_local i32 @main(i32 %argc, ptr %argv) #0 {
entry:
  %a = call i32 @twice(i32 %argc)
  %b = call i32 @puts(ptr @.str)
  %f = load ptr, ptr %argv, align 8
  %c = call i32 %f(i32 1)
  br label %next

next:
  ret i32 %a
}
"""


def _named(text: str) -> dict[str, float]:
    return dict(zip(FEATURES, features(text), strict=True))


def test_what_is_counted() -> None:
    found = _named(_TEXT)
    assert found["size"] == math.log2(1 + 8)
    assert found["functions"] == math.log2(1 + 2)
    assert found["largest"] == 6 / 8
    assert found["internal"] == 0.5
    assert found["parameters"] == 1.5
    assert found["outside"] == 1 / 3 and found["indirect"] == 1 / 3
    assert found["op call"] == 3 / 8 and found["op return"] == 2 / 8
    assert found["strings"] == math.log2(1 + 100 * 6 / 8)
    assert found["globals"] == math.log2(1 + 100 / 8)
    shares = [value for name, value in found.items() if name.startswith("op ")]
    assert sum(shares) == 1


@given(st.text(max_size=200))
def test_every_text_has_finite_features(text: str) -> None:
    assert all(math.isfinite(value) for value in features(text))


def test_a_worker_describes_a_module(builder_pool: Pool) -> None:
    [reply] = builder_pool.run([Call((), Describe(Job("sample")), ("sample",))])
    assert reply.failure is None and len(reply.value.features) == len(FEATURES)
    assert _shares(reply.value.features) == 1.0


def _shares(values: tuple[float, ...]) -> float:
    named = dict(zip(FEATURES, values, strict=True))
    return round(sum(value for name, value in named.items() if name.startswith("op ")), 6)
