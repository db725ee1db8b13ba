"""Facts about one compiled GPU kernel, as far as they can be read without running it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from planish.gpu.hardware import Hardware
from planish.gpu.lanes import MemoryAccess, memory_accesses
from planish.gpu.occupancy import Occupancy, occupancy
from planish.gpu.resources import KernelResources
from planish.gpu.sass import Function, Instruction

MATRIX = frozenset({"HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA",
                    "UTCHMMA", "UTCIMMA", "UTCQMMA", "UTCOMMA"})  # fmt: skip
COPIES = frozenset({"LDGSTS", "UTMALDG", "UBLKCP"})
CONVERSIONS = frozenset({"I2F", "F2I", "F2F", "I2I", "I2FP", "F2IP", "I2IP"})
_GROUPS = {
    "matrix": MATRIX, "copies": COPIES, "conversions": CONVERSIONS | {"F2FP"},
    "global": frozenset({"LDG", "STG", "LD", "ST", "ATOMG", "REDG", "RED", "UTMASTG"}),
    "shared": frozenset({"LDS", "STS", "LDSM", "STSM", "ATOMS"}),
    "local": frozenset({"LDL", "STL"}),
    "float": frozenset({"FFMA", "FADD", "FMUL", "FMNMX", "FSEL", "FSETP", "MUFU", "HFMA2", "HADD2",
                        "HMUL2", "DFMA", "DADD", "DMUL", "FCHK", "FSET", "FFMA2", "FADD2",
                        "FMUL2", "FMNMX3"}),
    "control": frozenset({"BRA", "BAR", "EXIT", "DEPBAR", "LDGDEPBAR", "BSSY", "BSYNC", "WARPSYNC",
                          "SYNCS", "NOP"}),
}  # fmt: skip


@dataclass(frozen=True)
class KernelFacts:
    """One kernel.

    shared      bytes of shared memory a block, as far as known; `launched` says that what is given
                at the launch is among them
    loop        indices of the first and last instruction of the main loop, or None
    accesses    of memory, by index of instruction
    texts       ttgir, ptx, amdgcn where there are
    grid        blocks along x, y and z; empty where that is unknown
    """

    name: str
    hardware: Hardware
    resources: KernelResources
    threads: int
    shared: int
    launched: bool
    occupancy: Occupancy
    code: Function | None
    loop: tuple[int, int] | None
    accesses: tuple[MemoryAccess, ...]
    texts: Mapping[str, str] = field(default_factory=dict, hash=False)
    file: str = ""
    grid: tuple[int, ...] = ()

    @property
    def blocks(self) -> int:
        """Of the grid; 0 where that is unknown."""
        return prod(self.grid) if self.grid else 0

    def in_loop(self, index: int) -> bool:
        """Whether an instruction lies in the main loop."""
        return self.loop is not None and self.loop[0] <= index <= self.loop[1]

    @property
    def loop_code(self) -> Sequence[Instruction]:
        """The main loop's instructions."""
        if self.loop is None or self.code is None:
            return ()
        return self.code.code[self.loop[0] : self.loop[1] + 1]

    def count(self, opcodes: frozenset[str], *, loop: bool = False) -> int:
        """Instructions with one of these opcodes."""
        code = self.loop_code if loop else (self.code.code if self.code else ())
        return sum(i.opcode in opcodes for i in code)

    @property
    def mix(self) -> dict[str, int]:
        """Instructions by group."""
        if self.code is None:
            return amd_mix(self.texts.get("amdgcn", ""))
        group = {opcode: name for name, opcodes in _GROUPS.items() for opcode in opcodes}
        found = Counter(group.get(i.opcode, "other") for i in self.code.code)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    @property
    def widths(self) -> dict[str, dict[int, int]]:
        """Instructions by bytes of a lane: global loads, stores, asynchronous copies."""
        if self.code is None:
            return amd_widths(self.texts.get("amdgcn", ""))
        found: dict[str, Counter[int]] = {}
        for a in self.accesses:
            kind = "copy" if a.copy else f"{a.space} {'store' if a.store else 'load'}"
            found.setdefault(kind, Counter())[a.bytes] += 1
        return {k: dict(sorted(v.items())) for k, v in found.items()}

    @property
    def intensity(self) -> tuple[float, float] | None:
        """Operations and bytes of global memory of one warp in one round of the main loop."""
        if self.code is None:
            return None
        code = self.loop_code or self.code.code
        work = float(sum(map(operations, code)))
        moved = sum(
            (32 * a.needed if a.known else 32 * a.bytes)
            for a in self.accesses
            if a.space == "global" and (self.in_loop(a.index) or self.loop is None)
        )
        return (work, float(moved)) if work and moved else None

    @property
    def peak_type(self) -> str:
        """The rate that bounds it: that of its matrix instructions, else f32."""
        code = self.loop_code or (self.code.code if self.code else ())
        for i in code:
            if i.opcode in MATRIX:
                if i.opcode[0] == "I" or "IMMA" in i.opcode:
                    return "i8"
                if "QMMA" in i.opcode or "QGMMA" in i.opcode:
                    return "f8"
                return "tf32" if "TF32" in i.modifiers else "f16"
        return "f32"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        o = self.occupancy
        found: dict[str, Any] = {
            "kernel": self.name, "target": self.hardware.target, "threads": self.threads,
            "registers": self.resources.registers, "spilled_bytes": self.resources.spills,
            "shared_bytes": self.shared, "shared_at_launch_known": self.launched,
            "occupancy": {"share": o.share, "warps": o.warps, "blocks": o.blocks,
                          "limit": o.limit, "limits": o.limits},
            "mix": self.mix, "widths": self.widths,
            "loop_instructions": len(self.loop_code),
            "matrix_instructions_in_loop": self.count(MATRIX, loop=True),
            "copies_in_loop": self.count(COPIES, loop=True),
        }  # fmt: skip
        if self.resources.scalar_registers:
            found["scalar_registers"] = self.resources.scalar_registers
        if self.intensity is not None:
            work, moved = self.intensity
            balance = self.hardware.rate(self.peak_type) / self.hardware.bandwidth
            found["roofline"] = {
                "operations_per_byte": work / moved, "balance": balance, "type": self.peak_type,
                "bound": "memory" if work / moved < balance else "compute",
            }  # fmt: skip
        return found


