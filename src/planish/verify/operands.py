"""Types and operands of an LLVM module: locals, constants, globals, constant expressions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from planish.llvm.binding import Library
from planish.llvm.inspection import declare, text_of
from planish.llvm.module import Module
from planish.verify.ir import (
    Address,
    Aggregate,
    Expression,
    Global,
    Instruction,
    Local,
    Number,
    Operand,
    Special,
    Type,
    Unsupported,
    Value,
)
from planish.verify.opcodes import (
    CASTS,
    FLOAT_WIDTHS,
    OPCODES,
    TYPE_KINDS,
    VALUE_KINDS,
)

_MOST_ELEMENTS = 4096  # of a constant table; a longer one is read as unknown
LOCAL = (8, 9)  # LLVMLinkage: internal, private
_GEP_FLAGS = ((1, "inbounds"), (2, "nusw"), (4, "nuw"))


class Operands:
    """What a reader of instructions stands on. Raises Unsupported, naming what has no meaning."""

    def __init__(self, library: Library, module: Module) -> None:
        self._library, self._c = library, declare(library)
        self._layout = self._c.LLVMGetModuleDataLayout(module.handle)
        self._types: dict[int, Type] = {}
        self._globals: dict[str, Global] = {}
        self._locals: dict[int, int] = {}

    def _type(self, handle: int) -> Type:
        found = self._types.get(handle)
        if found is None:
            found = self._types[handle] = self._new_type(handle)
        return found

    def _new_type(self, handle: int) -> Type:
        c = self._c
        kind = TYPE_KINDS.get(c.LLVMGetTypeKind(handle), "unknown")
        if kind in ("void", "label", "metadata", "token", "function"):
            return Type(kind)
        if not c.LLVMTypeIsSized(handle):
            return Type("opaque")
        if kind in ("scalable vector", "x86_amx", "target extension"):
            return Type(text_of(self._library, c.LLVMPrintTypeToString(handle)))
        size = c.LLVMABISizeOfType(self._layout, handle)
        store = c.LLVMStoreSizeOfType(self._layout, handle)
        if kind == "int":
            return Type("int", c.LLVMGetIntTypeWidth(handle), size, store)
        if kind == "ptr":
            if c.LLVMGetPointerAddressSpace(handle):
                return Type("pointer in another address space", 64, size, store)
            return Type("ptr", 64, size, store)
        if kind in FLOAT_WIDTHS:
            return Type("float", FLOAT_WIDTHS[kind], size, store)
        if kind == "struct":
            count = c.LLVMCountStructElementTypes(handle)
            parts = tuple(self._type(c.LLVMStructGetTypeAtIndex(handle, i)) for i in range(count))
            offsets = tuple(c.LLVMOffsetOfElement(self._layout, handle, i) for i in range(count))
            return Type("struct", 0, size, store, parts, offsets)
        if kind in ("array", "vector"):
            length = c.LLVMGetArrayLength2 if kind == "array" else c.LLVMGetVectorSize
            return self._sequence(kind, length(handle), c.LLVMGetElementType(handle), size, store)
        return Type(kind)

    def _sequence(self, kind: str, count: int, element: int, size: int, store: int) -> Type:
        part = self._type(element)
        if count > _MOST_ELEMENTS:
            return Type("array", 0, size, store, (), ())
        # The elements of a vector are packed; only whole bytes can be told apart in memory.
        step = part.size if kind == "array" else part.width // 8
        offsets = tuple(step * at for at in range(count))
        return Type(kind, 0, size, store, (part,) * count, offsets)

    def _operand(self, value: int) -> Operand:
        kind = self._type(self._c.LLVMTypeOf(value))
        return Operand(self._value(value, kind), kind)

    def _value(self, value: int, kind: Type) -> Value:
        c = self._c
        if value in self._locals:
            return Local(self._locals[value])
        what = VALUE_KINDS.get(c.LLVMGetValueKind(value), "unknown")
        if what == "poison" or what == "undef":
            return Special(what)
        if what == "null":
            return Number(0)
        if what == "zero":
            return Special("zero")
        if what == "integer":
            return Number(self._integer(value, kind.width))
        if what == "real":
            return Number(self._real(value, kind))
        if what == "aggregate":
            return Aggregate(
                tuple(
                    self._operand(c.LLVMGetAggregateElement(value, i))
                    for i in range(len(kind.parts))
                )
            )
        if what == "global":
            return Address(self._global(value))
        if what == "function":
            name = self._library.name(value)
            self._globals[name] = Global(name, 0, 16, True, None, False)
            return Address(name)
        if what == "expression":
            return Expression(self._expression(value))
        raise Unsupported(f"operand: {what}")

    def _integer(self, value: int, width: int) -> int:
        if width <= 64:
            return int(self._c.LLVMConstIntGetZExtValue(value))
        words = text_of(self._library, self._c.LLVMPrintValueToString(value))
        return int(words.split()[-1]) & ((1 << width) - 1)

    def _real(self, value: int, kind: Type) -> int:
        c = self._c
        if kind.kind != "float":
            raise Unsupported(f"type {kind}")
        whole = c.LLVMIntTypeInContext(c.LLVMGetTypeContext(c.LLVMTypeOf(value)), kind.width)
        return int(c.LLVMConstIntGetZExtValue(c.LLVMConstBitCast(value, whole)))

    def _global(self, value: int) -> str:
        c, name = self._c, self._library.name(value)
        if name in self._globals:
            return name
        if c.LLVMIsThreadLocal(value):
            raise Unsupported("thread-local variable")
        kind = self._type(c.LLVMGlobalGetValueType(value))
        constant = bool(c.LLVMIsGlobalConstant(value))
        defined = not c.LLVMIsDeclaration(value)
        align = c.LLVMGetAlignment(value) or 1
        local = c.LLVMGetLinkage(value) in LOCAL
        self._globals[name] = Global(name, kind.size, align, constant, None, defined, local)
        if constant and defined and kind.size <= _MOST_ELEMENTS and _known(c, value):
            contents = self._operand(c.LLVMGetInitializer(value))
            self._globals[name] = replace(self._globals[name], contents=contents)
        return name

    def _expression(self, value: int) -> Instruction:
        op = OPCODES.get(self._c.LLVMGetConstOpcode(value), "unknown")
        if op == "getelementptr":
            return self._gep(value, 0)
        if op in CASTS or op in ("add", "sub", "xor"):
            operand_count = self._c.LLVMGetNumOperands(value)
            operands = tuple(
                self._operand(self._c.LLVMGetOperand(value, i)) for i in range(operand_count)
            )
            return Instruction(op, 0, self._type(self._c.LLVMTypeOf(value)), operands)
        raise Unsupported(f"constant expression {op}")

    def _gep(self, value: int, number: int) -> Instruction:
        """Operands: the base and the variable indices; numbers: the offset and their scales."""
        c = self._c
        bits = c.LLVMGEPGetNoWrapFlags(value)
        flags = frozenset(name for bit, name in _GEP_FLAGS if bits & bit)
        kind = c.LLVMGetGEPSourceElementType(value)
        operands = [self._operand(c.LLVMGetOperand(value, 0))]
        fixed, scales = 0, []
        for at in range(1, c.LLVMGetNumOperands(value)):
            handle = c.LLVMGetOperand(value, at)
            index = self._operand(handle)
            if index.type.kind != "int":
                raise Unsupported("getelementptr of a vector of pointers")
            known = index.value.value if isinstance(index.value, Number) else None
            if at > 1 and TYPE_KINDS.get(c.LLVMGetTypeKind(kind)) == "struct":
                assert known is not None
                fixed += c.LLVMOffsetOfElement(self._layout, kind, known)
                kind = c.LLVMStructGetTypeAtIndex(kind, known)
                continue
            if at > 1:
                kind = c.LLVMGetElementType(kind)
            size = c.LLVMABISizeOfType(self._layout, kind)
            if known is None:
                operands.append(index)
                scales.append(size)
            else:
                width = index.type.width
                fixed += size * (known - (1 << width) if known >> (width - 1) else known)
        pointer = self._type(c.LLVMTypeOf(value))
        if pointer.kind != "ptr":
            raise Unsupported("getelementptr of a vector of pointers")
        return Instruction(
            "getelementptr", number, pointer, tuple(operands), flags, numbers=(fixed, *scales)
        )


def _known(c: Any, value: int) -> bool:
    """Whether the initial value is what the program sees: no other definition may replace it."""
    # LLVMLinkage: external 0, linkonce-odr 3, weak-odr 6, internal 8, private 9
    return c.LLVMGetLinkage(value) in (0, 3, 6, 8, 9)
