"""Registers of a kernel as values of LLVM IR: their types, constants, addresses, intrinsics."""

from __future__ import annotations

import struct
from typing import Protocol

from planish.codegen import vir

TYPES = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
BITS = {"f32": 32, "f64": 64, "i32": 32, "i64": 64}
STORED = {
    "f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "f16": "half", "bf16": "i16",
    "i8": "i8", "u8": "i8", "i16": "i16", "bool": "i8",
}  # fmt: skip


class Text:
    """Lines of a function and the intrinsics it declares."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()


class Lines(Protocol):
    """What writes a function's lines."""

    out: Text

    def emit(self, text: str) -> str:
        """A line with a result; returns its name."""

    def do(self, text: str) -> None:
        """A line without one."""


class ValueWriter:
    """Registers of one kernel; those written more than once live in memory until -O1."""

    def __init__(self, writer: Lines, body: vir.Body) -> None:
        self.w = writer
        self.lanes = body.lanes
        self.values: dict[int, str] = {}
        writes: dict[int, int] = {}
        self.slots: dict[int, str] = {}
        for ins in vir.instructions(body.runs):
            writes[ins.dst] = writes.get(ins.dst, 0) + 1
            if ins.dst >= 0 and writes[ins.dst] == 2:
                self.slots[ins.dst] = writer.emit(f"alloca {self.type(ins.type)}")

    def type(self, type: str, lanes: int | None = None) -> str:
        """LLVM's name of a register's type."""
        count = self.lanes if lanes is None else lanes
        return TYPES[type] if count == 1 else f"<{count} x {TYPES[type]}>"

    def stored(self, type: str, lanes: int) -> str:
        """LLVM's name of elements in memory."""
        return STORED[type] if lanes == 1 else f"<{lanes} x {STORED[type]}>"

    def get(self, register: int, type: str) -> str:
        """A register's value now."""
        slot = self.slots.get(register)
        if slot is None:
            return self.values[register]
        return self.w.emit(f"load {self.type(type)}, ptr {slot}")

    def put(self, ins: vir.Ins, value: str) -> None:
        """Write the instruction's result."""
        slot = self.slots.get(ins.dst)
        if slot is None:
            self.values[ins.dst] = value
        else:
            self.w.do(f"store {self.type(ins.type)} {value}, ptr {slot}")

    def constant(self, value: object, type: str) -> str:
        """A constant in all lanes."""
        if type in ("f32", "f64"):
            number = float(value)  # type: ignore[arg-type]
            if type == "f32":
                number = struct.unpack("<f", struct.pack("<f", number))[0]
            text = f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
        else:
            bits = BITS[type]
            whole = int(value)  # type: ignore[call-overload]
            text = str((whole + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
        return text if self.lanes == 1 else f"splat ({TYPES[type]} {text})"

    def address(self, ins: vir.Ins, more: int = 0) -> str:
        """The address of a memory operand."""
        base = self.w.emit(f"load ptr, ptr %slot{ins.ptr}")
        return self.w.emit(f"getelementptr i8, ptr {base}, i64 {ins.disp + more}")

    def call(self, name: str, type: str, *values: str) -> str:
        """An intrinsic on values of one type."""
        shown = self.type(type)
        suffix = ("" if self.lanes == 1 else f"v{self.lanes}") + f"{type[0]}{BITS[type]}"
        full = f"llvm.{name}.{suffix}"
        wanted = ", ".join([shown] * len(values))
        self.w.out.declarations.add(f"declare {shown} @{full}({wanted})")
        return self.w.emit(f"call {shown} @{full}({', '.join(f'{shown} {v}' for v in values)})")

    def _flags(self, lanes: int | None = None) -> str:
        count = self.lanes if lanes is None else lanes
        return "i1" if count == 1 else f"<{count} x i1>"

    def _select(self, chosen: str, type: str, a: str, b: str, lanes: int | None = None) -> str:
        shown = self.type(type, lanes)
        return self.w.emit(f"select {self._flags(lanes)} {chosen}, {shown} {a}, {shown} {b}")