def gather(
    resources: KernelResources, hardware: Hardware, *, threads: int = 0, shared: int | None = None,
    texts: Mapping[str, str] | None = None, file: str = "", grid: tuple[int, ...] = (),
) -> KernelFacts:  # fmt: skip
    """All facts of a kernel.

    threads  of a block, where the binary does not say
    shared   bytes given at the launch; None where that is unknown
    """
    count = resources.threads or threads or 128
    total = resources.shared + (shared or 0)
    found = occupancy(hardware, threads=count, registers=resources.registers, shared=total)
    code = resources.code
    return KernelFacts(
        resources.name, hardware, resources, count, total, shared is not None, found, code,
        main_loop(code) if code else None,
        tuple(memory_accesses(code, threads=count)) if code else (), dict(texts or {}), file,
        grid,
    )  # fmt: skip


def loops(function: Function) -> list[tuple[int, int]]:
    """Loops as ranges of instructions: from the target of a backward jump to the jump."""
    found: dict[int, int] = {}
    for index, after in enumerate(function.successors):
        for target in after:
            if target < index:
                found[target] = max(found.get(target, 0), index)
    return sorted(found.items())


def main_loop(function: Function) -> tuple[int, int] | None:
    """The innermost loop that does the most: matrix instructions first, then length."""
    every = loops(function)
    inner = [
        (a, b)
        for a, b in every
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in every)
    ]

    def weight(loop: tuple[int, int]) -> tuple[int, int]:
        part = function.code[loop[0] : loop[1] + 1]
        return sum(i.opcode in MATRIX for i in part), len(part)

    busy = [loop for loop in inner if loop[1] - loop[0] >= 4]
    return max(busy, key=weight, default=None)


def operations(i: Instruction) -> int:
    """Arithmetic operations that one warp's instruction does (a multiply-add is two)."""
    if i.opcode in ("HMMA", "IMMA", "QMMA"):
        shape = next((m for m in i.modifiers if re.fullmatch(r"\d{4,6}", m)), "")
        k = {"16816": 16, "1688": 8, "16832": 32, "16864": 64}.get(shape, 16)
        return 2 * 16 * 8 * k
    if i.opcode in ("HGMMA", "IGMMA", "QGMMA"):
        shape = next((m for m in i.modifiers if re.fullmatch(r"\d+x\d+x\d+", m)), "64x64x16")
        m, n, k = map(int, shape.split("x"))
        return 2 * m * n * k // 4
    return {
        "FFMA": 64, "FADD": 32, "FMUL": 32, "DFMA": 64, "DADD": 32, "DMUL": 32, "HFMA2": 128,
        "HADD2": 64, "HMUL2": 64, "FMNMX": 32, "MUFU": 32, "IMAD": 0, "FFMA2": 128,
    }.get(i.opcode, 0)  # fmt: skip


_AMD = {
    "matrix": r"v_s?mfma\w*|v_wmma\w*", "copies": r"(?:global|buffer)_load_lds\w*|(?:global|buffer)"
    r"_load\w* .*\blds\b", "conversions": r"v_cvt\w*", "global": r"(?:global|buffer|flat)_\w+",
    "shared": r"ds_\w+", "local": r"scratch_\w+", "float": r"v_(?:pk_)?(?:fma|add|mul|max|min|exp)"
    r"\w*_f\d+\w*", "control": r"s_(?:c?branch|waitcnt|barrier|endpgm|nop)\w*",
}  # fmt: skip


def amd_mix(text: str) -> dict[str, int]:
    """Instructions of AMD assembly by group."""
    found: Counter[str] = Counter()
    for line in text.splitlines():
        words = line.strip()
        if not re.match(r"(?:s|v|ds|global|buffer|flat|scratch)_\w", words):
            continue
        name = next((n for n, p in _AMD.items() if re.match(p, words)), "other")
        found[name] += 1
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def amd_widths(text: str) -> dict[str, dict[int, int]]:
    """Accesses of AMD assembly by bytes of a lane."""
    found: dict[str, Counter[int]] = {}
    sizes = {"dwordx4": 16, "dwordx3": 12, "dwordx2": 8, "dword": 4, "b128": 16, "b96": 12,
             "b64": 8,
             "b32": 4, "ushort": 2, "short": 2, "ubyte": 1, "sbyte": 1, "byte": 1, "b16": 2,
             "u16": 2, "u8": 1}  # fmt: skip
    pattern = re.compile(r"^\s*(global|buffer|flat|ds)_(load|store|read|write)\w*?_(?:d16_)?(\w+)")
    for line in text.splitlines():
        match = pattern.match(line)
        if match:
            size = next((s for n, s in sizes.items() if n in match[3]), 0)
            space = "shared" if match[1] == "ds" else "global"
            kind = "load" if match[2] in ("load", "read") else "store"
            found.setdefault(f"{space} {kind}", Counter())[size] += 1
    return {k: dict(sorted(v.items())) for k, v in found.items()}
