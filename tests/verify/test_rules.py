"""Rules of the code generator, proved for all values at every width that they are used for.

The rule's own function emits its instructions; those are read as bit vectors and compared with
what the language says of the operation at the width of the type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from planish.codegen.arithmetic import Arithmetic, _holds
from planish.tensor.types import BOOL, I8, I16, I32, I64, U8, Type

z3 = pytest.importorskip("z3")

INTEGERS = (I8, U8, I16, I32, I64)
# What vector instructions do in lanes of their type.
_DO: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b,
    "neg": lambda a: -a, "abs": lambda a: z3.If(a < 0, -a, a),
    "min": lambda a, b: z3.If(a < b, a, b), "max": lambda a, b: z3.If(a > b, a, b),
}  # fmt: skip
_PREDICATES: dict[str, Callable[[Any, Any], Any]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b, "gt": lambda a, b: a > b, "ge": lambda a, b: a >= b,
}  # fmt: skip


def _lane(type: Type) -> int:
    return 64 if type.computed == "i64" else 32


def _carried(value: Any, type: Type) -> Any:
    """A value of the type's own width, as the lane that carries it."""
    more = _lane(type) - value.size()
    return z3.SignExt(more, value) if type.signed else z3.ZeroExt(more, value)


def _width(type: Type) -> int:
    return 1 if type.name == "bool" else type.bits


def _evaluate(emit: Callable[[Arithmetic, list[int]], int], values: list[Any]) -> Any:
    """What the emitted instructions leave in the result's register."""
    items: list[Any] = []
    arithmetic = Arithmetic(items, 8)
    registers = [arithmetic.new() for _ in values]
    held = dict(zip(registers, values, strict=True))
    result = emit(arithmetic, registers)
    for ins in items:
        bits = 64 if ins.type == "i64" else 32
        given = [held[at] for at in ins.src]
        if ins.op == "const":
            held[ins.dst] = z3.BitVecVal(int(ins.imm), bits)
        elif ins.op in ("shl", "sra", "srl"):
            by = z3.BitVecVal(ins.imm, bits)
            held[ins.dst] = {"shl": given[0] << by, "sra": given[0] >> by,
                             "srl": z3.LShR(given[0], by)}[ins.op]  # fmt: skip
        elif ins.op == "cmpsel":
            held[ins.dst] = z3.If(_PREDICATES[ins.imm[0]](*given[:2]), *given[2:])
        elif ins.op == "cvt":
            wider = bits - given[0].size()
            held[ins.dst] = (z3.SignExt(wider, given[0]) if wider > 0
                             else z3.Extract(bits - 1, 0, given[0]))  # fmt: skip
        else:
            held[ins.dst] = _DO[ins.op](*given)
    return held[result]


def _prove(claim: Any) -> None:
    solver = z3.Solver()
    solver.set("timeout", 20_000)
    solver.add(z3.Not(claim))
    result = solver.check()
    assert result == z3.unsat, solver.model() if result == z3.sat else result


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "neg", "abs", "min", "max", "not"])
def test_an_operation_in_lanes_is_that_of_the_type(name: str, type: Type) -> None:
    count = 1 if name in ("neg", "abs", "not") else 2
    own = [z3.BitVec(f"x{at}", _width(type)) for at in range(count)]
    got = _evaluate(
        lambda arithmetic, r: arithmetic.operation(name, r, [type] * count, type),
        [_carried(value, type) for value in own],
    )
    if name == "not":
        wanted = ~own[0]
    elif type.signed or name in ("add", "sub", "mul", "neg"):
        wanted = _DO[name](*own)
    elif name == "abs":
        wanted = own[0]
    else:
        less = z3.ULT(own[0], own[1]) if name == "min" else z3.UGT(own[0], own[1])
        wanted = z3.If(less, own[0], own[1])
    _prove(got == _carried(wanted, type))


