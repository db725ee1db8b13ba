"""AMD GPU instructions (CDNA, RDNA) as `llvm-objdump -d` or the compiler's assembly prints them.

What an instruction reads and writes, the implicit registers included (exec masks vector
instructions as predicates do on NVIDIA, vcc and scc carry conditions), the wait counters that it
raises, and those that it waits for: memory instructions return later, and `s_waitcnt vmcnt(n)`
waits until at most n of them are under way (AMD, "CDNA3 Instruction Set Architecture", chapter 4
"Manually inserted wait states" and S_WAITCNT; gfx12 has one counter for each kind of memory).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from planish.base.errors import TraceError
from planish.gpu.operands import split_operands
from planish.gpu.sass import Control, Function, Instruction, connect

_SYMBOL = re.compile(r"^(?P<offset>[0-9a-f]{8,}) <(?P<name>[^>]+)>:")
_LABEL = re.compile(r"^<?(?P<name>[.$\w]+)>?:\s*(?:;.*)?$")
_DUMPED = re.compile(r"^\s+(?P<text>[a-z]\w+\b.*?)\s*//\s*(?P<offset>[0-9A-Fa-f]{6,}):")
_WRITTEN = re.compile(
    r"^\s+(?P<text>(?:s|v|ds|global|flat|buffer|scratch|tbuffer|image|exp)_\w+.*?)\s*(?:;.*)?$"
)
_LOC = re.compile(r"^\s*\.loc\s+\d+\s+\d+.*;\s*(?P<file>[^\s:]+):(?P<line>\d+)")
_SOURCE = re.compile(r"^\s*;\s*(?P<file>\S+):(?P<line>\d+)\s*$")
_TARGET = re.compile(r"<[^>+]+(?:\+0x(?P<offset>[0-9a-f]+))?>")
_FIRST = re.compile(r"^\s*\.type\s+(?P<name>[\w.$]+),@function")
_RANGE = re.compile(r"(?<![\w.])([vsa])(?:(\d+)|\[(\d+):(\d+)\])(?!\w)")
_NAMED = re.compile(r"(?<![\w.])(vcc|exec|m0|scc|flat_scratch|ttmp\d+)(?:_lo|_hi)?(?!\w)")
# the address of what is called next is made of the counter and an offset that names it
_CALLEE = re.compile(r"(?P<name>[\w.$]+)@rel32@lo")
_WAIT = re.compile(r"\b(vmcnt|lgkmcnt|expcnt|vscnt)\((\d+)\)")
_NEW_WAIT = re.compile(
    r"^s_wait_((?:load|sample|bvh|store|ds|km|exp)cnt(?:_dscnt)?)\s+(0x[\da-f]+|\d+)"
)

_TELLING = re.compile(r"^\s+s_(waitcnt|endpgm|wait_)", re.MULTILINE)
_MEMORY = re.compile(r"^(global|flat|buffer|tbuffer|scratch|image|ds|s_load|s_buffer_load)_")
_NO_RESULT = re.compile(
    r"_store|^ds_write|^s_(endpgm|barrier|wait|nop|sleep|set|send|branch|cbranch|cmp|bitcmp|inst|"
    r"icache|dcache|trap|code_end|clause|delay_alu|ttrace|incperflevel|version)|^exp\b|^global_wb"
    r"|^buffer_(wb|inv|gl)|^global_(inv|load_lds)|_load_lds|^s_swappc|^v_nop"
)
_ATOMIC = re.compile(r"_atomic_|^ds_(add|sub|min|max|and|or|xor|inc|dec|cmpst)_(?!rtn)")
_TWO_RESULTS = re.compile(r"^v_(add|sub|subrev|addc|subb|subbrev)_co_|^v_addc?_co|^v_div_scale"
                          r"|^v_mad_[ui]64_[ui]32|^v_swap_b32|^v_(addc|subb)_")  # fmt: skip
_ACCUMULATES = re.compile(r"^v_(fmac|mac|pk_fmac|dot\w*c|fmaak|fmamk)_|^s_fmac|^v_mov_b32_dpp")
_SCALAR_TEST = re.compile(
    r"^s_(cmp|bitcmp|add|sub|and|or|xor|not|andn2|orn2|nand|nor|xnor|lsh|ash|bfe|min|max|abs|bcnt|"
    r"mul_hi|wqm|quadmask|lshl\d_add|absdiff|addc|subb|and_not)"
)
_JUMPS = frozenset({"s_branch", "s_endpgm", "s_setpc_b64", "s_endpgm_saved"})


def is_amd(text: str) -> bool:
    """Whether a listing is of an AMD GPU (else it is taken for SASS)."""
    return (
        "amdgpu" in text[:4096]
        or re.search(r"^\s+s_(waitcnt|endpgm|wait_)", text, re.M) is not None
    )


def parse_amd(text: str) -> list[Function]:
    """All functions of a listing; raises TraceError where there is not one instruction.

    Offsets are those from the function's first instruction; compiler's assembly, which has none,
    gives the instructions four bytes each (its samples cannot be joined).
    """
    names = _counter_names(text)
    functions = [
        connect(name, code, labels, _JUMPS)
        for name, code, labels in _functions(text, names)
        if code
    ]
    if not functions:
        raise TraceError(
            "no AMD instructions in the listing",
            hint="make it with: llvm-objdump -d --mcpu=gfx942 file.hsaco",
        )
    return functions


def _counter_names(text: str) -> str:
    """Which counters the target has: gfx9 (`old`), gfx10 and 11 (`stores`), gfx12 (`split`)."""
    if re.search(r"\bs_wait_(loadcnt|kmcnt|dscnt)", text):
        return "split"
    return "stores" if "s_waitcnt_vscnt" in text else "old"


def _functions(text: str, names: str) -> Iterator[tuple[str, list[Instruction], dict[str, int]]]:
    name, code, labels = "", [], {}  # type: str, list[Instruction], dict[str, int]
    base: int | None = None
    source = ("", 0)
    for line in text.splitlines():
        if (symbol := _SYMBOL.match(line)) or (symbol := _FIRST.match(line)):
            if symbol["name"].startswith((".L", "L", "BB")) and code:
                labels[symbol["name"]] = len(code)  # a block's label that the dump shows
                continue
            yield name, code, labels
            name, code, labels, base = symbol["name"], [], {}, None
            continue
        if found := (_LOC.match(line) or _SOURCE.match(line)):
            source = (found["file"], int(found["line"]))
            continue
        if found := _LABEL.match(line):
            labels[found["name"]] = len(code)
            continue
        dumped = _DUMPED.match(line)
        found = dumped or _WRITTEN.match(line)
        if not found or found["text"].startswith("s_code_end"):
            continue
        offset = int(dumped["offset"], 16) if dumped else 4 * len(code)
        base = offset if base is None else base
        target = _TARGET.search(line) if dumped else None
        code.append(parse_amd_instruction(
            offset - base, found["text"], names, *source,
            target=int(target["offset"] or "0", 16) if target else None,
        ))  # fmt: skip
    yield name, code, labels


def parse_amd_instruction(
    offset: int, text: str, names: str = "old", file: str = "", line: int = 0,
    target: int | None = None,
) -> Instruction:  # fmt: skip
    """Opcode, what is read and written, the counters raised and waited for."""
    words = text.split(None, 1)
    opcode, rest = words[0], words[1] if len(words) > 1 else ""
    operands = split_operands(rest)
    defines, uses = _effects(opcode, operands)
    callee = _CALLEE.search(rest) if opcode == "s_swappc_b64" or "@rel32@lo" in rest else None
    jump: int | str | None = None
    conditional = ""
    if opcode.startswith(("s_branch", "s_cbranch")):
        jump = target if target is not None else operands[0]
        conditional = _condition(opcode)
        uses |= {conditional} if conditional else set()
    return Instruction(
        offset, text, opcode, (), conditional, frozenset(defines), frozenset(uses), Control(), jump,
        file, line, memory=_MEMORY.match(opcode) is not None,
        raises=_raised(opcode, names), waits=_waits(text), calls=callee["name"] if callee else "",
    )  # fmt: skip


def _condition(opcode: str) -> str:
    for name in ("scc", "vcc", "exec"):
        if name in opcode:
            return name
    return ""


def _effects(opcode: str, operands: Sequence[str]) -> tuple[set[str], set[str]]:
    results = 0 if _NO_RESULT.search(opcode) else 2 if _TWO_RESULTS.match(opcode) else 1
    if _ATOMIC.search(opcode) and "_rtn" not in opcode:
        returns = any(re.search(r"\b(glc|sc0|th:TH_ATOMIC_RETURN)\b", o) for o in operands)
        results = 1 if returns else 0
    defines: set[str] = set()
    uses: set[str] = set()
    for operand in operands[:results]:
        defines |= _registers(operand)
    for operand in operands[results:]:
        uses |= _registers(operand)
    if _ACCUMULATES.match(opcode) or opcode == "v_swap_b32":
        uses |= defines
    if opcode.startswith("v_cmpx"):
        defines |= {"exec"}
    if opcode.startswith(("v_", "global_", "flat_", "buffer_", "scratch_", "ds_", "image_")):
        if not opcode.startswith(("v_readfirstlane", "v_readlane", "v_writelane")):
            uses |= {"exec"}
    elif _SCALAR_TEST.match(opcode):
        defines |= {"scc"}
    if "saveexec" in opcode or "wrexec" in opcode:
        defines |= {"exec", "scc"}
        uses |= {"exec"}
    if opcode.startswith(("s_cselect", "s_addc", "s_subb", "s_cmov")):
        uses |= {"scc"}
    return defines, uses


def _registers(operand: str) -> set[str]:
    found = {match[1] for match in _NAMED.finditer(operand)}
    for match in _RANGE.finditer(operand):
        kind, one, first, last = match.groups()
        low, high = (int(one), int(one)) if one else (int(first), int(last))
        found |= {f"{kind}{number}" for number in range(low, min(high, low + 63) + 1)}
    return found


def _raised(opcode: str, names: str) -> frozenset[str]:
    """The counters that count the instruction until it is done."""
    if opcode.startswith("exp"):
        return frozenset({"exp"})
    store = "_store" in opcode or opcode.startswith("ds_write")
    if opcode.startswith(("ds_", "s_load", "s_buffer_load", "s_sendmsg", "s_memtime")):
        if names != "split":
            return frozenset({"lgkm"})
        return frozenset({"ds" if opcode.startswith("ds_") else "km"})
    if not _MEMORY.match(opcode) or ("_load_lds" in opcode and names == "split"):
        return frozenset()
    if names == "split":
        vector = "store" if store else "sample" if "sample" in opcode else "load"
        return frozenset({vector, "ds"} if opcode.startswith("flat_") else {vector})
    vector = "vs" if store and names == "stores" else "vm"
    return frozenset({vector, "lgkm"} if opcode.startswith("flat_") else {vector})


def _waits(text: str) -> tuple[tuple[str, int], ...]:
    """Counters waited for, each with how many instructions may still be under way."""
    if text.startswith("s_waitcnt"):
        found = _WAIT.findall(text)
        if not found and text.startswith("s_waitcnt_vscnt"):
            found = [("vscnt", str(int(text.rsplit(",", 1)[-1].strip(), 0)))]
        if not found and re.fullmatch(r"s_waitcnt\s+(0x0|0)", text):
            found = [("vmcnt", "0"), ("lgkmcnt", "0"), ("expcnt", "0")]
        return tuple((name.removesuffix("cnt"), int(count)) for name, count in found)
    if match := _NEW_WAIT.match(text):
        name, count = match[1], int(match[2], 0)
        if name.endswith("_dscnt"):  # both in one: the upper byte is the memory's
            return ((name.removesuffix("cnt_dscnt"), count >> 8), ("ds", count & 0xFF))
        return ((name.removesuffix("cnt"), count),)
    return ()
