"""What is known of callers and callees: local functions, library functions, calls in order."""

from __future__ import annotations

import pytest

from planish.base.records import Grade
from planish.verify.verify import Limits, Verifier

LIMITS = Limits(bound=2, seconds=10)


def _grade(verifier: Verifier, before: str, after: str, name: str = "f") -> Grade:
    report = verifier.verify(before.encode(), after.encode(), limits=LIMITS, functions=[name])
    return report.functions[0].grade


LOCAL = """define internal i32 @f(i32 noundef %n) noinline {{
  %r = {body}
  ret i32 %r
}}
define i32 @main() {{
  %r = call i32 @f(i32 3)
  ret i32 %r
}}"""


def test_a_local_function_that_relies_on_its_callers_is_not_refuted(verifier: Verifier) -> None:
    before = LOCAL.format(body="mul i32 %n, 5")
    known = LOCAL.format(body="add i32 0, 15")
    ranged = LOCAL.format(body="and i32 %n, 15").replace("noundef %n", "noundef range(i32 3, 4) %n")
    assert _grade(verifier, before, known) is Grade.UNKNOWN
    assert _grade(verifier, before, ranged) is Grade.UNKNOWN
    wrong = LOCAL.format(body="mul i32 %n, 6")
    assert _grade(verifier, before, wrong) is Grade.REFUTED
    outside = (text.replace("internal ", "") for text in (before, known))
    assert _grade(verifier, *outside) is Grade.REFUTED


def test_a_miscompile_of_a_specialised_function_is_refuted_at_its_callers(
    verifier: Verifier,
) -> None:
    text = LOCAL.replace("@main()", "@main(i32 noundef %n)").replace("@f(i32 3)", "@f(i32 %m)")
    text = text.replace("{{\n  %r = call", "{{\n  %m = and i32 %n, 7\n  %r = call")
    before = text.format(body="mul i32 %n, 8")
    ranged = text.replace("noundef %n) noinline", "noundef range(i32 0, 8) %n) noinline")
    right, wrong = (ranged.format(body=f"{op} i32 %n, 3") for op in ("shl", "lshr"))
    for after, grade in ((right, Grade.PROVED), (wrong, Grade.REFUTED)):
        assert _grade(verifier, before, after, "main") is grade
    assert _grade(verifier, before, wrong) is Grade.UNKNOWN


SLOT = """define i32 @f(i32 noundef %n) {{
  %s = alloca i32
  %p = alloca ptr
  store i32 %n, ptr %s
  store ptr %s, ptr %p
  %q = load ptr, ptr %p, !nonnull !0
  %v = load i32, ptr %q
  %r = add i32 %v, {}
  ret i32 %r
}}
!0 = !{{}}"""


def test_the_address_of_a_slot_is_not_null(verifier: Verifier) -> None:
    plain = "define i32 @f(i32 noundef %n) {{\n  %r = add i32 %n, {}\n  ret i32 %r\n}}"
    assert _grade(verifier, SLOT.format(1), plain.format(1)) is Grade.PROVED
    assert _grade(verifier, SLOT.format(1), plain.format(2)) is Grade.REFUTED


FREES = """declare void @free(ptr) nounwind
define void @f(ptr noundef %p, ptr noundef %q) {{
  {}
}}"""
ALWAYS = "call void @free(ptr noundef %p)\n  ret void"
GUARDED = """%c = icmp eq ptr %{}, null
  br i1 %c, label %out, label %in
in:
  call void @free(ptr noundef %p)
  br label %out
out:
  ret void"""


def test_free_of_null_does_nothing(verifier: Verifier) -> None:
    always = FREES.format(ALWAYS)
    assert _grade(verifier, FREES.format(GUARDED.format("p")), always) is Grade.PROVED
    assert _grade(verifier, always, FREES.format(GUARDED.format("p"))) is Grade.PROVED
    # Guarded by another pointer, and with a function that is not free, it is another program.
    other = FREES.format(GUARDED.format("q"))
    assert _grade(verifier, other, always) not in (Grade.PROVED, Grade.PROVED_TO_BOUND)
    pair = (FREES.format(GUARDED.format("p")).replace("@free", "@g"), always.replace("@free", "@g"))
    assert _grade(verifier, *pair) not in (Grade.PROVED, Grade.PROVED_TO_BOUND)


LENGTH = """declare i64 @NAME(ptr) nounwind willreturn memory(read)
define i1 @f(ptr noundef %p) {
  %n = call i64 @NAME(ptr noundef %p)
  %c = icmp eq ptr %p, null
  ret i1 %c
}"""


