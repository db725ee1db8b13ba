"""Vector instructions as LLVM IR: every operation, every target that LLVM has."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from planish.codegen import vir

_TYPES = {"f32": "float", "f64": "double", "i32": "i32", "i64": "i64"}
_BITS = {"f32": 32, "f64": 64, "i32": 32, "i64": 64}
_STORED = {
    "f32": "float", "f64": "double", "i32": "i32", "i64": "i64", "f16": "half", "bf16": "i16",
    "i8": "i8", "u8": "i8", "i16": "i16", "bool": "i8",
}  # fmt: skip
_STORED_BYTES = {
    "f32": 4, "f64": 8, "i32": 4, "i64": 8, "f16": 2, "bf16": 2, "i8": 1, "u8": 1, "i16": 2,
    "bool": 1,
}  # fmt: skip
_FLOAT_OPS = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_WHOLE_OPS = {
    "add": "add", "sub": "sub", "mul": "mul", "and": "and", "or": "or", "xor": "xor",
    "shl": "shl", "srl": "lshr", "sra": "ashr",
}  # fmt: skip
_UNARY = {"sqrt": "sqrt", "round": "roundeven", "floor": "floor", "abs": "fabs"}
_FLOAT_COMPARE = {"lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge", "eq": "oeq", "ne": "une"}
_WHOLE_COMPARE = {"lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge", "eq": "eq", "ne": "ne"}


def to_llvm_ir(functions: Sequence[tuple[str, vir.Function]], vector: int) -> str:
    """A module with one `void name(ptr arguments)` for each function.

    vector  bytes that vectors are meant to have, for targets that prefer narrower ones
    """
    parts = [_Writer(name, function).text() for name, function in functions]
    used = sorted({line for part in parts for line in part.declarations})
    attributes = (
        f'attributes #0 = {{ nounwind "no-builtins" "prefer-vector-width"="{8 * vector}" '
        f'"min-legal-vector-width"="{8 * vector}" }}'
    )
    bodies = [line for part in parts for line in part.lines]
    return "\n".join([*bodies, *used, attributes, ""])


class _Text:
    """Lines of a function and the intrinsics it declares."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()


class _Writer:
    def __init__(self, name: str, function: vir.Function) -> None:
        self.name = name
        self.function = function
        self.out = _Text()
        self.fresh = 0
        self.kernels: dict[int, tuple[str, vir.Kernel, int]] = {}

    def text(self) -> _Text:
        lines = self.out.lines
        lines.append(f"define void @{self.name}(ptr %args) #0 {{")
        for number, argument in enumerate(self.function.pointers):
            self.do(f"%slot{number} = alloca ptr")
            place = self.emit(f"getelementptr i8, ptr %args, i64 {8 * argument}")
            self.do(f"store ptr {self.emit(f'load ptr, ptr {place}')}, ptr %slot{number}")
        self._items(self.function.body, ())
        lines += ["  ret void", "}"]
        for name, kernel, count in list(self.kernels.values()):
            self._kernel_function(name, kernel, range(count))
        return self.out

    def _name(self) -> str:
        self.fresh += 1
        return f"%t{self.fresh}"

    def _label(self) -> str:
        self.fresh += 1
        return f"b{self.fresh}"

    def emit(self, text: str) -> str:
        """An instruction with a result."""
        name = self._name()
        self.out.lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """An instruction without one."""
        self.out.lines.append(f"  {text}")

    def _items(self, items: Sequence[vir.Item], pointers: Sequence[int]) -> None:
        for item in items:
            if isinstance(item, list):
                for ins in item:
                    self.kernel.instruction(ins)
            elif isinstance(item, vir.Stage):
                self._items(item.body, item.pointers)
            elif isinstance(item, vir.Loop):
                self._loop(item, pointers)
            else:
                self._call(item, pointers)

    kernel: _KernelWriter

    def _call(self, kernel: vir.Kernel, pointers: Sequence[int]) -> None:
        name = f"{self.name}_kernel{len(self.kernels)}"
        name = self.kernels.setdefault(id(kernel), (name, kernel, len(pointers)))[0]
        values = [self.emit(f"load ptr, ptr %slot{p}") for p in pointers]
        self.do(f"call void @{name}({', '.join(f'ptr {v}' for v in values)})")

    def _kernel_function(self, name: str, kernel: vir.Kernel, pointers: Sequence[int]) -> None:
        arguments = ", ".join(f"ptr %p{p}" for p in pointers)
        self.out.lines.append(f"define internal void @{name}({arguments}) #0 {{")
        for p in pointers:
            self.do(f"%slot{p} = alloca ptr")
            self.do(f"store ptr %p{p}, ptr %slot{p}")
        body = vir.expand(kernel.body)
        self.kernel = _KernelWriter(self, body)
        self._items(body.runs, pointers)
        self.out.lines += ["  ret void", "}"]

    def _loop(self, loop: vir.Loop, pointers: Sequence[int]) -> None:
        for segment in loop.segments:
            if segment.trips == 1:
                self._items(segment.body, pointers)
                self._move(loop.moves, 1)
                continue
            before, top, after = self._label(), self._label(), self._label()
            self.do(f"br label %{before}")
            self.out.lines.append(f"{before}:")
            self.do(f"br label %{top}")
            self.out.lines.append(f"{top}:")
            counter, following = self._name(), self._name()
            latch = self._label()
            self.do(f"{counter} = phi i64 [ 0, %{before} ], [ {following}, %{latch} ]")
            self._items(segment.body, pointers)
            self._move(loop.moves, 1)
            self.do(f"br label %{latch}")
            self.out.lines.append(f"{latch}:")
            self.do(f"{following} = add i64 {counter}, 1")
            done = self.emit(f"icmp eq i64 {following}, {segment.trips}")
            self.do(f"br i1 {done}, label %{after}, label %{top}")
            self.out.lines.append(f"{after}:")
        self._move(loop.moves, -loop.trips)

    def _move(self, moves: Sequence[tuple[int, int]], times: int) -> None:
        for pointer, by in moves:
            value = self.emit(f"load ptr, ptr %slot{pointer}")
            moved = self.emit(f"getelementptr i8, ptr {value}, i64 {by * times}")
            self.do(f"store ptr {moved}, ptr %slot{pointer}")


