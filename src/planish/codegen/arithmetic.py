"""Operations of the tensor language as vector instructions.

Integers below 32 bits and bool are carried in i32 lanes, sign- or zero-extended to their value;
what could leave their range is wrapped at once.
"""

from __future__ import annotations

from planish.codegen import elementary, vir
from planish.tensor.expr import COMPARISONS, Number
from planish.tensor.types import Type

_WRAPS = {"add", "sub", "mul", "neg", "abs", "not"}
_FUNCTIONS = {
    "exp": elementary.exp, "log": elementary.log, "tanh": elementary.tanh, "erf": elementary.erf,
}  # fmt: skip


_new = tuple.__new__


class Arithmetic:
    """Emits instructions into `items`; also the Builder of the elementary functions."""

    def __init__(self, items: list[vir.Ins], lanes: int) -> None:
        self.items = items
        self.lanes = lanes
        self.count = 0

    def new(self) -> int:
        """A fresh register."""
        self.count += 1
        return self.count - 1

    def emit(
        self,
        op: str,
        type: str,
        dst: int,
        src: tuple[int, ...] = (),
        *,
        ptr: int = -1,
        disp: int = 0,
        n: int = 0,
        imm: object = None,
    ) -> int:
        """One instruction; returns its result's register."""
        self.items.append(_new(vir.Ins, (op, type, dst, src, ptr, disp, n or self.lanes, imm)))
        return dst

    def load(self, op: str, type: str, ptr: int, disp: int, n: int, imm: object) -> int:
        """A load, bcast or gather into a fresh register."""
        register = self.count
        self.count = register + 1
        self.items.append(_new(vir.Ins, (op, type, register, (), ptr, disp, n, imm)))
        return register

    def op(self, name: str, type: str, *src: int, imm: object = None) -> int:
        """An operation into a fresh register."""
        register = self.count
        self.count = register + 1
        self.items.append(_new(vir.Ins, (name, type, register, src, -1, 0, self.lanes, imm)))
        return register

    def constant(self, value: Number, type: str) -> int:
        """A constant in all lanes."""
        return self.op("const", type, imm=value)

    def operation(self, name: str, values: list[int], types: list[Type], type: Type) -> int:
        """An operation of the language on values of these types."""
        computed = type.computed
        if name in COMPARISONS:
            compared = types[0].computed
            one, zero = self.constant(1, "i32"), self.constant(0, "i32")
            return self.choose(name, compared, values[0], values[1], one, zero, "i32")
        if name == "where":
            zero = self.constant(0, "i32")
            return self.choose("ne", "i32", values[0], zero, values[1], values[2], computed)
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](self, values[0], computed)
        if name == "rsqrt":
            root = self.op("sqrt", computed, values[0])
            return self.op("div", computed, self.constant(1.0, computed), root)
        if name == "not":
            flip = self.constant(1 if type.name == "bool" else -1, computed)
            return self.wrap(self.op("xor", computed, values[0], flip), type)
        found = self.op(name, computed, *values)
        return self.wrap(found, type) if name in _WRAPS or name == "div" else found

    def wrap(self, value: int, type: Type) -> int:
        """A value computed in i32 brought back into its narrower type."""
        if type.is_float or type.computed != "i32" or type.bits == 32 or type.name == "bool":
            return value
        if not type.signed:
            return self.op("and", "i32", value, self.constant((1 << type.bits) - 1, "i32"))
        by = 32 - type.bits
        return self.op("sra", "i32", self.op("shl", "i32", value, imm=by), imm=by)

    def cast(self, value: int, source: Type, target: Type) -> int:
        """A conversion, as `tensor.expr.Cast` says."""
        if target.name == "bool":
            zero = self.constant(0, source.computed)
            one, none = self.constant(1, "i32"), self.constant(0, "i32")
            return self.choose("ne", source.computed, value, zero, one, none, "i32")
        if source.computed != target.computed:
            value = self.op("cvt", target.computed, value, imm=source.computed)
        if target.name in ("f16", "bf16"):
            return self.op("narrow", "f32", value, imm=target.name)
        if not source.is_float and target.computed == "i32" and _holds(target, source):
            return value
        return self.wrap(value, target)

    def choose(
        self, pred: str, compared: str, a: int, b: int, x: int, y: int, type: str | None = None
    ) -> int:
        """`x` where `a pred b` holds in the type `compared`, else `y`."""
        chosen = type or compared
        return self.op("cmpsel", chosen, a, b, x, y, imm=(pred, compared))

    # The Builder of the elementary functions.

    def const(self, value: float | int, type: str) -> int:
        return self.constant(value, type)

    def add(self, a: int, b: int, type: str) -> int:
        return self.op("add", type, a, b)

    def sub(self, a: int, b: int, type: str) -> int:
        return self.op("sub", type, a, b)

    def mul(self, a: int, b: int, type: str) -> int:
        return self.op("mul", type, a, b)

    def div(self, a: int, b: int, type: str) -> int:
        return self.op("div", type, a, b)

    def min(self, a: int, b: int, type: str) -> int:
        return self.op("min", type, a, b)

    def max(self, a: int, b: int, type: str) -> int:
        return self.op("max", type, a, b)

    def fma(self, a: int, b: int, c: int, type: str) -> int:
        return self.op("fma", type, a, b, c)

    def fnma(self, a: int, b: int, c: int, type: str) -> int:
        return self.op("fnma", type, a, b, c)

    def abs(self, a: int, type: str) -> int:
        return self.op("abs", type, a)

    def neg(self, a: int, type: str) -> int:
        return self.op("neg", type, a)

    def sqrt(self, a: int, type: str) -> int:
        return self.op("sqrt", type, a)

    def round(self, a: int, type: str) -> int:
        return self.op("round", type, a)

    def and_(self, a: int, b: int, itype: str) -> int:
        return self.op("and", itype, a, b)

    def or_(self, a: int, b: int, itype: str) -> int:
        return self.op("or", itype, a, b)

    def xor(self, a: int, b: int, itype: str) -> int:
        return self.op("xor", itype, a, b)

    def shl(self, a: int, bits: int, itype: str) -> int:
        return self.op("shl", itype, a, imm=bits)

    def srl(self, a: int, bits: int, itype: str) -> int:
        return self.op("srl", itype, a, imm=bits)

    def sra(self, a: int, bits: int, itype: str) -> int:
        return self.op("sra", itype, a, imm=bits)

    def iadd(self, a: int, b: int, itype: str) -> int:
        return self.op("add", itype, a, b)

    def isub(self, a: int, b: int, itype: str) -> int:
        return self.op("sub", itype, a, b)

    def bitcast(self, a: int, from_type: str, to_type: str) -> int:
        return self.op("bitcast", to_type, a, imm=from_type)

    def to_int(self, a: int, type: str) -> int:
        return self.op("cvt", "i32" if type == "f32" else "i64", a, imm=type)

    def from_int(self, a: int, itype: str) -> int:
        return self.op("cvt", "f32" if itype == "i32" else "f64", a, imm=itype)

    def select(self, pred: str, a: int, b: int, x: int, y: int, type: str) -> int:
        return self.choose(pred, type, a, b, x, y)


def _holds(wide: Type, narrow: Type) -> bool:
    """Whether every value of `narrow` is one of `wide`."""
    if narrow.name == "bool" or wide == narrow:
        return True
    if wide.signed and not narrow.signed:
        return wide.bits > narrow.bits
    return wide.signed == narrow.signed and wide.bits >= narrow.bits
