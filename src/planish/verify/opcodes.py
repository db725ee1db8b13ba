"""Numbers of the LLVM-C API (llvm-c/Core.h) and what they stand for."""

from __future__ import annotations

OPCODES = {
    1: "ret", 2: "br", 3: "switch", 4: "indirectbr", 5: "invoke", 7: "unreachable",
    8: "add", 9: "fadd", 10: "sub", 11: "fsub", 12: "mul", 13: "fmul", 14: "udiv", 15: "sdiv",
    16: "fdiv", 17: "urem", 18: "srem", 19: "frem", 20: "shl", 21: "lshr", 22: "ashr",
    23: "and", 24: "or", 25: "xor", 26: "alloca", 27: "load", 28: "store", 29: "getelementptr",
    30: "trunc", 31: "zext", 32: "sext", 33: "fptoui", 34: "fptosi", 35: "uitofp", 36: "sitofp",
    37: "fptrunc", 38: "fpext", 39: "ptrtoint", 40: "inttoptr", 41: "bitcast", 42: "icmp",
    43: "fcmp", 44: "phi", 45: "call", 46: "select", 49: "va_arg", 50: "extractelement",
    51: "insertelement", 52: "shufflevector", 53: "extractvalue", 54: "insertvalue", 55: "fence",
    56: "cmpxchg", 57: "atomicrmw", 58: "resume", 59: "landingpad", 60: "addrspacecast",
    66: "fneg", 67: "callbr", 68: "freeze", 69: "ptrtoaddr",
}  # fmt: skip

TYPE_KINDS = {
    0: "void", 1: "half", 2: "float", 3: "double", 4: "x86_fp80", 5: "fp128", 6: "ppc_fp128",
    7: "label", 8: "int", 9: "function", 10: "struct", 11: "array", 12: "ptr", 13: "vector",
    14: "metadata", 16: "token", 17: "scalable vector", 18: "bfloat", 19: "x86_amx",
    20: "target extension",
}  # fmt: skip

FLOAT_WIDTHS = {"half": 16, "float": 32, "double": 64}

VALUE_KINDS = {
    5: "function", 6: "alias", 7: "ifunc", 8: "global", 9: "block address", 10: "expression",
    11: "aggregate", 12: "aggregate", 13: "aggregate", 14: "undef", 15: "zero", 16: "aggregate",
    17: "aggregate", 18: "integer", 19: "real", 20: "null", 22: "metadata", 23: "inline assembly",
    25: "poison",
}  # fmt: skip

ICMP = {
    32: "eq", 33: "ne", 34: "ugt", 35: "uge", 36: "ult", 37: "ule", 38: "sgt", 39: "sge",
    40: "slt", 41: "sle",
}  # fmt: skip

FCMP = {
    0: "false", 1: "oeq", 2: "ogt", 3: "oge", 4: "olt", 5: "ole", 6: "one", 7: "ord", 8: "uno",
    9: "ueq", 10: "ugt", 11: "uge", 12: "ult", 13: "ule", 14: "une", 15: "true",
}  # fmt: skip

CASTS = frozenset({
    "trunc", "zext", "sext", "fptoui", "fptosi", "uitofp", "sitofp", "fptrunc", "fpext",
    "ptrtoint", "inttoptr", "bitcast", "ptrtoaddr",
})  # fmt: skip
OVERFLOWING = frozenset({"add", "sub", "mul", "shl", "trunc"})
EXACT = frozenset({"udiv", "sdiv", "lshr", "ashr"})
UNSUPPORTED = frozenset({
    "indirectbr", "callbr", "addrspacecast", "unknown instruction",
})  # fmt: skip
