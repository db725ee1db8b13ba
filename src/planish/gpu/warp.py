"""One warp's integer instructions: what each of the 32 lanes holds in its registers.

With made-up but equal parameters a pass over the code in its order gives each lane's values
relative to the others. What is not understood stays unknown; nothing is guessed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from planish.gpu.operands import split_operands
from planish.gpu.sass import Instruction

Lanes = np.ndarray[Any, Any]  # 32-bit words of the lanes, as uint64
_PARAMETER = 4096  # every word of the constant bank that no launch is known for
_MASK = np.uint64(0xFFFFFFFF)


class Machine:
    """Registers of 32 lanes; a name that is missing is unknown."""

    def __init__(
        self, threads: int, first_block: int | None = None, grid: Sequence[int] = ()
    ) -> None:
        """Where `first_block` is given, lanes stand for blocks of the grid instead of threads."""
        self._threads = threads
        self.first_block = first_block
        self.grid = grid
        self._values: dict[str, Lanes] = {}

    def word(self, text: str) -> Lanes | None:
        """An operand: register, number or constant."""
        text = text.strip().removesuffix(".reuse")
        negative = text.startswith("-")
        inverted = text.startswith("~")
        plain = text.lstrip("-~!").strip("|")
        found = self._plain(plain)
        if found is None:
            return None
        if negative:
            return (-found.astype(np.int64)).astype(np.uint64) & _MASK
        return ~found & _MASK if inverted else found

    def _plain(self, text: str) -> Lanes | None:
        base = text.split(".")[0]
        if base in ("RZ", "URZ", "SRZ"):
            return np.zeros(32, np.uint64)
        if re.fullmatch(r"U?R\d+", base):
            return self._values.get(base)
        if re.fullmatch(r"-?0x[0-9a-f]+|-?\d+", text):
            return np.full(32, int(text, 0) & 0xFFFFFFFF, np.uint64)
        match = re.fullmatch(r"c\[(?:0x0|0)\]\[(0x[0-9a-f]+|RZ|\w+)\]", text)
        if match:
            place = 0 if match[1] == "RZ" else int(match[1], 16) if match[1][:2] == "0x" else None
            if place is None:
                return None
            return np.full(32, self._threads if place == 0 else _PARAMETER, np.uint64)
        return None

    def address(self, text: str, *, wide: bool) -> Lanes | None:
        """The sum in an address's brackets; for 64-bit registers with the upper half."""
        total = np.zeros(32, np.int64)
        for part in filter(None, re.split(r"\s*\+\s*(?![^\[]*\])", text)):
            match = re.fullmatch(r"(U?R)(\d+)((?:\.\w+)*)", part.strip())
            if match is None or match[1] + match[2] == "RZ":
                value = self.word(part)
                if value is None:
                    return None
                total += value.astype(np.uint32).astype(np.int32).astype(np.int64)
                continue
            low = self._values.get(match[1] + match[2])
            if low is None:
                return None
            scale = re.search(r"\.X(\d+)", match[3])
            value = low.astype(np.int64) * (int(scale[1]) if scale else 1)
            if wide and (".64" in match[3] or match[1] == "R"):
                high = self._values.get(f"{match[1]}{int(match[2]) + 1}")
                if high is not None:
                    value = value + (high.astype(np.int64) << 32)
            total += value
        return total

    def step(self, i: Instruction) -> None:
        """Run one instruction for all lanes; what it writes and is not understood is unknown."""
        words = i.text.split(None, 1)
        if words[0].startswith("@") and len(words) > 1:
            words = words[1].split(None, 1)
        operands = split_operands(words[1]) if len(words) > 1 else []
        while operands and re.fullmatch(r"U?P(\d+|T)", operands[0]):
            operands = operands[1:]  # predicates that are written beside the register
        results = None
        maker = _RULES.get(i.opcode)
        if maker is not None and operands:
            results = maker(self, i, operands)
        targets = [o for o in operands[:1] if re.fullmatch(r"U?R\d+", o.split(".")[0])]
        if results is None:
            # A guarded instruction may not run; the other path's value is as good as unknown.
            for name in i.defines:
                self._values.pop(name, None)
            return
        name = targets[0].split(".")[0] if targets else ""
        if not name:
            return
        letters, number = name.rstrip("0123456789"), int(name.lstrip("UR"))
        for at, value in enumerate(results):
            self._values[f"{letters}{number + at}"] = value & _MASK


_Result = list[Lanes] | None


def _known(machine: Machine, operands: list[str]) -> list[Lanes] | None:
    found = [machine.word(o) for o in operands]
    return None if any(f is None for f in found) else [f for f in found if f is not None]


_COORDINATES = ("SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z")


def _coordinate(first: int, grid: Sequence[int], along: int) -> Lanes:
    """Where 32 blocks stand along a dimension, in the order in which they are started."""
    blocks = np.arange(first, first + 32, dtype=np.uint64)
    if not grid:  # of unknown shape: taken for one long row
        return blocks if along == 0 else np.zeros(32, np.uint64)
    for length in grid[:along]:
        blocks //= np.uint64(length)
    return blocks % np.uint64(grid[along]) if along < len(grid) else np.zeros(32, np.uint64)


