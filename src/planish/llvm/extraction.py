"""Single functions out of a module, each as a module of its own.

What `llvm-extract` does: every other function and every variable that other modules could define
becomes a declaration, and what is not referred to is dropped; constants and variables of the
module's own stay where the function refers to them. An alias becomes what it stands for.
"""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Any

from planish.base.errors import RecipeError
from planish.base.hashing import digest
from planish.llvm.binding import Library
from planish.llvm.features import features
from planish.llvm.module import Module
from planish.llvm.requests import Extracted

P = c_void_p
_EXTERNAL, _AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE, _APPENDING = 0, 1, 8, 9, 7
_DROP = "globaldce,elim-avail-extern,globaldce,strip-dead-prototypes"
# llvm-c/Core.h
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "LLVMGetFirstGlobal": (P, [P]),
    "LLVMGetNextGlobal": (P, [P]),
    "LLVMDeleteGlobal": (None, [P]),
    "LLVMGetFirstGlobalAlias": (P, [P]),
    "LLVMGetNextGlobalAlias": (P, [P]),
    "LLVMAliasGetAliasee": (P, [P]),
    "LLVMReplaceAllUsesWith": (None, [P, P]),
    "LLVMGetLinkage": (ctypes.c_int, [P]),
    "LLVMSetComdat": (None, [P, P]),
    "LLVMGetFirstUse": (P, [P]),
}


def extract(library: Library, module: Module, smallest: int) -> tuple[Extracted, ...]:
    """The functions of at least `smallest` instructions, in the module's order.

    A function that does not stand alone as valid IR is left out.
    """
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    counts = module.instructions_by_function()
    found = []
    for name, count in counts.items():
        if count < smallest:
            continue
        data = _alone(library, module, name)
        if data is not None:
            found.append(data)
    return tuple(found)


def _alone(library: Library, module: Module, name: str) -> Extracted | None:
    copy = module.copy()
    c = library.c
    try:
        _release(c, copy.handle)
        chosen = name.encode(errors="surrogateescape")
        for function in library.functions(copy.handle):
            kept = library.name(function) == name
            c.LLVMSetComdat(function, None)
            c.LLVMSetLinkage(function, _EXTERNAL if kept else _AVAILABLE_EXTERNALLY)
        if not c.LLVMGetNamedFunction(copy.handle, chosen):
            return None
        try:
            copy.run_plain(_DROP)
        except RecipeError:
            return None
        if copy.verify():
            return None
        copy.anonymise()
        data = copy.bitcode()
        return Extracted(name, digest(data), copy.instructions(), data, features(copy.text()))
    finally:
        copy.drop()


def _release(c: Any, module: int) -> None:
    """Take away what would hold functions and variables of others."""
    alias = c.LLVMGetFirstGlobalAlias(module)
    while alias:
        following = c.LLVMGetNextGlobalAlias(alias)
        c.LLVMReplaceAllUsesWith(alias, c.LLVMAliasGetAliasee(alias))
        c.LLVMSetLinkage(alias, _INTERNAL)  # nothing refers to it: it is dropped
        alias = following
    variable = c.LLVMGetFirstGlobal(module)
    while variable:
        following = c.LLVMGetNextGlobal(variable)
        linkage = c.LLVMGetLinkage(variable)
        if linkage == _APPENDING:
            if not c.LLVMGetFirstUse(variable):
                c.LLVMDeleteGlobal(variable)
        elif not c.LLVMIsDeclaration(variable):
            c.LLVMSetComdat(variable, None)
            if linkage not in (_INTERNAL, _PRIVATE):
                c.LLVMSetLinkage(variable, _AVAILABLE_EXTERNALLY)
        variable = following
