"""What is refuted becomes small: pass lists by our own search, modules by llvm-reduce."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planish.verify import reduction


@settings(max_examples=100)
@given(st.lists(st.integers(0, 9), min_size=1, max_size=30), st.data())
def test_the_shortest_list_breaks_and_no_pass_of_it_can_go(
    numbers: list[int], data: st.DataObject
) -> None:
    passes = tuple(f"p{number}" for number in numbers)
    needed = data.draw(st.lists(st.sampled_from(range(len(passes))), min_size=1, unique=True))
    wanted = [passes[at] for at in sorted(needed)]

    def breaks(some: tuple[str, ...]) -> bool:  # the wanted passes, in their order
        left = iter(some)
        return all(name in left for name in wanted)

    first, kept = reduction.shortest(passes, breaks)
    assert breaks(kept)
    assert not any(breaks(kept[:at] + kept[at + 1 :]) for at in range(len(kept)))
    prefix = next(at for at in range(len(passes)) if breaks(passes[: at + 1]))
    assert first == passes[prefix]


@pytest.mark.skipif(reduction.find_reducer() is None, reason="no llvm-reduce")
def test_a_module_shrinks_to_what_the_test_needs() -> None:
    text = b"""define i32 @f(i32 %x, i32 %y) {
  %a = add i32 %x, 1
  %b = sdiv i32 %a, %y
  %c = mul i32 %b, 3
  ret i32 %c
}
define i32 @g(i32 %x) {
  ret i32 %x
}
"""
    small = reduction.smaller(text, ["grep", "sdiv"], seconds=60)
    assert b"sdiv" in small and b"@g" not in small and b"mul" not in small
