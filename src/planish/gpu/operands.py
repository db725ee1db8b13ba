"""Operands of SASS instructions: which registers each defines and uses, how wide they are."""

from __future__ import annotations

import re

_REGISTER = re.compile(r"(?<![\w.])(?:UR|UP|R|P|B)(?:\d+|Z|T)(?:\.64|\.128)?(?!\w)")
_NO_RESULT = frozenset({
    "ST", "STG", "STS", "STL", "RED", "REDG", "REDS", "BAR", "BRA", "BRX", "JMP", "JMX", "EXIT",
    "RET", "CALL", "NOP", "MEMBAR", "BSSY", "BSYNC", "DEPBAR", "LDGDEPBAR", "LDGSTS", "ERRBAR",
    "CCTL", "CCTLL", "YIELD", "WARPSYNC", "KILL", "NANOSLEEP", "BREAK", "ARRIVES", "FENCE",
    "UTMALDG", "UTMASTG", "SYNCS", "STAS", "ENDCOLLECTIVE",
})  # fmt: skip
MEMORY = frozenset({
    "LD", "LDG", "LDS", "LDL", "LDC", "LDSM", "LDGSTS", "ST", "STG", "STS", "STL", "ATOM",
    "ATOMG", "ATOMS", "RED", "REDG", "TEX", "TLD", "TLD4", "TXQ", "SULD", "SUST", "SUATOM",
    "ULDC", "UTMALDG", "UTMASTG",
})  # fmt: skip
DOUBLE = frozenset(["DADD", "DMUL", "DFMA", "DMNMX", "DSETP"])


def split_operands(text: str) -> list[str]:
    """Split at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for place, letter in enumerate(text):
        depth += letter in "[({"
        depth -= letter in "])}"
        if letter == "," and depth == 0:
            parts.append(text[start:place].strip())
            start = place + 1
    parts.append(text[start:].strip())
    return parts


def effects(
    opcode: str, modifiers: tuple[str, ...], operands: list[str]
) -> tuple[set[str], set[str]]:
    """Registers that an instruction defines, and those that it uses."""
    results = 0 if opcode in _NO_RESULT else _result_count(opcode, operands)
    defines: set[str] = set()
    uses: set[str] = set()
    for operand in operands[:results]:
        defines |= _expand(operand, _width(opcode, modifiers, result=True))
    for operand in operands[results:]:
        data = opcode in MEMORY and "[" not in operand
        wide = opcode in DOUBLE or data or opcode in ("F2F", "I2F", "F2I")
        uses |= _expand(operand, _width(opcode, modifiers, result=False) if wide else 1)
    return defines, uses


def _result_count(opcode: str, operands: list[str]) -> int:
    """Leading predicates, then one register with the predicates right behind it."""
    if "SETP" in opcode or opcode in ("PLOP3", "UPLOP3", "FCHK"):
        return min(2 if opcode != "FCHK" else 1, len(operands))
    count = 0
    while count < len(operands) and _is_predicate(operands[count]):
        count += 1
    if count < len(operands) and _REGISTER.fullmatch(operands[count].split(".")[0]):
        count += 1
        while count < len(operands) - 1 and _is_predicate(operands[count]):
            count += 1
    return count


def _is_predicate(operand: str) -> bool:
    return re.fullmatch(r"U?P(\d+|T)", operand) is not None


def _width(opcode: str, modifiers: tuple[str, ...], *, result: bool) -> int:
    """How many consecutive registers an operand spans."""
    if opcode in DOUBLE:
        return 2
    if opcode in ("F2F", "I2F", "F2I") and modifiers:
        # F2F.F64.F32 writes a double, F2F.F32.F64 reads one
        kinds = [m for m in modifiers if m in ("F64", "F32", "F16", "S64", "U64")]
        wide = kinds[:1] if result else kinds[1:]
        return 2 if wide and wide[0].endswith("64") else 1
    if opcode in MEMORY:
        return 4 if "128" in modifiers else 2 if "64" in modifiers else 1
    if result and "WIDE" in modifiers:
        return 2
    if opcode in ("HMMA", "IMMA", "QMMA"):
        return 4
    return 1


def _expand(operand: str, width: int) -> set[str]:
    """The registers of an operand; an address register marked .64 spans two."""
    found: set[str] = set()
    for match in _REGISTER.finditer(operand):
        name, _, size = match[0].partition(".")
        letters = name.rstrip("0123456789ZT")
        if name[len(letters) :] in ("Z", "T"):
            continue
        first = int(name[len(letters) :])
        span = max({"64": 2, "128": 4}.get(size, 1), width if letters in ("R", "UR") else 1)
        found |= {f"{letters}{first + i}" for i in range(span)}
    return found
