"""What a module looks like, as numbers: what a model knows of a program before anything is built.

Counted in the text of the unoptimised IR, which LLVM prints faster than its C API can be walked;
shares rather than counts, so that small and large modules of one kind look alike. Each feature's
meaning stands in `FEATURES`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable

# Opcodes that are told apart, by group; what is in no group is counted as `other`.
_GROUPS = {
    "load": ("load",),
    "store": ("store",),
    "address": ("getelementptr",),
    "stack": ("alloca",),
    "call": ("call", "tail", "musttail", "notail"),
    "invoke": ("invoke", "landingpad", "resume", "cleanupret", "catchpad"),
    "branch": ("br", "indirectbr"),
    "switch": ("switch",),
    "return": ("ret", "unreachable"),
    "compare": ("icmp",),
    "select": ("select", "phi", "freeze"),
    "add": ("add", "sub"),
    "multiply": ("mul",),
    "divide": ("udiv", "sdiv", "urem", "srem"),
    "shift": ("shl", "lshr", "ashr"),
    "logic": ("and", "or", "xor"),
    "extend": ("zext", "sext"),
    "truncate": ("trunc",),
    "pointer": ("ptrtoint", "inttoptr", "bitcast", "addrspacecast"),
    "float": (
        "fadd", "fsub", "fmul", "fdiv", "frem", "fneg", "fcmp", "fpext", "fptrunc", "fptosi",
        "fptoui", "sitofp", "uitofp",
    ),
    "vector": ("extractelement", "insertelement", "shufflevector"),
    "aggregate": ("extractvalue", "insertvalue"),
    "atomic": ("fence", "cmpxchg", "atomicrmw"),
}  # fmt: skip
_GROUP_OF = {opcode: group for group, names in _GROUPS.items() for opcode in names}

# Name to meaning, in the order of the vector.
FEATURES = {
    "size": "log2 of the number of instructions",
    "functions": "log2 of the number of functions with a body",
    "function size": "log2 of the instructions of a function, on average",
    "block size": "log2 of the instructions of a basic block, on average",
    "largest": "share of the largest function in all instructions",
    "internal": "share of the functions that other modules do not see",
    "shared": "share of the functions that many modules may hold (inline functions of C++)",
    "parameters": "parameters of a function, on average, at most 8",
    "loops": "log2 of branches that carry loop metadata for 100 blocks",
    "outside": "share of the calls that go to functions without a body here",
    "intrinsics": "share of the calls that go to LLVM's intrinsics (lifetimes left out)",
    "indirect": "share of the calls through pointers",
    "repeated": "share of the calls to functions that are called five times and more",
    "strings": "log2 of the bytes of string constants for 100 instructions",
    "globals": "log2 of the other variables for 100 instructions",
    "narrow": "share of the integer arithmetic and accesses that are 8 or 16 bits wide",
    "wide": "the same for 64 bits",
    **{f"op {group}": f"share of {', '.join(names[:4])}" for group, names in _GROUPS.items()},
    "op other": "share of what is in no group",
}

_OPCODE = re.compile(r"^  (?:%[^=\n]+= )?([a-z]+)", re.MULTILINE)
# A switch goes on over several lines, which are no instructions.
_INSTRUCTION = re.compile(r"\n  [^ \]\n]")
_CALL = re.compile(r"\b(?:call|invoke) [^\n@]*?(@\"[^\"]*\"|@[\w.$-]+|%[\w.-]+)\(")
_WIDTH = re.compile(
    r" (?:load|store|add|sub|mul|and|or|xor|shl|lshr|icmp)\b[^\n,]*? i(8|16|32|64)\b"
)
_DEFINE = re.compile(r"^define ([^@\n]*)@(\"[^\"]*\"|[\w.$-]+)\(([^\n]*)\{$", re.MULTILINE)
_VARIABLE = re.compile(
    r"^@[^=\n]+= [^\n]*?\b(?:constant|global) (?:\[(\d+) x i8\] c\")?", re.MULTILINE
)
_LABEL = re.compile(r"^[\w.$\"-]+:", re.MULTILINE)
_NOT_CALLS = ("@llvm.lifetime", "@llvm.dbg")
_OFTEN, _MOST_PARAMETERS = 5, 8


def features(text: str) -> tuple[float, ...]:
    """The vector of `FEATURES` for a module's textual IR; finite for every module."""
    definitions = _DEFINE.findall(text)
    bodies = text.split("\ndefine ")[1:]
    sizes = [len(_INSTRUCTION.findall(body)) for body in bodies]
    total, count = max(sum(sizes), 1), max(len(sizes), 1)
    blocks = len(_LABEL.findall(text)) + count
    opcodes: Counter[str] = Counter()
    for opcode, times in Counter(_OPCODE.findall(text)).items():
        opcodes[_GROUP_OF.get(opcode, "other")] += times
    called = {n: times for n, times in Counter(_CALL.findall(text)).items()
              if not n.startswith(_NOT_CALLS)}  # fmt: skip
    calls = max(sum(called.values()), 1)
    own = {f"@{name}" for _, name, _ in definitions}
    widths = Counter(_WIDTH.findall(text))
    accesses = max(sum(widths.values()), 1)
    variables = _VARIABLE.findall(text)
    strings = sum(int(size) for size in variables if size)
    parameters = sum(rest.count(",") + 1 for _, _, rest in definitions)

    def share(chosen: Iterable[int]) -> float:
        return sum(chosen) / calls

    values = [
        _log(total),
        _log(len(sizes)),
        _log(total / count),
        _log(total / blocks),
        max(sizes, default=0) / total,
        sum("internal " in words or "private " in words for words, _, _ in definitions) / count,
        sum("linkonce" in words for words, _, _ in definitions) / count,
        min(parameters / count, _MOST_PARAMETERS),
        _log(100 * text.count("!llvm.loop") / blocks),
        share(n for name, n in called.items() if name not in own and name[0] == "@"),
        share(n for name, n in called.items() if name.startswith("@llvm.")),
        share(n for name, n in called.items() if name[0] == "%"),
        share(n for n in called.values() if n >= _OFTEN),
        _log(100 * strings / total),
        _log(100 * variables.count("") / total),
        (widths["8"] + widths["16"]) / accesses,
        widths["64"] / accesses,
    ]
    return (*values, *(opcodes[group] / total for group in (*_GROUPS, "other")))


def _log(value: float) -> float:
    return math.log2(1 + value)
