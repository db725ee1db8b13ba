"""What a module looks like, as numbers: what a model knows of a program before anything is built.

Counted in the text of the unoptimised IR, which LLVM prints faster than its C API can be walked;
shares rather than counts, so that small and large modules of one kind look alike. Each feature's
meaning stands in `FEATURES`. Beside them stand the pairs of opcodes that follow each other in a
block: what the learned embedding over opcodes is fed with. Each line is looked at once, and only
lines of calls, branches and definitions are looked into.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass, field

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
# In the order of the embedding's rows; row 0 is for what is not here.
OPCODES = tuple(name for names in _GROUPS.values() for name in names)
_NUMBER_OF = {name: at for at, name in enumerate(OPCODES, 1)}
_GROUP_OF = {opcode: group for group, names in _GROUPS.items() for opcode in names}
# Binary operations, casts and comparisons name the type after flags; these words are types.
_TYPES = ("i1", "i8", "i16", "i32", "i64", "i128", "ptr", "float", "double")

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
    "narrow": "share of the typed words that are i8 or i16",
    "wide": "the same for i64",
    **{f"op {group}": f"share of {', '.join(names[:4])}" for group, names in _GROUPS.items()},
    "op other": "share of what is in no group",
    **{f"type {name}": f"share of {name} in the types at the head of instructions"
       for name in ("i1", "i32", "ptr", "float", "double")},
    "conditional": "share of the blocks that end in a conditional branch",
    "edges": "edges of the control flow graph for a block, on average",
    "joins": "share of the blocks with two predecessors and more",
    "back edges": "log2 of branches to a block that stands earlier, for 100 blocks",
    "nesting": "most loops of a function that lie in each other, by where their branches span",
    "largest flow": "log2 of the blocks of the largest function",
    "leaves": "share of the functions that call none but intrinsics",
    "callees": "functions of the module that a function calls, on average",
    "called once": "share of the functions with a body that are called at one place here",
    "recursive": "share of the functions that call themselves",
    "zeros": "share of the instructions that end in the constant 0",
    "ones": "share of the instructions that end in the constant 1 or -1",
    "nulls": "null pointers for an instruction, at most 1",
    "no wrap": "share of the arithmetic and addresses that carry nsw, nuw or inbounds",
    "no return": "share of the blocks that end in unreachable",
    "constant arguments": "share of the arguments that are integer constants",
    "aliasing": "TBAA tags for a load or store",
}  # fmt: skip

_BYTES = re.compile(r" (?:constant|global) \[(\d+) x i8\] c\"")
_DEFINED = re.compile(r"(@\"[^\"]*\"|@[\w.$-]+)\((.*)")
_CALLEE = re.compile(r"(@\"[^\"]*\"|@[\w.$-]+|%[\w.-]+)\(")
_TARGET = re.compile(r"label %(?:(\d+)|\"[^\"]*\"|[\w.-]+)")
_NOT_CALLS = ("@llvm.lifetime", "@llvm.dbg")
_CALLS = frozenset(("call", "tail", "musttail", "notail", "invoke"))
_OFTEN, _MOST_PARAMETERS = 5, 8


@dataclass(frozen=True)
class Description:
    """A program as a model sees it.

    features  the vector of `FEATURES`
    pairs     (opcode, the next one in its block) to how often, by numbers in `OPCODES` from 1;
              0 stands for an opcode that is not there, and for the beginning of a block
    """

    features: tuple[float, ...]
    pairs: dict[tuple[int, int], int]


@dataclass
class _Body:
    """What is counted of one function.

    back  (first, last) block of each branch backwards
    """

    name: str
    header: str
    instructions: int = 0
    blocks: int = 1
    callees: tuple[str, ...] = ()
    back: tuple[tuple[int, int], ...] = ()


@dataclass
class _Seen:
    """What one walk over the lines finds.

    opcodes  of all functions in order, with "" before each block
    words    what stands behind the opcodes: flags and types
    """

    bodies: list[_Body] = field(default_factory=list)
    opcodes: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    parameters: int = 0
    edges: int = 0
    conditional: int = 0
    joins: int = 0


def describe(text: str) -> Description:
    """A module's textual IR in numbers, which are finite for every text."""
    head, *parts = text.split("\ndefine ")
    seen = _Seen()
    for part in parts:
        _read(part, seen)
    numbers = [_NUMBER_OF.get(opcode, 0) for opcode in seen.opcodes]
    following = zip(numbers, numbers[1:], seen.opcodes[1:], strict=False)
    pairs = Counter((first, then) for first, then, opcode in following if opcode)
    return Description(_vector(head, text, seen), dict(pairs))


def features(text: str) -> tuple[float, ...]:
    """The vector of `FEATURES` alone."""
    return describe(text).features


