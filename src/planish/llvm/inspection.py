"""Functions of the LLVM-C API that look into values, types and instructions.

Apart from `binding.py`, whose functions every libLLVM that Planish accepts must have; these are
asked for by what reads functions. Source of the signatures: llvm-c/Core.h and llvm-c/Target.h.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, c_char_p, c_int, c_uint, c_uint64, c_void_p
from typing import Any

from planish.base.errors import ToolchainError
from planish.llvm.binding import Library

P = c_void_p

_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    # types
    "LLVMTypeOf": (P, [P]),
    "LLVMGetTypeKind": (c_int, [P]),
    "LLVMGetIntTypeWidth": (c_uint, [P]),
    "LLVMGetElementType": (P, [P]),
    "LLVMGetArrayLength2": (c_uint64, [P]),
    "LLVMGetVectorSize": (c_uint, [P]),
    "LLVMCountStructElementTypes": (c_uint, [P]),
    "LLVMStructGetTypeAtIndex": (P, [P, c_uint]),
    "LLVMTypeIsSized": (c_int, [P]),
    "LLVMGetPointerAddressSpace": (c_uint, [P]),
    "LLVMPrintTypeToString": (P, [P]),
    "LLVMIntTypeInContext": (P, [P, c_uint]),
    "LLVMGetTypeContext": (P, [P]),
    # layout
    "LLVMGetModuleDataLayout": (P, [P]),
    "LLVMABISizeOfType": (c_uint64, [P, P]),
    "LLVMStoreSizeOfType": (c_uint64, [P, P]),
    "LLVMOffsetOfElement": (c_uint64, [P, P, c_uint]),
    "LLVMByteOrder": (c_int, [P]),
    "LLVMPointerSize": (c_uint, [P]),
    # values and constants
    "LLVMGetValueKind": (c_int, [P]),
    "LLVMIsUndef": (c_int, [P]),
    "LLVMIsPoison": (c_int, [P]),
    "LLVMIsNull": (c_int, [P]),
    "LLVMIsConstant": (c_int, [P]),
    "LLVMConstBitCast": (P, [P, P]),
    "LLVMGetAggregateElement": (P, [P, c_uint]),
    "LLVMGetConstOpcode": (c_int, [P]),
    # globals
    "LLVMGetInitializer": (P, [P]),
    "LLVMIsGlobalConstant": (c_int, [P]),
    "LLVMIsThreadLocal": (c_int, [P]),
    "LLVMGlobalGetValueType": (P, [P]),
    "LLVMGetAlignment": (c_uint, [P]),
    "LLVMGetLinkage": (c_int, [P]),
    "LLVMGetFirstGlobal": (P, [P]),
    "LLVMGetNextGlobal": (P, [P]),
    # functions
    "LLVMCountParams": (c_uint, [P]),
    "LLVMGetParam": (P, [P, c_uint]),
    "LLVMGetReturnType": (P, [P]),
    "LLVMIsFunctionVarArg": (c_int, [P]),
    "LLVMGetIntrinsicID": (c_uint, [P]),
    "LLVMGetGC": (c_char_p, [P]),
    "LLVMGetEnumAttributeValue": (c_uint64, [P]),
    # instructions
    "LLVMGetICmpPredicate": (c_int, [P]),
    "LLVMGetFCmpPredicate": (c_int, [P]),
    "LLVMGetNUW": (c_int, [P]),
    "LLVMGetNSW": (c_int, [P]),
    "LLVMGetExact": (c_int, [P]),
    "LLVMGetNNeg": (c_int, [P]),
    "LLVMGetIsDisjoint": (c_int, [P]),
    "LLVMGetICmpSameSign": (c_int, [P]),
    "LLVMGetFastMathFlags": (c_uint, [P]),
    "LLVMCanValueUseFastMathFlags": (c_int, [P]),
    "LLVMGetGEPSourceElementType": (P, [P]),
    "LLVMGEPGetNoWrapFlags": (c_uint, [P]),
    "LLVMGetNumIndices": (c_uint, [P]),
    "LLVMGetIndices": (POINTER(c_uint), [P]),
    "LLVMGetNumSuccessors": (c_uint, [P]),
    "LLVMGetSuccessor": (P, [P, c_uint]),
    "LLVMGetSwitchCaseValue": (P, [P, c_uint]),
    "LLVMCountIncoming": (c_uint, [P]),
    "LLVMGetIncomingValue": (P, [P, c_uint]),
    "LLVMGetIncomingBlock": (P, [P, c_uint]),
    "LLVMGetAllocatedType": (P, [P]),
    "LLVMGetVolatile": (c_int, [P]),
    "LLVMGetOrdering": (c_int, [P]),
    "LLVMGetCalledValue": (P, [P]),
    "LLVMGetNumArgOperands": (c_uint, [P]),
    "LLVMGetCallSiteEnumAttribute": (P, [P, c_uint, c_uint]),
    "LLVMGetNumOperandBundles": (c_uint, [P]),
    "LLVMGetNumMaskElements": (c_uint, [P]),
    "LLVMGetMaskValue": (c_int, [P, c_uint]),
    "LLVMGetMDKindIDInContext": (c_uint, [P, c_char_p, c_uint]),
    "LLVMGetMetadata": (P, [P, c_uint]),
    "LLVMHasMetadata": (c_int, [P]),
    "LLVMBasicBlockAsValue": (P, [P]),
}


def declare(library: Library) -> Any:
    """The library's functions with these declared, too; raises ToolchainError where one lacks."""
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library.c, name, None)
        if function is None:
            raise ToolchainError(
                f"{library.path} has no {name}", hint="verification needs LLVM 22 or newer"
            )
        function.restype, function.argtypes = result, arguments
    return library.c


def text_of(library: Library, pointer: Any) -> str:
    """Take over a C string that describes a type or a value."""
    address = pointer.value if isinstance(pointer, ctypes.c_void_p) else pointer
    return library.message(address)
