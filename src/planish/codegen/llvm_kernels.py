"""Arithmetic of a kernel as LLVM IR."""

from __future__ import annotations

from planish.codegen import vir
from planish.codegen.llvm_memory import MemoryWriter

_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_WHOLE_OPS = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor",
    "shl": "shl", "srl": "lshr", "sra": "ashr",
}  # fmt: skip
_UNARY = {"sqrt": "sqrt", "round": "roundeven", "floor": "floor", "abs": "fabs"}
_FLOAT_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_WHOLE_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


class KernelWriter(MemoryWriter):
    """Instructions of one kernel."""

    def instruction(self, ins: vir.Ins) -> None:
        """One instruction."""
        method = getattr(self, f"_{ins.op}", None)
        if method is not None:
            method(ins)
        elif ins.op in _UNARY and ins.type in ("f32", "f64"):
            self.put(ins, self.call(_UNARY[ins.op], ins.type, self.get(ins.src[0], ins.type)))
        else:
            a = self.get(ins.src[0], ins.type)
            b = self._second(ins)
            self.put(ins, self.binary(ins.op, ins.type, a, b))

    def _second(self, ins: vir.Ins) -> str:
        if ins.op in ("shl", "srl", "sra"):
            return self.constant(ins.imm, ins.type)
        return self.get(ins.src[1], ins.type)

    def binary(self, op: str, type: str, a: str, b: str, lanes: int | None = None) -> str:
        """Two values joined."""
        shown = self.type(type, lanes)
        whole = type in ("i32", "i64")
        if op in ("min", "max"):
            word = {"min": "lt", "max": "gt"}[op]
            compare = f"icmp s{word}" if whole else f"fcmp o{word}"
            chosen = self.w.emit(f"{compare} {shown} {a}, {b}")
            return self._select(chosen, type, a, b, lanes)
        if op in ("div", "mod") and whole:
            return self._divide(op, type, a, b)
        name = _WHOLE_OPS[op] if whole else _FLOAT_OPS[op]
        return self.w.emit(f"{name} {shown} {a}, {b}")

    def _divide(self, op: str, type: str, a: str, b: str) -> str:
        """Towards zero; by zero gives 0, the smallest by -1 wraps: neither is undefined here."""
        shown = self.type(type)
        zero, one, ones = (self.constant(v, type) for v in (0, 1, -1))
        none = self.w.emit(f"icmp eq {shown} {b}, {zero}")
        minus = self.w.emit(f"icmp eq {shown} {b}, {ones}")
        either = self.w.emit(f"or {self._flags()} {none}, {minus}")
        safe = self._select(either, type, one, b)
        result = self.w.emit(f"{'sdiv' if op == 'div' else 'srem'} {shown} {a}, {safe}")
        if op == "div":
            negated = self.w.emit(f"sub {shown} {zero}, {a}")
            result = self._select(minus, type, negated, result)
        return self._select(none, type, zero, result)

    def _fma(self, ins: vir.Ins) -> None:
        a, b, c = (self.get(s, ins.type) for s in ins.src)
        self.put(ins, self.call("fma", ins.type, a, b, c))

    def _fnma(self, ins: vir.Ins) -> None:
        a, b, c = (self.get(s, ins.type) for s in ins.src)
        negated = self.w.emit(f"fneg {self.type(ins.type)} {a}")
        self.put(ins, self.call("fma", ins.type, negated, b, c))

    def _neg(self, ins: vir.Ins) -> None:
        value = self.get(ins.src[0], ins.type)
        shown = self.type(ins.type)
        if ins.type in ("f32", "f64"):
            self.put(ins, self.w.emit(f"fneg {shown} {value}"))
        else:
            self.put(ins, self.w.emit(f"sub {shown} {self.constant(0, ins.type)}, {value}"))

    def _abs(self, ins: vir.Ins) -> None:
        value = self.get(ins.src[0], ins.type)
        if ins.type in ("f32", "f64"):
            self.put(ins, self.call("fabs", ins.type, value))
            return
        shown = self.type(ins.type)
        zero = self.constant(0, ins.type)
        negated = self.w.emit(f"sub {shown} {zero}, {value}")
        below = self.w.emit(f"icmp slt {shown} {value}, {zero}")
        self.put(ins, self._select(below, ins.type, negated, value))

    def _const(self, ins: vir.Ins) -> None:
        value = self.constant(ins.imm, ins.type)
        self.put(ins, value)

    def _mov(self, ins: vir.Ins) -> None:
        self.put(ins, self.get(ins.src[0], ins.type))

    def _bitcast(self, ins: vir.Ins) -> None:
        source = str(ins.imm)
        value = self.get(ins.src[0], source)
        self.put(ins, self.w.emit(f"bitcast {self.type(source)} {value} to {self.type(ins.type)}"))

    def _cmpsel(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, tuple)
        predicate, compared = ins.imm
        a, b = (self.get(s, compared) for s in ins.src[:2])
        x, y = (self.get(s, ins.type) for s in ins.src[2:])
        float_ = compared in ("f32", "f64")
        word = (
            f"fcmp {_FLOAT_COMPARE[predicate]}" if float_ else f"icmp {_WHOLE_COMPARE[predicate]}"
        )
        chosen = self.w.emit(f"{word} {self.type(compared)} {a}, {b}")
        self.put(ins, self._select(chosen, ins.type, x, y))

    def _lanes(self, ins: vir.Ins) -> None:
        new, old = (self.get(s, ins.type) for s in ins.src)
        mask = ", ".join(f"i1 {'true' if at < ins.n else 'false'}" for at in range(self.lanes))
        self.put(ins, self._select(f"<{mask}>", ins.type, new, old))

    def _cvt(self, ins: vir.Ins) -> None:
        source = str(ins.imm)
        value = self.get(ins.src[0], source)
        words = {
            ("i", "f"): "sitofp", ("f", "i"): "fptosi", ("f32", "f64"): "fpext",
            ("f64", "f32"): "fptrunc", ("i32", "i64"): "sext", ("i64", "i32"): "trunc",
        }  # fmt: skip
        word = words.get((source, ins.type)) or words[source[0], ins.type[0]]
        shown = self.type(ins.type)
        found = self.w.emit(f"{word} {self.type(source)} {value} to {shown}")
        if word == "fptosi":  # out of range is poison: any number will do, but a fixed one
            found = self.w.emit(f"freeze {shown} {found}")
        self.put(ins, found)

    def _narrow(self, ins: vir.Ins) -> None:
        value = self.get(ins.src[0], "f32")
        small = self._to_stored(value, str(ins.imm), self.lanes)
        self.put(ins, self._from_stored(small, str(ins.imm), "f32", self.lanes))

    def _hreduce(self, ins: vir.Ins) -> None:
        value = self.get(ins.src[0], ins.type)
        shown = self.type(ins.type)
        half = self.lanes // 2
        while half:
            order = ", ".join(f"i32 {(at + half) % self.lanes}" for at in range(self.lanes))
            turned = self.w.emit(
                f"shufflevector {shown} {value}, {shown} poison, <{self.lanes} x i32> <{order}>"
            )
            value = self.binary(str(ins.imm), ins.type, value, turned)
            half //= 2
        self.put(ins, value)
