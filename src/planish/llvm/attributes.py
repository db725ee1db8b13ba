"""Attributes of functions and flags of modules, through LLVM-C. Runs in worker processes only."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from ctypes import byref, c_uint

from planish.llvm.binding import Library

_FUNCTION_INDEX = 0xFFFFFFFF
# The "Code Model" module flag holds llvm::CodeModel; the C API counts from "default" and "JIT".
_CODE_MODEL_SHIFT = 2
# Values of the attribute "frame-pointer", weakest first.
_FRAME_POINTERS = ("none", "reserved", "non-leaf", "non-leaf-no-reserve", "all")
_SIZE = ("minsize", "optsize")
# `optnone` keeps the passes away, and asks for `noinline`.
_SHELTER = ("optnone", "noinline")


class Attributes:
    """The attributes of the functions of one context; functions are LLVM's own pointers."""

    def __init__(self, library: Library, context: int) -> None:
        self._c, self._context = library.c, context

    def has(self, function: int, name: str) -> bool:
        kind = self._kind(name)
        return bool(self._c.LLVMGetEnumAttributeAtIndex(function, _FUNCTION_INDEX, kind))

    def add(self, function: int, name: str) -> None:
        attribute = self._c.LLVMCreateEnumAttribute(self._context, self._kind(name), 0)
        self._c.LLVMAddAttributeAtIndex(function, _FUNCTION_INDEX, attribute)

    def remove(self, function: int, name: str) -> None:
        self._c.LLVMRemoveEnumAttributeAtIndex(function, _FUNCTION_INDEX, self._kind(name))

    def text(self, function: int, name: str) -> str:
        """The value of a string attribute; empty when there is none."""
        attribute = self._c.LLVMGetStringAttributeAtIndex(
            function, _FUNCTION_INDEX, name.encode(), len(name)
        )
        if not attribute:
            return ""
        size = c_uint()
        address = self._c.LLVMGetStringAttributeValue(attribute, byref(size))
        return ctypes.string_at(address, size.value).decode()

    def add_text(self, function: int, name: str, value: str) -> None:
        attribute = self._c.LLVMCreateStringAttribute(
            self._context, name.encode(), len(name), value.encode(), len(value)
        )
        self._c.LLVMAddAttributeAtIndex(function, _FUNCTION_INDEX, attribute)

    def carry_out(self, function: int, element: str, frames: bool) -> None:
        """Carry out an element of a pipeline that starts with `@`.

        frames  whether the user asked for frame pointers, which are then never weakened
        """
        name, _, value = element.removeprefix("@").partition("=")
        if name in ("no-minsize", "no-optsize"):
            self.remove(function, name.removeprefix("no-"))
            return
        if name == "frame-pointer":
            have = self.text(function, name)
            more = _FRAME_POINTERS.index(value) - _FRAME_POINTERS.index(have or "none")
            if more == 0 or (more < 0 and (frames or value != "none")):
                return
        self.add_text(function, name, value)

    def optimise_for_size(self, function: int) -> bool:
        """Give it `minsize` and `optsize`, drop `optnone`; whether that changed anything."""
        sheltered = self.has(function, "optnone")
        if not sheltered and all(self.has(function, kind) for kind in _SIZE):
            return False
        self._exchange(function, _SHELTER if sheltered else (), _SIZE)
        return True

    def shelter(self, function: int) -> list[str]:
        """Keep the passes away from a function; returns what `unshelter` has to give back."""
        had = [kind for kind in (*_SIZE, "noinline") if self.has(function, kind)]
        self._exchange(function, _SIZE, _SHELTER)
        return had

    def unshelter(self, function: int, had: Iterable[str]) -> None:
        self._exchange(function, _SHELTER, had)

    def _exchange(self, function: int, old: Iterable[str], new: Iterable[str]) -> None:
        for kind in old:
            self.remove(function, kind)
        for kind in new:
            self.add(function, kind)

    def _kind(self, name: str) -> int:
        return int(self._c.LLVMGetEnumAttributeKindForName(name.encode(), len(name)))


class ModuleFlags:
    """The flags of one module, which is LLVM's own pointer."""

    def __init__(self, library: Library, context: int, module: int) -> None:
        self._c, self._context, self._module = library.c, context, module

    def integer(self, name: str) -> int:
        """An integer flag; 0 when absent."""
        metadata = self._find(name)
        if not metadata:
            return 0
        value = self._c.LLVMMetadataAsValue(self._context, metadata)
        # A ConstantAsMetadata wrapped as a value has the constant as its only operand.
        if self._c.LLVMGetNumOperands(value) < 1:
            return 0
        constant = self._c.LLVMGetOperand(value, 0)
        if not constant or not self._c.LLVMIsAConstantInt(constant):
            return 0
        return int(self._c.LLVMConstIntGetZExtValue(constant))

    def code_model(self) -> int:
        """As LLVMCreateTargetMachine counts them; 0, the default, when the module says nothing."""
        name = "Code Model"
        return self.integer(name) + _CODE_MODEL_SHIFT if self._find(name) else 0

    def _find(self, name: str) -> int | None:
        found: int | None = self._c.LLVMGetModuleFlag(self._module, name.encode(), len(name))
        return found
