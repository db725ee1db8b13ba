"""Floating-point results: folded where IEEE 754 tells them, and no refutation where it does not."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.base.records import Grade
from planish.verify import ieee
from planish.verify.requests import FunctionVerdict
from planish.verify.verify import Limits, Verifier

np = pytest.importorskip("numpy")
BITS = st.one_of(
    st.integers(0, 2**32 - 1),
    st.floats(width=32).map(lambda a: struct.unpack("<I", struct.pack("<f", a))[0]),
)
LIMITS = Limits(seconds=5)


def _verify(verifier: Verifier, before: str, after: str, *, proofs: bool) -> FunctionVerdict:
    limits = Limits(seconds=LIMITS.seconds, proofs=proofs)
    report = verifier.verify(before.encode(), after.encode(), limits=limits, functions=["f"])
    return report.functions[0]


@given(BITS, BITS, st.sampled_from(["add", "subtract", "multiply", "divide", "fmod"]))
def test_an_operation_on_floats_is_rounded_once_or_left_open(a: int, b: int, name: str) -> None:
    x, y = np.array([a, b], np.uint32).view(np.float32)
    op = {"subtract": "fsub", "fmod": "frem", "multiply": "fmul"}.get(name, f"f{name[:3]}")
    found = ieee.apply(f"{op}_32_32", [(a, 32), (b, 32)], 32)
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x, y)
    if math.isnan(wanted):
        assert found is None
    elif found is None:  # numbers that some machines take for zero, and what is rounded to zero
        assert any(abs(float(number)) <= 2.0**-126 for number in (x, y, wanted))
    else:
        assert found == int(wanted.view(np.uint32))
    assert ieee.apply(f"{op}_32_32_reassoc", [(a, 32), (b, 32)], 32) is None


@given(BITS, st.sampled_from([8, 32, 64]), st.booleans())
def test_a_number_that_no_integer_holds_is_told(a: int, width: int, signed: bool) -> None:
    op = "fptosi" if signed else "fptoui"
    number = struct.unpack("<f", struct.pack("<I", a))[0]
    outside = ieee.apply(f"{op}_range_32_{width}", [(a, 32)], 1)
    if outside is None:
        assert 0 < abs(number) < 2.0**-126
        return
    held = ieee.apply(f"{op}_32_0_{width}", [(a, 32)], width)
    assert (held is None) == bool(outside)
    if held is not None:
        whole = held - (1 << width) if signed and held >> (width - 1) else held
        assert whole == math.trunc(number)


# Whole numbers at the edge of their range, which runs are begun with, are NaNs.
SUM = """define i32 @f(ptr noundef %p, i32 noundef %a, i32 noundef %b) {{
  %x = bitcast i32 %a to float
  %y = bitcast i32 %b to float
  {}
  {}
}}"""
RETURNED = "%r = bitcast float %z to i32\n  ret i32 %r"
STORED = "store float %z, ptr %p\n  ret i32 0"


# Both operands are used again, so that the code generator keeps their order.
TWICE = """%z = fadd float {}
  %d = fmul float %x, %y
  %q = getelementptr i8, ptr %p, i64 4
  store float %d, ptr %q"""


@pytest.mark.parametrize("use", [RETURNED, STORED])
@pytest.mark.parametrize("proofs", [True, False])
def test_which_nan_a_result_is_refutes_nothing(use: str, proofs: bool, verifier: Verifier) -> None:
    before, after = (SUM.format(TWICE.format(order), use) for order in ("%x, %y", "%y, %x"))
    found = _verify(verifier, before, after, proofs=proofs)
    assert found.grade is (Grade.PROVED if proofs else Grade.TESTED)
    wrong = after.replace("fadd", "fsub")
    assert _verify(verifier, before, wrong, proofs=proofs).grade is Grade.REFUTED


@pytest.mark.parametrize("op", ["fadd", "fmul"])
def test_what_is_taken_for_granted_of_a_nan_is_said(op: str, verifier: Verifier) -> None:
    before = SUM.format(f"%z = {op} float %x, %y", RETURNED)
    after = SUM.format(f"%z = {op} float %y, %x", RETURNED)
    found = _verify(verifier, before, after, proofs=True)
    assert found.grade is Grade.PROVED and any("NaN" in words for words in found.assumptions)


def test_both_conversions_of_what_is_not_negative_are_one(verifier: Verifier) -> None:
    before = """define double @f(i32 noundef %a) {
  %n = lshr i32 %a, 1
  %r = sitofp i32 %n to double
  ret double %r
}"""
    after = before.replace("sitofp", "uitofp nneg")
    assert _verify(verifier, before, after, proofs=True).grade is Grade.PROVED
    wrong = after.replace("lshr i32 %a, 1", "add i32 %a, 0")
    negative = before.replace("lshr i32 %a, 1", "add i32 %a, 0")
    assert _verify(verifier, negative, wrong, proofs=True).grade is not Grade.PROVED


PRODUCT = """declare double @llvm.fmuladd.f64(double, double, double)
define double @f(i1 noundef %c, double noundef %x, double noundef %y) {{
  {}
  ret double %z
}}"""


@pytest.mark.parametrize("first", ["double %v, double 3.0", "double 3.0, double %v"])
def test_the_order_of_a_product_is_no_matter(first: str, verifier: Verifier) -> None:
    select = "%v = select i1 %c, double %x, double %y\n  "
    call = "%z = call double @llvm.fmuladd.f64({}, double %x)"
    before = PRODUCT.format(select + call.format("double %v, double 3.0"))
    other = "%n = xor i1 %c, true\n  %v = select i1 %n, double %y, double %x\n  "
    after = PRODUCT.format(other + call.format(first))
    assert _verify(verifier, before, after, proofs=True).grade is Grade.PROVED
    wrong = after.replace("double %y, double %x\n", "double %x, double %y\n")
    assert _verify(verifier, before, wrong, proofs=True).grade is not Grade.PROVED
