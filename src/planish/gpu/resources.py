"""What a GPU binary says of its kernels: registers, shared memory, spills, threads, code.

NVIDIA: `cuobjdump` and `nvdisasm` (Triton's wheel carries both) and the `.nv.info` sections.
AMD: the kernel descriptors' metadata note (msgpack) of a code object; code only from assembly text.
"""

from __future__ import annotations

import importlib.util
import io
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from planish.base.errors import ToolchainError, UsageError
from planish.gpu.sass import Function, parse_sass

_SECONDS = 60


@dataclass(frozen=True)
class KernelResources:
    """One kernel of a binary.

    threads  of a block, as the binary demands or allows at most; 0 where it does not say
    shared   static bytes of shared memory; what is given at the launch comes on top
    spills   bytes of one thread that spilled registers take
    stack    bytes of one thread's stack, spills included
    """

    name: str
    registers: int
    shared: int
    spills: int
    stack: int
    threads: int
    scalar_registers: int = 0
    code: Function | None = field(default=None, compare=False)


def nvidia_tool(name: str) -> str:
    """Path of cuobjdump, nvdisasm or ptxas: from PATH, else Triton's own."""
    # Triton's first: it is as new as the binaries that come from there.
    spec = importlib.util.find_spec("triton")
    if spec is not None and spec.submodule_search_locations:
        own = Path(spec.submodule_search_locations[0]) / "backends" / "nvidia" / "bin" / name
        if own.exists():
            return str(own)
    found = shutil.which(name)
    if found is None:
        raise ToolchainError(
            f"{name} was not found, and NVIDIA binaries are read by it",
            hint="pip install 'planish[gpu]' (Triton carries it), or install the CUDA toolkit",
        )
    return found