def _read(part: str, seen: _Seen) -> None:
    """One function: its header's rest, and its lines up to the brace that ends it."""
    header, _, rest = part.partition("\n")
    found = _DEFINED.search(header)
    if found is None:
        return
    seen.parameters += 0 if found[2].startswith(")") else found[2].count(",") + 1
    body = _Body(found[1], header[: found.start()])
    seen.bodies.append(body)
    opcodes, words = seen.opcodes, seen.words
    opcodes.append("")
    before = len(opcodes)
    callees: list[str] = []
    back: list[tuple[int, int]] = []
    block = 0
    # A switch goes on over several lines, which are no instructions.
    for line in rest.partition("\n}")[0].split("\n"):
        if line[:2] != "  ":
            if line:
                label, _, preceding = line.partition(":")
                block = int(label) if label.isdecimal() else block
                seen.joins += "," in preceding
                body.blocks += 1
                opcodes.append("")
        elif line[2:3] not in " ]":
            split = line.split(" ", 7)
            opcode = split[4] if len(split) > 4 and split[3] == "=" else split[2]
            opcodes.append(opcode)
            words += split[3:7]
            if opcode in _CALLS:
                call = _CALLEE.search(line)
                if call is not None and not call[1].startswith(_NOT_CALLS):
                    callees.append(call[1])
            elif opcode == "br":
                targets = _TARGET.findall(line)
                seen.edges += len(targets)
                seen.conditional += len(targets) == 2
                back += [(int(t), block) for t in targets if t and int(t) <= block]
    body.instructions = len(opcodes) - before - (body.blocks - 1)
    body.callees, body.back = tuple(callees), tuple(back)


def _vector(head: str, text: str, seen: _Seen) -> tuple[float, ...]:
    bodies = seen.bodies
    headers = [body.header for body in bodies]
    total, count = max(sum(body.instructions for body in bodies), 1), max(len(bodies), 1)
    blocks = max(sum(body.blocks for body in bodies), 1)
    groups: Counter[str] = Counter()
    opcodes = Counter(seen.opcodes)
    del opcodes[""]
    for opcode, times in opcodes.items():
        groups[_GROUP_OF.get(opcode, "other")] += times
    words = Counter(seen.words)
    types = {name: words[name] + words[f"{name},"] for name in _TYPES}
    typed = max(sum(types.values()), 1)
    called = Counter(name for body in bodies for name in body.callees)
    calls = max(sum(called.values()), 1)
    own = {body.name for body in bodies}
    lines = [line for line in head.split("\n") if line[:1] == "@"]
    variables = [line for line in lines if " constant " in line or " global " in line]
    texts = [found for line in variables if (found := _BYTES.search(line))]
    strings = sum(int(found[1]) for found in texts)
    inner = [{name for name in body.callees if name in own} for body in bodies]
    arguments = max(text.count(" noundef "), 1)
    wraps = sum(groups[name] for name in ("add", "multiply", "shift", "address"))
    values = [
        _log(total),
        _log(len(bodies)),
        _log(total / count),
        _log(total / blocks),
        max((body.instructions for body in bodies), default=0) / total,
        sum("internal " in words or "private " in words for words in headers) / count,
        sum("linkonce" in words for words in headers) / count,
        min(seen.parameters / count, _MOST_PARAMETERS),
        _log(100 * text.count("!llvm.loop") / blocks),
        sum(n for name, n in called.items() if name not in own and name[0] == "@") / calls,
        sum(n for name, n in called.items() if name.startswith("@llvm.")) / calls,
        sum(n for name, n in called.items() if name[0] == "%") / calls,
        sum(n for n in called.values() if n >= _OFTEN) / calls,
        _log(100 * strings / total),
        _log(100 * (len(variables) - len(texts)) / total),
        (types["i8"] + types["i16"]) / typed,
        types["i64"] / typed,
        *(groups[group] / total for group in (*_GROUPS, "other")),
        *(types[name] / typed for name in ("i1", "i32", "ptr", "float", "double")),
        seen.conditional / blocks,
        seen.edges / blocks,
        seen.joins / blocks,
        _log(100 * sum(len(body.back) for body in bodies) / blocks),
        float(max((_nesting(body.back) for body in bodies), default=0)),
        _log(max((body.blocks for body in bodies), default=0)),
        sum(all(name.startswith("@llvm.") for name in body.callees) for body in bodies) / count,
        sum(map(len, inner)) / count,
        sum(called[name] == 1 for name in own) / count,
        sum(body.name in body.callees for body in bodies) / count,
        text.count(", 0\n") / total,
        (text.count(", 1\n") + text.count(", -1\n")) / total,
        min(text.count(" null") / total, 1.0),
        min((words["nsw"] + words["nuw"] + words["inbounds"]) / max(wraps, 1), 1.0),
        opcodes["unreachable"] / blocks,
        len(_CONSTANT.findall(text)) / arguments,
        min(text.count("!tbaa") / max(groups["load"] + groups["store"], 1), 1.0),
    ]
    return tuple(values)


_CONSTANT = re.compile(r" noundef -?\d")


def _nesting(spans: tuple[tuple[int, int], ...]) -> int:
    """Most spans over one place; two branches to one loop's head count once."""
    widest: dict[int, int] = {}
    for first, last in spans:
        widest[first] = max(widest.get(first, 0), last)
    return max((sum(f <= at <= last for f, last in widest.items()) for at in widest), default=0)


def _log(value: float) -> float:
    return math.log2(1 + value)
