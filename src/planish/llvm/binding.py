"""ctypes over the LLVM-C API: every function that is used, with its signature.

Loaded in worker processes only. Source of the signatures: llvm-c/*.h of LLVM 20 to 23.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from ctypes import POINTER, byref, c_bool, c_char_p, c_int, c_size_t, c_uint, c_uint64, c_void_p
from pathlib import Path
from typing import Any

from planish.base.errors import RecipeError

P = c_void_p
_OUT = POINTER(c_void_p)
_SIZE = POINTER(c_size_t)

# name -> (result, arguments)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "LLVMGetVersion": (None, [POINTER(c_uint)] * 3),
    "LLVMDisposeMessage": (None, [P]),
    # contexts, buffers, modules
    "LLVMContextCreate": (P, []),
    "LLVMContextDispose": (None, [P]),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (P, [c_char_p, c_size_t, c_char_p]),
    "LLVMDisposeMemoryBuffer": (None, [P]),
    "LLVMGetBufferStart": (P, [P]),
    "LLVMGetBufferSize": (c_size_t, [P]),
    "LLVMParseBitcodeInContext2": (c_int, [P, P, _OUT]),
    "LLVMParseIRInContext": (c_int, [P, P, _OUT, _OUT]),
    "LLVMWriteBitcodeToMemoryBuffer": (P, [P]),
    "LLVMPrintModuleToString": (P, [P]),
    "LLVMCloneModule": (P, [P]),
    "LLVMDisposeModule": (None, [P]),
    "LLVMLinkModules2": (c_int, [P, P]),
    "LLVMGetNamedGlobalAlias": (P, [P, c_char_p, c_size_t]),
    "LLVMVerifyModule": (c_int, [P, c_int, _OUT]),
    "LLVMGetTarget": (c_char_p, [P]),
    "LLVMSetTarget": (None, [P, c_char_p]),
    "LLVMSetDataLayout": (None, [P, c_char_p]),
    "LLVMGetDataLayoutStr": (c_char_p, [P]),
    "LLVMSetSourceFileName": (None, [P, c_char_p, c_size_t]),
    "LLVMSetModuleIdentifier": (None, [P, c_char_p, c_size_t]),
    "LLVMStripModuleDebugInfo": (c_int, [P]),
    "LLVMGetModuleFlag": (P, [P, c_char_p, c_size_t]),
    "LLVMMetadataAsValue": (P, [P, P]),
    "LLVMConstIntGetZExtValue": (c_uint64, [P]),
    "LLVMIsAConstantInt": (P, [P]),
    "LLVMGetNumOperands": (c_int, [P]),
    "LLVMGetOperand": (P, [P, c_uint]),
    # functions, blocks, attributes
    "LLVMGetFirstFunction": (P, [P]),
    "LLVMGetNextFunction": (P, [P]),
    "LLVMGetNamedFunction": (P, [P, c_char_p]),
    "LLVMGetNamedGlobal": (P, [P, c_char_p]),
    "LLVMSetLinkage": (None, [P, c_int]),
    "LLVMIsDeclaration": (c_int, [P]),
    "LLVMPrintValueToString": (P, [P]),
    "LLVMGetValueName2": (P, [P, _SIZE]),
    "LLVMGetFirstBasicBlock": (P, [P]),
    "LLVMGetNextBasicBlock": (P, [P]),
    "LLVMGetFirstInstruction": (P, [P]),
    "LLVMGetNextInstruction": (P, [P]),
    "LLVMGetInstructionOpcode": (c_int, [P]),
    "LLVMGetEnumAttributeKindForName": (c_uint, [c_char_p, c_size_t]),
    "LLVMCreateEnumAttribute": (P, [P, c_uint, c_uint64]),
    "LLVMCreateStringAttribute": (P, [P, c_char_p, c_uint, c_char_p, c_uint]),
    "LLVMAddAttributeAtIndex": (None, [P, c_uint, P]),
    "LLVMRemoveEnumAttributeAtIndex": (None, [P, c_uint, c_uint]),
    "LLVMGetEnumAttributeAtIndex": (P, [P, c_uint, c_uint]),
    "LLVMGetStringAttributeAtIndex": (P, [P, c_uint, c_char_p, c_uint]),
    "LLVMGetStringAttributeValue": (P, [P, POINTER(c_uint)]),
    # passes
    "LLVMCreatePassBuilderOptions": (P, []),
    "LLVMDisposePassBuilderOptions": (None, [P]),
    "LLVMRunPasses": (P, [P, c_char_p, P, P]),
    "LLVMRunPassesOnFunction": (P, [P, c_char_p, P, P]),
    "LLVMGetErrorMessage": (P, [P]),
    "LLVMDisposeErrorMessage": (None, [P]),
    # targets
    "LLVMGetDefaultTargetTriple": (P, []),
    "LLVMGetTargetFromTriple": (c_int, [c_char_p, _OUT, _OUT]),
    "LLVMCreateTargetMachine": (P, [P, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int]),
    "LLVMDisposeTargetMachine": (None, [P]),
    "LLVMCreateTargetDataLayout": (P, [P]),
    "LLVMCopyStringRepOfTargetData": (P, [P]),
    "LLVMDisposeTargetData": (None, [P]),
    "LLVMTargetMachineEmitToMemoryBuffer": (c_int, [P, P, c_int, _OUT, _OUT]),
}

# C++ symbols, 14 times faster than walking; absent in a library built with hidden symbols.
_MODULE_COUNT = "_ZNK4llvm6Module19getInstructionCountEv"
_FUNCTION_COUNT = "_ZNK4llvm8Function19getInstructionCountEv"

# llvm::cl::ParseCommandLineOptions, of LLVM 20 and 21, and (with a file system) of 22 and 23.
# A StringRef is passed as its two members on the ABIs that there are wheels for.
_PARSE_OPTIONS = (
    "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamES2_b",
    "_ZN4llvm2cl23ParseCommandLineOptionsEiPKPKcNS_9StringRefEPNS_11raw_ostreamE"
    "PNS_3vfs10FileSystemES2_b",
)
_ERRORS = "_ZN4llvm4errsEv"

TARGETS = ("X86", "AArch64", "ARM", "NVPTX", "RISCV", "WebAssembly", "AMDGPU", "Mips", "PowerPC")


class Library:
    """A loaded libLLVM.

    version  (major, minor, patch)
    targets  names of the targets that it can generate code for, initialised
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError when the file cannot be loaded, AttributeError when it is no libLLVM."""
        self.path = path
        self.c: Any = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self.c, name)
            function.restype = result
            function.argtypes = arguments
        self.version = self._version()
        self.targets = tuple(name for name in TARGETS if self._initialise(name))
        self._module_count = self._counter(_MODULE_COUNT)
        self._function_count = self._counter(_FUNCTION_COUNT)

    def parse_options(self, options: tuple[str, ...]) -> None:
        """Set global options. Once per process: LLVM refuses a second occurrence.

        Raises RecipeError for an option that this LLVM does not know. The C API would ignore it
        in silence, so a library that does not export the C++ function takes no options at all.
        """
        if not options:
            return
        found = [getattr(self.c, name, None) for name in _PARSE_OPTIONS]
        parse, with_files = next(((f, n) for n, f in enumerate(found) if f), (None, 0))
        if parse is None:
            raise RecipeError("this libLLVM does not tell whether it knows an option")
        words = [b"planish", *(option.encode() for option in options)]
        files = [None] if with_files else []
        parse.restype = c_bool
        parse.argtypes = [
            c_int, POINTER(c_char_p), c_char_p, c_size_t, P, *(P for _ in files), P, c_bool
        ]  # fmt: skip
        errors = self.c[_ERRORS]
        errors.restype, errors.argtypes = P, []
        argv = (c_char_p * len(words))(*words)
        if not parse(len(words), argv, b"", 0, errors(), *files, None, False):
            raise RecipeError(f"this LLVM refuses the options {' '.join(options)}")

    def message(self, pointer: Any) -> str:
        """Take over a C string that LLVM allocated."""
        address = pointer.value if hasattr(pointer, "value") else pointer
        if not address:
            return ""
        text = ctypes.string_at(address).decode(errors="replace")
        self.c.LLVMDisposeMessage(address)
        return text

    def buffer(self, pointer: Any) -> bytes:
        """Take over a memory buffer and return its bytes."""
        start = self.c.LLVMGetBufferStart(pointer)
        data = ctypes.string_at(start, self.c.LLVMGetBufferSize(pointer))
        self.c.LLVMDisposeMemoryBuffer(pointer)
        return data

    def name(self, value: int) -> str:
        """The name of a global value."""
        size = c_size_t()
        address = self.c.LLVMGetValueName2(value, byref(size))
        return ctypes.string_at(address, size.value).decode(errors="surrogateescape")

    def count_module(self, module: int) -> int:
        """IR instructions in the module."""
        if self._module_count is not None:
            return int(self._module_count(module))
        return sum(self.count_function(f) for f in self.functions(module))

    def count_function(self, function: int) -> int:
        """IR instructions in the function."""
        if self._function_count is not None:
            return int(self._function_count(function))
        total = 0
        block = self.c.LLVMGetFirstBasicBlock(function)
        while block:
            instruction = self.c.LLVMGetFirstInstruction(block)
            while instruction:
                total += 1
                instruction = self.c.LLVMGetNextInstruction(instruction)
            block = self.c.LLVMGetNextBasicBlock(block)
        return total

    def opcodes(self, module: int) -> dict[int, int]:
        """IR instructions in the module by opcode, in the C API's numbers (llvm-c/Core.h)."""
        c, found = self.c, Counter[int]()
        for function in self.functions(module):
            block = c.LLVMGetFirstBasicBlock(function)
            while block:
                instruction = c.LLVMGetFirstInstruction(block)
                while instruction:
                    found[c.LLVMGetInstructionOpcode(instruction)] += 1
                    instruction = c.LLVMGetNextInstruction(instruction)
                block = c.LLVMGetNextBasicBlock(block)
        return dict(found)

    def functions(self, module: int) -> list[int]:
        """The functions that have a body."""
        found = []
        function = self.c.LLVMGetFirstFunction(module)
        while function:
            if not self.c.LLVMIsDeclaration(function):
                found.append(function)
            function = self.c.LLVMGetNextFunction(function)
        return found

    def _version(self) -> tuple[int, int, int]:
        parts = (c_uint(), c_uint(), c_uint())
        self.c.LLVMGetVersion(*(byref(part) for part in parts))
        return parts[0].value, parts[1].value, parts[2].value

    def _initialise(self, target: str) -> bool:
        if not hasattr(self.c, f"LLVMInitialize{target}TargetMC"):
            return False
        for kind in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"):
            function = getattr(self.c, f"LLVMInitialize{target}{kind}", None)
            if function is not None:
                function.restype, function.argtypes = None, []
                function()
        return True

    def _counter(self, symbol: str) -> Any:
        function = getattr(self.c, symbol, None)
        if function is not None:
            function.restype, function.argtypes = c_uint, [P]
        return function
