"""Memory accesses of a kernel as LLVM IR: loads, stores, what narrow elements widen to."""

from __future__ import annotations

from planish.codegen import vir
from planish.codegen.llvm_values import BITS, STORED, TYPES, ValueWriter

_STORED_BYTES = {
    "f32": 4, "f64": 8, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i16": 2,
    "bool": 1,
}  # fmt: skip


class MemoryWriter(ValueWriter):
    """Loads, stores and prefetches."""

    def _prefetch(self, ins: vir.Ins) -> None:
        self.w.out.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.w.do(f"call void @llvm.prefetch.p0(ptr {self.address(ins)}, i32 0, i32 3, i32 1)")

    def _from_stored(self, value: str, stored: str, type: str, lanes: int) -> str:
        """Loaded elements as register values."""
        shown, memory = self.type(type, lanes), self.stored(stored, lanes)
        if stored == type:
            return value
        if stored == "f16":
            return self.w.emit(f"fpext {memory} {value} to {shown}")
        if stored == "bf16":
            whole = self.type("i32", lanes)
            wide = self.w.emit(f"zext {memory} {value} to {whole}")
            sixteen = "16" if lanes == 1 else "splat (i32 16)"
            high = self.w.emit(f"shl {whole} {wide}, {sixteen}")
            return self.w.emit(f"bitcast {whole} {high} to {shown}")
        word = "zext" if stored in ("u8", "bool") else "sext"
        return self.w.emit(f"{word} {memory} {value} to {shown}")

    def _to_stored(self, value: str, stored: str, lanes: int, type: str = "f32") -> str:
        """Register values as elements to store."""
        shown, memory = self.type(type, lanes), self.stored(stored, lanes)
        if stored == "f16":
            return self.w.emit(f"fptrunc {shown} {value} to {memory}")
        if stored == "bf16":
            return self._to_bf16(value, lanes)
        if BITS[type] // 8 == _STORED_BYTES[stored]:
            return value
        return self.w.emit(f"trunc {shown} {value} to {memory}")

    def _to_bf16(self, value: str, lanes: int) -> str:
        shown, whole = self.type("f32", lanes), self.type("i32", lanes)

        def splat(number: int) -> str:
            return str(number) if lanes == 1 else f"splat (i32 {number})"

        bits = self.w.emit(f"bitcast {shown} {value} to {whole}")
        high = self.w.emit(f"lshr {whole} {bits}, {splat(16)}")
        odd = self.w.emit(f"and {whole} {high}, {splat(1)}")
        bias = self.w.emit(f"add {whole} {odd}, {splat(0x7FFF)}")
        rounded = self.w.emit(f"add {whole} {bits}, {bias}")
        nan = self.w.emit(f"fcmp uno {shown} {value}, {value}")
        quiet = splat(0x7FC00000)
        kept = self._select(nan, "i32", quiet, rounded, lanes)
        top = self.w.emit(f"lshr {whole} {kept}, {splat(16)}")
        return self.w.emit(f"trunc {whole} {top} to {self.stored('bf16', lanes)}")

    def _load(self, ins: vir.Ins) -> None:
        stored = str(ins.imm)
        memory = self.stored(stored, ins.n)
        align = _STORED_BYTES[stored]
        value = self.w.emit(f"load {memory}, ptr {self.address(ins)}, align {align}")
        value = self._from_stored(value, stored, ins.type, ins.n)
        self.put(ins, self._widen(value, ins.type, ins.n))

    def _widen(self, value: str, type: str, count: int) -> str:
        """`count` lanes in a register of all lanes; the others are zero."""
        if count == self.lanes:
            return value
        shown = self.type(type)
        zero = self.constant(0, type)
        if count == 1:
            return self.w.emit(f"insertelement {shown} {zero}, {TYPES[type]} {value}, i32 0")
        part = self.type(type, count)
        order = ", ".join(f"i32 {at if at < count else count}" for at in range(self.lanes))
        return self.w.emit(
            f"shufflevector {part} {value}, {part} zeroinitializer, <{self.lanes} x i32> <{order}>"
        )

    def _bcast(self, ins: vir.Ins) -> None:
        stored = str(ins.imm)
        value = self._element(ins, stored, 0)
        if self.lanes == 1:
            self.put(ins, value)
            return
        shown = self.type(ins.type)
        one = self.w.emit(f"insertelement {shown} poison, {TYPES[ins.type]} {value}, i32 0")
        self.put(
            ins,
            self.w.emit(
                f"shufflevector {shown} {one}, {shown} poison, <{self.lanes} x i32> zeroinitializer"
            ),
        )

    def _element(self, ins: vir.Ins, stored: str, more: int) -> str:
        align = _STORED_BYTES[stored]
        place = self.address(ins, more)
        value = self.w.emit(f"load {STORED[stored]}, ptr {place}, align {align}")
        return self._from_stored(value, stored, ins.type, 1)

    def _gather(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, tuple)
        stored, stride = ins.imm
        shown = self.type(ins.type)
        value = self.constant(0, ins.type)
        for lane in range(ins.n):
            one = self._element(ins, stored, lane * stride)
            value = self.w.emit(
                f"insertelement {shown} {value}, {TYPES[ins.type]} {one}, i32 {lane}"
            )
        self.put(ins, value)

    def _store(self, ins: vir.Ins) -> None:
        stored = str(ins.imm)
        value = self.get(ins.src[0], ins.type)
        if ins.n != self.lanes:
            shown = self.type(ins.type)
            if ins.n == 1:
                value = self.w.emit(f"extractelement {shown} {value}, i32 0")
            else:
                order = ", ".join(f"i32 {at}" for at in range(ins.n))
                value = self.w.emit(
                    f"shufflevector {shown} {value}, {shown} poison, <{ins.n} x i32> <{order}>"
                )
        value = self._to_stored(value, stored, ins.n, ins.type)
        memory = self.stored(stored, ins.n)
        self.w.do(f"store {memory} {value}, ptr {self.address(ins)}, align {_STORED_BYTES[stored]}")
