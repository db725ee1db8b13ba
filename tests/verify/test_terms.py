"""Simplified terms mean what plain arithmetic means; what is built folds to the same number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planish.verify import integers, rebuild
from planish.verify import terms as t

WIDTH = 8
NUMBERS = st.integers(0, 255)
BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}


def _signed(value: int, width: int = WIDTH) -> int:
    return value - (1 << width) if value >> (width - 1) else value


@given(NUMBERS, NUMBERS, st.sampled_from(sorted(BINARY)))
def test_constants_fold_and_variables_substitute_to_the_same(a: int, b: int, op: str) -> None:
    x, y = t.var("x", WIDTH), t.var("y", WIDTH)
    symbolic, _, _ = integers.binary(op, x, y, frozenset())
    [folded] = rebuild.substitute([symbolic], {x: t.bv(a, WIDTH), y: t.bv(b, WIDTH)})
    assert t.value_of(folded) == BINARY[op](a, b) & 255


@given(NUMBERS, NUMBERS, st.sampled_from(["add", "sub", "mul"]), st.booleans())
def test_overflow_is_what_leaves_the_range(a: int, b: int, op: str, signed: bool) -> None:
    exact = BINARY[op](*((_signed(a), _signed(b)) if signed else (a, b)))
    low, high = (-128, 127) if signed else (0, 255)
    x, y = t.var("x", WIDTH), t.bv(b, WIDTH)
    over = integers.overflows(op, x, y, signed=signed)
    [folded] = rebuild.substitute([over], {x: t.bv(a, WIDTH)})
    assert folded is t.boolean(not low <= exact <= high)


@given(NUMBERS, NUMBERS, st.sampled_from(["eq", "ne", "ult", "ule", "sgt", "sge", "slt", "ugt"]))
def test_comparisons_after_extension(a: int, b: int, predicate: str) -> None:
    x, y = t.var("x", WIDTH), t.var("y", WIDTH)
    mapping = {x: t.bv(a, WIDTH), y: t.bv(b, WIDTH)}
    for extend in (t.zext, t.sext):
        symbolic = integers.compare(predicate, extend(x, 16), extend(y, 16))
        plain = integers.compare(predicate, extend(t.bv(a, WIDTH), 16), extend(t.bv(b, WIDTH), 16))
        assert rebuild.substitute([symbolic], mapping) == [plain]


@given(st.integers(0, 2**32 - 1))
def test_bytes_of_a_word_meet_again(value: int) -> None:
    x = t.var("w", 32)
    parts = [t.extract(x, 8 * at + 7, 8 * at) for at in range(4)]
    whole = t.concat(t.concat(t.concat(parts[3], parts[2]), parts[1]), parts[0])
    assert whole is x
    swapped = integers.reverse(t.bv(value, 32), 8)
    assert t.value_of(swapped) == int.from_bytes(value.to_bytes(4, "little"), "big")


@given(NUMBERS, st.integers(0, 20))
def test_counting_bits(a: int, amount: int) -> None:
    word = t.bv(a, WIDTH)
    assert t.value_of(integers.count_ones(word)) == a.bit_count()
    assert t.value_of(integers.leading_zeros(word)) == WIDTH - a.bit_length()
    rotated = integers.funnel(word, word, t.bv(amount, WIDTH), left=True)
    k = amount % WIDTH
    assert t.value_of(rotated) == (a << k | a >> (WIDTH - k)) & 255


def test_disjunction_of_both_branches_is_the_common_part() -> None:
    path, c = t.var("path", t.BOOL), t.var("c", t.BOOL)
    assert t.either(t.and_(path, c), t.and_(path, t.not_(c))) is path
    assert t.and_(c, t.not_(t.or_(c, path))) is t.FALSE
    assert t.or_(c, t.not_(t.and_(c, path))) is t.TRUE
