"""Names of kernels without their arguments."""

from __future__ import annotations

import pytest

from planish.trace.names import short


@pytest.mark.parametrize(
    ("name", "shortened"),
    [
        ("void f<int>(float*)", "f<int>"),
        ("f(int)", "f"),
        ("plain", "plain"),
        ("void n::f<float, (Kind)2>(n::x, float const*)", "n::f<float, (Kind)2>"),
        ("void f<4, g<2>(int)::{lambda(float)#1}>(int)", "f<4, g<2>(int)::{lambda(float)#1}>"),
        ("n::(anonymous namespace)::f<2>(int)", "n::(anonymous namespace)::f<2>"),
        ("f::operator()(int) const", "f::operator()"),
        ("f<a->b>(int)", "f<a->b>"),
        ("f<(a>b)(int)", "f<(a>b)"),
        ("Memcpy DtoH (Device -> Pinned)", "Memcpy DtoH (Device -> Pinned)"),
        ("(int)", "(int)"),
    ],
)
def test_short(name: str, shortened: str) -> None:
    assert short(name) == shortened