@pytest.mark.parametrize("type", INTEGERS, ids=str)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_comparison_in_lanes_is_that_of_the_type(name: str, type: Type) -> None:
    a, b = z3.BitVec("a", type.bits), z3.BitVec("b", type.bits)
    got = _evaluate(
        lambda arithmetic, r: arithmetic.operation(name, r, [type, type], BOOL),
        [_carried(a, type), _carried(b, type)],
    )
    unsigned = {"lt": z3.ULT, "le": z3.ULE, "gt": z3.UGT, "ge": z3.UGE}
    holds = _PREDICATES[name](a, b) if type.signed or name in ("eq", "ne") else unsigned[name](a, b)
    _prove(got == z3.If(holds, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32)))


@pytest.mark.parametrize("source", (*INTEGERS, BOOL), ids=str)
@pytest.mark.parametrize("target", (*INTEGERS, BOOL), ids=str)
def test_a_cast_in_lanes_is_that_of_the_types(source: Type, target: Type) -> None:
    """Also where no instruction is emitted, because every value of the source fits."""
    own = z3.BitVec("x", _width(source))
    got = _evaluate(lambda a, r: a.cast(r[0], source, target), [_carried(own, source)])
    if target is BOOL:
        wanted: Any = z3.If(own != 0, z3.BitVecVal(1, 32), z3.BitVecVal(0, 32))
    else:
        wide = z3.SignExt(64, own) if source.signed else z3.ZeroExt(64, own)
        wanted = _carried(z3.Extract(target.bits - 1, 0, wide), target)
    _prove(got == wanted)


@pytest.mark.parametrize("wide", (*INTEGERS, BOOL), ids=str)
@pytest.mark.parametrize("narrow", (*INTEGERS, BOOL), ids=str)
def test_that_a_type_holds_another_is_true_of_all_values(wide: Type, narrow: Type) -> None:
    if wide is BOOL or not _holds(wide, narrow):
        return  # a claim of too little costs an instruction, not a value
    own = z3.BitVec("x", _width(narrow))
    value = z3.SignExt(64, own) if narrow.signed else z3.ZeroExt(64, own)
    low = z3.Extract(wide.bits - 1, 0, value)
    size = value.size() - wide.bits
    back = z3.SignExt(size, low) if wide.signed else z3.ZeroExt(size, low)
    _prove(back == value)


@pytest.mark.parametrize(("exponent", "significand"), [(8, 24), (11, 53)])
def test_a_sum_may_be_made_as_a_product_by_one(exponent: int, significand: int) -> None:
    """Tiles make `a + b`, `a - b` and `b - a` as b * 1 + a, b * 1 - a and -(b * 1) + a.

    The first law says so of b - a; the others follow from it with -a and -b for a and b. Equal
    means the same value and sign, or NaN on both sides.
    """
    bitwuzla = pytest.importorskip("bitwuzla")
    kind, terms = bitwuzla.Kind, bitwuzla.TermManager()
    number = terms.mk_fp_sort(exponent, significand)
    a, b = (terms.mk_const(number, name) for name in "ab")
    nearest = terms.mk_rm_value(bitwuzla.RoundingMode.RNE)
    one = terms.mk_fp_value(number, nearest, "1")

    def minus(term: Any) -> Any:
        return terms.mk_term(kind.FP_NEG, [term])

    def rounded(operation: Any, *operands: Any) -> Any:
        return terms.mk_term(operation, [nearest, *operands])

    difference = rounded(kind.FP_SUB, b, a)
    for other in (
        rounded(kind.FP_FMA, b, one, minus(a)),
        rounded(kind.FP_ADD, b, minus(a)),
        rounded(kind.FP_ADD, minus(a), b),
    ):
        solver = bitwuzla.Bitwuzla(terms, bitwuzla.Options())
        solver.assert_formula(terms.mk_term(kind.DISTINCT, [difference, other]))
        assert solver.check_sat() == bitwuzla.Result.UNSAT