class _KernelWriter:
    """Instructions of one kernel; registers written more than once live in memory until -O1."""

    def __init__(self, writer: _Writer, body: vir.Body) -> None:
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
        return _TYPES[type] if count == 1 else f"<{count} x {_TYPES[type]}>"

    def stored(self, type: str, lanes: int) -> str:
        """LLVM's name of elements in memory."""
        return _STORED[type] if lanes == 1 else f"<{lanes} x {_STORED[type]}>"

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
            bits = _BITS[type]
            whole = int(value)  # type: ignore[call-overload]
            text = str((whole + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
        return text if self.lanes == 1 else f"splat ({_TYPES[type]} {text})"

    def address(self, ins: vir.Ins, more: int = 0) -> str:
        """The address of a memory operand."""
        base = self.w.emit(f"load ptr, ptr %slot{ins.ptr}")
        return self.w.emit(f"getelementptr i8, ptr {base}, i64 {ins.disp + more}")

    def call(self, name: str, type: str, *values: str) -> str:
        """An intrinsic on values of one type."""
        shown = self.type(type)
        suffix = ("" if self.lanes == 1 else f"v{self.lanes}") + f"{type[0]}{_BITS[type]}"
        full = f"llvm.{name}.{suffix}"
        wanted = ", ".join([shown] * len(values))
        self.w.out.declarations.add(f"declare {shown} @{full}({wanted})")
        return self.w.emit(f"call {shown} @{full}({', '.join(f'{shown} {v}' for v in values)})")

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

    def _flags(self, lanes: int | None = None) -> str:
        count = self.lanes if lanes is None else lanes
        return "i1" if count == 1 else f"<{count} x i1>"

    def _select(self, chosen: str, type: str, a: str, b: str, lanes: int | None = None) -> str:
        shown = self.type(type, lanes)
        return self.w.emit(f"select {self._flags(lanes)} {chosen}, {shown} {a}, {shown} {b}")

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

    def _prefetch(self, ins: vir.Ins) -> None:
        self.w.out.declarations.add("declare void @llvm.prefetch.p0(ptr, i32, i32, i32)")
        self.w.do(f"call void @llvm.prefetch.p0(ptr {self.address(ins)}, i32 0, i32 3, i32 1)")

    # Memory.

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
        if _BITS[type] // 8 == _STORED_BYTES[stored]:
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
            return self.w.emit(f"insertelement {shown} {zero}, {_TYPES[type]} {value}, i32 0")
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
        one = self.w.emit(f"insertelement {shown} poison, {_TYPES[ins.type]} {value}, i32 0")
        self.put(
            ins,
            self.w.emit(
                f"shufflevector {shown} {one}, {shown} poison, <{self.lanes} x i32> zeroinitializer"
            ),
        )

    def _element(self, ins: vir.Ins, stored: str, more: int) -> str:
        align = _STORED_BYTES[stored]
        place = self.address(ins, more)
        value = self.w.emit(f"load {_STORED[stored]}, ptr {place}, align {align}")
        return self._from_stored(value, stored, ins.type, 1)

    def _gather(self, ins: vir.Ins) -> None:
        assert isinstance(ins.imm, tuple)
        stored, stride = ins.imm
        shown = self.type(ins.type)
        value = self.constant(0, ins.type)
        for lane in range(ins.n):
            one = self._element(ins, stored, lane * stride)
            value = self.w.emit(
                f"insertelement {shown} {value}, {_TYPES[ins.type]} {one}, i32 {lane}"
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