def _special(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    if machine.first_block is not None and x[1] in _COORDINATES:
        return [_coordinate(machine.first_block, machine.grid, _COORDINATES.index(x[1]))]
    if x[1] in ("SR_TID.X", "SR_LANEID"):
        if machine.first_block is not None:
            return [np.zeros(32, np.uint64)]
        return [np.arange(32, dtype=np.uint64)]
    if x[1].startswith(("SR_TID", "SR_CTAID", "SR_SMEM", "SR_Cga", "SR_CgaCtaId")):
        return [np.zeros(32, np.uint64)]
    return None


def _move(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    wide = 2 if "64" in i.modifiers else 1
    found = machine.word(x[1])
    if found is None:
        return None
    if wide == 2 and re.match(r"U?R\d+", x[1]):
        base = x[1].rstrip("0123456789")
        high = machine.word(f"{base}{int(x[1].lstrip('UR')) + 1}")
        return [found, high] if high is not None else None
    return [found] * wide


def _wide_of(machine: Machine, text: str) -> Lanes | None:
    """A 64-bit addend: a register pair or a 64-bit constant."""
    low = machine.word(text)
    if low is None:
        return None
    total: Lanes
    match = re.fullmatch(r"(-?)(U?R)(\d+)(?:\.\w+)*", text)
    high: Lanes | None = np.zeros(32, np.uint64)
    if match:
        high = machine._values.get(f"{match[2]}{int(match[3]) + 1}")
        if high is None:
            return None
    elif text.startswith("c["):
        high = low
    assert high is not None
    total = low + (high << np.uint64(32))
    return total


def _signed(x: Lanes) -> Lanes:
    return x.astype(np.uint32).astype(np.int32).astype(np.int64)


def _multiply(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    if "MOV" in i.modifiers:
        return _move(machine, i, [x[0], x[3] if len(x) > 3 else x[-1]])
    x = [o for o in x if not re.fullmatch(r"U?P(\d+|T)|!U?P(\d+|T)", o)]
    pair = _known(machine, x[1:3])
    if pair is None or len(x) < 4:
        return None
    if "WIDE" in i.modifiers or "HI" in i.modifiers:
        a, b = (p.astype(np.int64) if "U32" in i.modifiers else _signed(p) for p in pair)
        product = a * b
        if "HI" in i.modifiers:
            c = machine.word(x[3])
            if c is None:
                return None
            return [(product >> 32).astype(np.uint64) + c]
        c64 = _wide_of(machine, x[3])
        if c64 is None:
            # The upper half may be unknown and the lower one not.
            low = machine.word(x[3])
            return None if low is None else [product.astype(np.uint64) + low]
        total = product.astype(np.uint64) + c64
        return [total & _MASK, total >> np.uint64(32)]
    c = machine.word(x[3])
    return None if c is None else [pair[0] * pair[1] + c]


def _add3(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    rest = [o for o in x[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
    if "X" in i.modifiers:
        return None  # an upper half with a carry
    found = _known(machine, rest)
    if found is None:
        return None
    total = found[0]
    for value in found[1:]:
        total = total + value
    return [total]


def _lea(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    rest = [o for o in x[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
    if "HI" in i.modifiers or len(rest) < 3:
        return None
    found = _known(machine, rest[:3])
    return None if found is None else [(found[0] << (found[2] & np.uint64(31))) + found[1]]


def _logic(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    rest = [o for o in x[1:] if not re.fullmatch(r"!?U?P(\d+|T)", o)]
    if len(rest) < 4:
        return None
    table = int(rest[3], 0)
    found = _known(machine, rest[:3])
    if found is None:
        return None
    result = np.zeros(32, np.uint64)
    for row in range(8):
        if table >> row & 1:
            term = np.full(32, _MASK)
            for bit, value in zip((4, 2, 1), found, strict=True):
                term &= value if row & bit else ~value & _MASK
            result |= term
    return [result]


def _shift(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    found = _known(machine, x[1:4])
    if found is None:
        return None
    low, by, high = found[0], found[1] & np.uint64(31), found[2]
    if "L" in i.modifiers:
        if "HI" in i.modifiers:
            return [((high << np.uint64(32) | low) << by) >> np.uint64(32)]
        return [low << by]
    if "HI" in i.modifiers:
        if "S32" in i.modifiers:
            return [(_signed(high) >> by.astype(np.int64)).astype(np.uint64)]
        return [high >> by]
    return [(high << np.uint64(32) | low) >> by]


def _field(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    """SGXT: the lowest bits, with or without their sign."""
    found = _known(machine, x[1:3])
    if found is None:
        return None
    bits = found[1]
    mask = (np.uint64(1) << bits) - np.uint64(1)
    low = found[0] & mask
    if "U32" in i.modifiers:
        return [low]
    top = np.uint64(1) << (bits - np.uint64(1))
    return [np.where(low & top, (low | ~mask) & _MASK, low)]


def _halves(machine: Machine, i: Instruction, x: list[str]) -> _Result:
    """HFMA2.MMA R, -RZ, RZ, a, b: how the compiler makes a constant, two halves side by side."""
    if len(x) < 5 or x[1] != "-RZ" or x[2] != "RZ":
        return None
    try:
        high, low = (int(np.float16(float(word)).view(np.uint16)) for word in x[3:5])
    except ValueError:
        return None
    return [np.full(32, high << 16 | low, np.uint64)]


_RULES: dict[str, Callable[[Machine, Instruction, list[str]], _Result]] = {
    "S2R": _special, "S2UR": _special, "CS2R": _special, "MOV": _move, "UMOV": _move,
    "LDC": _move, "ULDC": _move, "LDCU": _move, "R2UR": _move, "IMAD": _multiply,
    "UIMAD": _multiply, "IADD3": _add3, "UIADD3": _add3, "IADD": _add3, "LEA": _lea, "ULEA": _lea,
    "LOP3": _logic, "ULOP3": _logic, "SHF": _shift, "USHF": _shift, "SGXT": _field,
    "USGXT": _field, "VIADD": _add3, "HFMA2": _halves,
}  # fmt: skip
