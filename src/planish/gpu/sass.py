"""NVIDIA SASS as `nvdisasm -hex` (or `cuobjdump -sass`) prints it: instructions and control flow.

The control word in the upper half of a 128-bit instruction (Volta and later; see Jia et al.,
"Dissecting the NVIDIA Volta GPU architecture via microbenchmarking", arXiv 1804.06826) holds the
stall count, the barriers an instruction sets, and those it waits for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from planish.base.errors import TraceError
from planish.gpu.operands import DOUBLE, MEMORY, effects, split_operands

_LINE = re.compile(
    r"^\s*/\*(?P<offset>[0-9a-f]{4,})\*/\s+(?:\{\s*)?(?P<text>[^;]+?)\s*;\s*\}?"
    r"\s*(?:/\*\s*0x(?P<low>[0-9a-f]{16})\s*\*/)?\s*$"
)
_HIGH = re.compile(r"^\s*/\*\s*0x(?P<high>[0-9a-f]{16})\s*\*/\s*$")
_LABEL = re.compile(r"^\s*(?P<name>[.$][\w.$]+):")
_SECTION = re.compile(
    r"^\s*\.section\s+\.text\.(?P<name>[\w.$]+)|^\s*Function\s*:\s*(?P<other>\S+)"
)
_SOURCE = re.compile(r'//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_TARGET = re.compile(r"`\((?P<label>\.L[\w.$]+)\)|(?<![\w.])(?P<offset>0x[0-9a-f]+)\s*$")
_CALLEE = re.compile(r"`\((?P<name>[\w.$]+)\)")
_DEPBAR = re.compile(r"\bDEPBAR\.LE\s+(?P<board>SB\d)(?:,\s*0x(?P<count>[0-9a-f]+))?")

_JUMPS = frozenset(["BRA", "BRX", "JMP", "JMX", "EXIT", "RET", "KILL"])


@dataclass(frozen=True)
class Control:
    """Scheduling fields. `wait` is the set of barriers waited for; -1 means no barrier is set."""

    stall: int = 0
    yields: bool = False
    write_barrier: int = -1
    read_barrier: int = -1
    wait: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Instruction:
    """One instruction. Registers are named R4, UR4, P0, UP0, B0; RZ and PT are left out.

    memory  whether it reads or writes memory
    raises  counters that count it until it is done: AMD's, and NVIDIA's scoreboards SB0 to SB5
    waits   counters that it waits for, with how many instructions may still be under way
    calls   the function that it calls, where the listing names one
    """

    offset: int
    text: str
    opcode: str
    modifiers: tuple[str, ...]
    guard: str
    defines: frozenset[str]
    uses: frozenset[str]
    control: Control
    target: int | str | None = None
    file: str = ""
    line: int = 0
    memory: bool = False
    raises: frozenset[str] = frozenset()
    waits: tuple[tuple[str, int], ...] = ()
    calls: str = ""

    @property
    def conditional(self) -> bool:
        """Whether a predicate guards it."""
        return bool(self.guard)

    @property
    def is_memory(self) -> bool:
        """Whether it reads or writes memory."""
        return self.memory

    @property
    def variable_latency(self) -> bool:
        """Whether its result is announced by a barrier rather than after a known time."""
        return self.control.write_barrier >= 0

    @property
    def latency(self) -> int:
        """Upper bound in cycles for pruning: memory 1,000, other variable 100, else 8."""
        if self.is_memory:
            return 1000
        return 100 if self.variable_latency or self.opcode in DOUBLE else 8


@dataclass(frozen=True)
class Function:
    """A kernel or device function: instructions by offset, with the edges between them."""

    name: str
    code: Sequence[Instruction]
    successors: Sequence[tuple[int, ...]] = field(default=())

    def predecessors(self) -> list[list[int]]:
        """For each instruction the indices of those that may run right before it."""
        found: list[list[int]] = [[] for _ in self.code]
        for index, after in enumerate(self.successors):
            for other in after:
                found[other].append(index)
        return found


def decode_control(high: int) -> Control:
    """The control fields of the upper 64 bits of an instruction."""
    bits = high >> 41
    write, read = bits >> 5 & 7, bits >> 8 & 7
    mask = bits >> 11 & 63
    return Control(
        bits & 15, not bits >> 4 & 1, -1 if write == 7 else write, -1 if read == 7 else read,
        frozenset(i for i in range(6) if mask >> i & 1),
    )  # fmt: skip


def parse_sass(text: str) -> list[Function]:
    """All functions of a listing; raises TraceError where there is not one instruction."""
    functions = [connect(name, code, labels, _JUMPS) for name, code, labels in _functions(text)]
    if not functions:
        raise TraceError(
            "no SASS instructions in the listing", hint="make it with: nvdisasm -hex -g file.cubin"
        )
    return functions


def _functions(text: str) -> Iterator[tuple[str, list[Instruction], dict[str, int]]]:
    name, code, labels = "", [], {}  # type: str, list[Instruction], dict[str, int]
    waiting: list[str] = []
    source = ("", 0)
    pending: re.Match[str] | None = None

    def add(match: re.Match[str], high: int | None) -> None:
        for label in waiting:
            labels[label] = len(code)
        waiting.clear()
        control = decode_control(high) if high is not None else Control()
        code.append(parse_instruction(int(match["offset"], 16), match["text"], control, *source))

    for raw in text.splitlines():
        high = _HIGH.match(raw)
        if pending is not None:
            add(pending, int(high["high"], 16) if high else None)
            pending = None
            if high:
                continue
        section = _SECTION.match(raw)
        if section:
            if code:
                yield name, code, labels
            name, code, labels = section["name"] or section["other"], [], {}
            continue
        if found := _SOURCE.search(raw):
            source = (found["file"], int(found["line"]))
        if (found := _LABEL.match(raw)) and found["name"].startswith("$"):
            # a function that the kernel calls: it lies behind it, in the same section
            if code:
                yield name, code, labels
            name, code, labels = found["name"], [], {}
        elif found:
            waiting.append(found["name"])
        pending = _LINE.match(raw)
    if pending is not None:
        add(pending, None)
    if code:
        yield name, code, labels


def parse_instruction(
    offset: int, text: str, control: Control, file: str = "", line: int = 0
) -> Instruction:
    """Opcode, guard, and which registers are written and read."""
    words = text.split(None, 1)
    guard = ""
    if words[0].startswith("@"):
        guard = words[0].lstrip("@!")
        words = words[1].split(None, 1) if len(words) > 1 else ["NOP"]
    opcode, *modifiers = words[0].split(".")
    operands = split_operands(words[1]) if len(words) > 1 else []
    defines, uses = effects(opcode, tuple(modifiers), operands)
    if guard and guard not in ("PT", "UPT"):
        uses |= {guard}
    else:
        guard = ""
    target = _TARGET.search(words[1]) if opcode in ("BRA", "JMP") and len(words) > 1 else None
    where: int | str | None = None
    if target:
        where = target["label"] or int(target["offset"], 16)
    return Instruction(
        offset, text, opcode, tuple(modifiers), guard, frozenset(defines), frozenset(uses), control,
        where, file, line, memory=opcode in MEMORY, raises=_scoreboards(control),
        waits=_waits(text), calls=_callee(opcode, text),
    )  # fmt: skip


def _callee(opcode: str, text: str) -> str:
    found = _CALLEE.search(text) if opcode == "CALL" else None
    return found["name"] if found else ""


def _scoreboards(control: Control) -> frozenset[str]:
    return frozenset(f"SB{b}" for b in (control.write_barrier, control.read_barrier) if b >= 0)


def _waits(text: str) -> tuple[tuple[str, int], ...]:
    """DEPBAR.LE waits until at most so many of a scoreboard's instructions are under way."""
    found = _DEPBAR.search(text)
    return ((found["board"], int(found["count"] or "0", 16)),) if found else ()


def connect(
    name: str, code: list[Instruction], labels: dict[str, int], jumps: frozenset[str]
) -> Function:
    """A function with its control flow: targets, and the next one where `jumps` has no opcode."""
    by_offset = {instruction.offset: index for index, instruction in enumerate(code)}
    successors: list[tuple[int, ...]] = []
    for index, instruction in enumerate(code):
        after: list[int] = []
        target = instruction.target
        if isinstance(target, str) and target in labels:
            after.append(labels[target])
        elif isinstance(target, int) and target in by_offset:
            after.append(by_offset[target])
        falls = instruction.opcode not in jumps or instruction.conditional
        if falls and index + 1 < len(code):
            after.append(index + 1)
        successors.append(tuple(dict.fromkeys(after)))
    return Function(name, code, successors)