def test_what_a_library_function_reads_is_not_null(verifier: Verifier) -> None:
    for name, wanted in (("strlen", Grade.PROVED), ("g", Grade.UNKNOWN)):
        before = LENGTH.replace("NAME", name)
        assert _grade(verifier, before, before.replace("i1 %c\n", "i1 false\n")) is wanted


CALLS = """declare i32 @g(i32, ptr)
define i32 @f(i32 noundef %n, ptr noundef %p) {{
  %a = call i32 @g(i32 noundef {}, ptr noundef %p)
  %b = call i32 @g(i32 noundef {}, ptr noundef %p)
  %r = sub i32 %a, %b
  ret i32 %r
}}"""


def test_calls_that_a_solver_finds_the_same_are_matched_in_order(verifier: Verifier) -> None:
    before = CALLS.format("%n", "7").replace("  %a", "  %m = mul i32 %n, 3\n  %a")
    before = before.replace("noundef %n, ptr noundef %p)\n", "noundef %m, ptr noundef %p)\n", 1)
    after = before.replace("mul i32 %n, 3", "sub i32 %t, %n").replace(
        "  %m", "  %t = shl i32 %n, 2\n  %m"
    )
    assert "%t" in after and "i32 noundef %m" in after
    assert _grade(verifier, before, after) is Grade.PROVED
    assert (
        _grade(verifier, before, after.replace("shl i32 %n, 2", "shl i32 %n, 3")) is Grade.UNKNOWN
    )
    swapped = CALLS.format("7", "%n")
    assert _grade(verifier, CALLS.format("%n", "7"), swapped) is Grade.UNKNOWN


PROMISED = """declare void @g(ptr)
define i1 @f(ptr noundef %p) {{
  call void @g(ptr {} %p)
  %c = icmp eq ptr %p, null
  ret i1 {}
}}"""


def test_null_for_nonnull_is_undefined_where_it_is_noundef_too(verifier: Verifier) -> None:
    both = [PROMISED.format("noundef nonnull", result) for result in ("%c", "false")]
    assert _grade(verifier, *both) is Grade.PROVED
    # Without noundef it is poison, which the callee may ignore.
    for flag in ("nonnull", "noundef"):
        some = [PROMISED.format(flag, result) for result in ("%c", "false")]
        assert _grade(verifier, *some) is not Grade.PROVED


CLASS = """declare i1 @llvm.is.fpclass.f64(double, i32)
define i1 @f(double noundef %x) {{
  %r = {}
  ret i1 %r
}}"""


@pytest.mark.parametrize(
    ("mask", "same"),
    [(3, "fcmp uno double %x, 0.0"), (96, "fcmp oeq double %x, 0.0"),
     (512, "fcmp oeq double %x, 0x7FF0000000000000"), (28, "fcmp olt double %x, 0.0"),
     (896, "fcmp ogt double %x, 0.0")],
)  # fmt: skip
def test_classes_of_numbers_are_exact(verifier: Verifier, mask: int, same: str) -> None:
    call = "call i1 @llvm.is.fpclass.f64(double %x, i32 {})"
    assert _grade(verifier, CLASS.format(call.format(mask)), CLASS.format(same)) is Grade.PROVED
    other = CLASS.format(call.format(mask ^ 4))
    assert _grade(verifier, other, CLASS.format(same)) is Grade.REFUTED


INBOUNDS = """define i1 @f(ptr noundef %p) {{
  %q = getelementptr {} i8, ptr %p, i64 8
  %v = load i8, ptr %q
  %c = icmp eq ptr %p, null
  ret i1 {}
}}"""


def test_null_has_no_bounds(verifier: Verifier) -> None:
    assert _grade(verifier, *(INBOUNDS.format("inbounds", r) for r in ("%c", "false"))) is (
        Grade.PROVED
    )
    assert _grade(verifier, *(INBOUNDS.format("", r) for r in ("%c", "false"))) is not Grade.PROVED


ATOMIC = """define void @f(ptr noundef %p) {{
  store atomic i32 {}, ptr %p monotonic, align 4
  ret void
}}"""


def test_an_atomic_store_is_known_by_its_operands(verifier: Verifier) -> None:
    before = ATOMIC.format("%z").replace("  store", "  %z = sub i32 5, 5\n  store")
    assert _grade(verifier, before, ATOMIC.format(0)) is Grade.PROVED
    assert _grade(verifier, before, ATOMIC.format(1)) is not Grade.PROVED
