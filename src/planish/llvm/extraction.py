"""Single functions out of a module, each as a module of its own.

What `llvm-extract` does: every other function and every variable that other modules could define
becomes a declaration, and what is not referred to is dropped; constants and variables of the
module's own stay where the function refers to them. An alias becomes what it stands for.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
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
_AT_ONCE = 12
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
    chosen = [name for name, count in counts.items() if count >= smallest]
    found: list[Extracted] = []
    # By a few at a time: each function is cut out of a module that holds few others.
    for start in range(0, len(chosen), _AT_ONCE):
        names = chosen[start : start + _AT_ONCE]
        with _reduced(library, module, names) as few:
            if few is None:
                continue
            for name in names:
                with _reduced(library, few, [name]) as alone:
                    if alone is not None and not alone.verify():
                        found.append(_as_extracted(alone, name))
    return tuple(found)


def _as_extracted(alone: Module, name: str) -> Extracted:
    alone.anonymise()
    data = alone.bitcode()
    return Extracted(name, digest(data), alone.instructions(), data, features(alone.text()))


@contextlib.contextmanager
def _reduced(library: Library, module: Module, names: Sequence[str]) -> Iterator[Module | None]:
    """A copy with no other bodies than these; None where LLVM refuses."""
    kept = set(names)
    copy = module.copy()
    try:
        _release(library.c, copy.handle)
        for function in library.functions(copy.handle):
            library.c.LLVMSetComdat(function, None)
            stays = library.name(function) in kept
            library.c.LLVMSetLinkage(function, _EXTERNAL if stays else _AVAILABLE_EXTERNALLY)
        try:
            copy.run_plain(_DROP)
        except RecipeError:
            yield None
        else:
            yield copy
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