def _run(arguments: Sequence[str], what: str) -> str:
    try:
        done = subprocess.run(
            arguments, capture_output=True, timeout=_SECONDS, stdin=subprocess.DEVNULL, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{Path(arguments[0]).name} failed: {error}") from error
    if done.returncode:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise UsageError(f"{what}: {words[0] if words else 'no output'}", hint="is it whole?")
    return done.stdout.decode(errors="replace")


def read_cubin(data: bytes) -> list[KernelResources]:
    """All kernels of a cubin. Raises UsageError (damaged) and ToolchainError (no tool)."""
    threads, static = _cubin_sections(data)
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(data)
        file.flush()
        usage = _run([nvidia_tool("cuobjdump"), "-res-usage", file.name], "cuobjdump")
        listing = _run([nvidia_tool("nvdisasm"), "-hex", "-g", file.name], "nvdisasm")
    functions = {f.name: f for f in parse_sass(listing)}
    found = []
    for name, words in re.findall(r"Function (\S+?):\s*\n\s*(.+)", usage):
        values = {k: int(v) for k, v in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", words)}
        code = functions.get(name)
        spilled = _spilled(code)
        found.append(
            KernelResources(
                name, values.get("REG", 0), static.get(name, values.get("SHARED", 0)), spilled,
                values.get("STACK", 0), threads.get(name, 0), code=code,
            )
        )  # fmt: skip
    if not found:
        raise UsageError("the binary holds no kernel")
    return found


def _spilled(code: Function | None) -> int:
    """Bytes of a thread that stores to local memory address directly by the stack pointer."""
    if code is None:
        return 0
    places: dict[str, int] = {}
    for i in code.code:
        if i.opcode == "STL" and (at := re.search(r"\[R1(\+0x[0-9a-f]+)?\]", i.text)):
            size = 16 if "128" in i.modifiers else 8 if "64" in i.modifiers else 4
            places[at[0]] = size
    return sum(places.values())


def _cubin_sections(data: bytes) -> tuple[dict[str, int], dict[str, int]]:
    """Threads of a block, and static shared memory, by kernel."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    threads: dict[str, int] = {}
    shared: dict[str, int] = {}
    try:
        for section in ELFFile(io.BytesIO(data)).iter_sections():
            if section.name.startswith(".nv.info."):
                threads[section.name[9:]] = _threads(section.data())
            if section.name.startswith(".nv.shared.") and "reserved" not in section.name:
                shared[section.name[11:]] = section["sh_size"]
    except ELFError as error:
        raise UsageError(f"no cubin: {error}") from error
    return threads, shared


def _threads(info: bytes) -> int:
    """EIATTR_REQNTID (0x10), else EIATTR_MAX_THREADS (0x05), of a `.nv.info` section."""
    at, found = 0, 0
    while at + 4 <= len(info):
        form, attribute = info[at], info[at + 1]
        size = struct.unpack_from("<H", info, at + 2)[0] if form == 4 else 0
        if form == 4 and attribute in (0x10, 0x05) and size >= 12:
            x, y, z = struct.unpack_from("<III", info, at + 4)
            if attribute == 0x10 or not found:
                found = x * y * z
        at += 4 + size
    return found


def read_hsaco(data: bytes) -> list[KernelResources]:
    """All kernels of an AMD code object, from its metadata note."""
    import msgspec
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    kernels: list[KernelResources] = []
    try:
        elf = ELFFile(io.BytesIO(data))
        for section in elf.iter_sections():
            if section["sh_type"] != "SHT_NOTE":
                continue
            raw = section.data()
            size, length, kind = struct.unpack_from("<III", raw)
            if kind != 32:  # NT_AMDGPU_METADATA
                continue
            start = 12 + -(-size // 4) * 4
            document = msgspec.msgpack.decode(raw[start : start + length])
            kernels += [_amd(k) for k in document.get("amdhsa.kernels", [])]
    except (ELFError, struct.error, msgspec.DecodeError) as error:
        raise UsageError(f"no AMD code object: {error}") from error
    if not kernels:
        raise UsageError("the code object describes no kernel")
    return kernels


def _amd(k: dict[str, object]) -> KernelResources:
    def number(key: str) -> int:
        value = k.get(key, 0)
        return value if isinstance(value, int) else 0

    wanted = k.get(".reqd_workgroup_size")
    threads = number(".max_flat_workgroup_size")
    if isinstance(wanted, list) and len(wanted) == 3:
        threads = int(wanted[0]) * int(wanted[1]) * int(wanted[2])
    registers = number(".vgpr_count")
    return KernelResources(
        str(k.get(".name", "?")), registers, number(".group_segment_fixed_size"),
        4 * number(".vgpr_spill_count"), number(".private_segment_fixed_size"), threads,
        number(".sgpr_count"),
    )  # fmt: skip


def assemble_ptx(text: bytes, target: str) -> bytes:
    """A cubin from PTX by ptxas; raises UsageError with its first line."""
    name = target.split(":")[-1]
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "k.ptx", Path(folder) / "k.cubin"
        source.write_bytes(text)
        tool = "ptxas" if name < "sm_90" or name.startswith("sm_8") else "ptxas-blackwell"
        words = ["-lineinfo", f"--gpu-name={name}", str(source), "-o", str(out)]
        _run([nvidia_tool(tool), *words], "ptxas")
        return out.read_bytes()


def ptx_target(text: bytes) -> str:
    """The architecture that PTX names: sm_90a."""
    found = re.search(rb"^\s*\.target\s+(sm_\w+)", text, re.MULTILINE)
    if found is None:
        raise UsageError("no `.target` in the PTX")
    return found[1].decode()


def compile_cuda(path: Path, target: str) -> bytes:
    """A cubin from CUDA C by nvcc; raises ToolchainError where there is none."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise ToolchainError(
            "nvcc was not found, and CUDA C is compiled by it",
            hint="install the CUDA toolkit, or inspect a cubin or PTX file instead",
        )
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "k.cubin"
        name = target.split(":")[-1]
        words = [nvcc, "-cubin", f"-arch={name}", "-lineinfo", str(path), "-o", str(out)]
        _run(words, f"nvcc on {path.name}")
        return out.read_bytes()
