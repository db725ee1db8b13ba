"""Kernels as files: objects and headers for C, and their disassembly."""

from __future__ import annotations

import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from planish.base.errors import PlanishError, UsageError
from planish.base.files import write_atomic
from planish.codegen.native import Image
from planish.codegen.x86.thunk import c_entry
from planish.llvm.toolchain import find_library
from planish.proc.command import run_command
from planish.tensor.program import Program
from planish.tensor.types import Type

if TYPE_CHECKING:
    from planish.tune.tensors import Kernel

_C_TYPES = {
    "f32": "float", "f64": "double", "f16": "uint16_t", "bf16": "uint16_t", "i8": "int8_t",
    "u8": "uint8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t", "bool": "uint8_t",
}  # fmt: skip


def save(kernel: Kernel, path: Path, header: Path | None, name: str) -> None:
    """Write the kernel's object, and a header where one is asked for."""
    function = name or re.sub(r"\W", "_", path.stem)
    if not re.fullmatch(r"[A-Za-z_]\w*", function):
        raise UsageError(f"'{function}' cannot name a C function", hint="give name=")
    data, workspace = _object(kernel, function)
    write_atomic(path, data)
    if header is not None:
        write_atomic(header, _header(kernel.program, function, workspace))


def disassemble(kernel: Kernel) -> str:
    """The kernel's instructions, by the bundled llvm-objdump."""
    library, _, _ = find_library()
    tool = library.parent.parent / "bin" / "llvm-objdump"
    if not tool.exists():
        raise PlanishError("no llvm-objdump lies beside this libLLVM", hint="use the bundled one")
    data, _ = _object(kernel, "kernel")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.o"
        path.write_bytes(data)
        shown = run_command(
            shlex.join([str(tool), "-d", "--no-show-raw-insn", "-M", "intel", str(path)]),
            seconds=60,
        )
    return shown.output.decode(errors="replace").partition("<kernel>:\n")[2]


def _object(kernel: Kernel, name: str) -> tuple[bytes, int]:
    """An object file with `void name(inputs.., outputs.., workspace)`, and the workspace's size."""
    from planish.tune.tensor_llvm import Compilation, compile_text, module_text

    if kernel.target == "aarch64":
        started = time.perf_counter()
        how = Compilation.aarch64()
        lowered, text = module_text(kernel.loops, how, None, f"{name}_phase")
        if len(lowered.phases) != 1 or len(lowered.phases[0].starts) != 1:
            raise _threads_error()
        text += _wrapper(kernel.program, name, f"{name}_phase0", lowered.temporaries)
        data = compile_text(text, how)
        kernel.ledger.path = "llvm aarch64"
        kernel.ledger.seconds = time.perf_counter() - started
        return data, lowered.workspace
    image = kernel.native().image
    if len(image.calls) != 1 or len(image.calls[0].starts) != 1:
        raise _threads_error()
    text = _as_module(kernel.program, image, name)
    return compile_text(text, Compilation.x86(16)), image.workspace


def _threads_error() -> UsageError:
    return UsageError(
        "this kernel is run by several threads, which C would have to start",
        hint="compile it with threads=1",
    )


def _as_module(program: Program, image: Image, name: str) -> str:
    """The finished machine code as assembly of bytes, for LLVM to put into an object."""
    count = len(program.inputs) + len(program.outputs)
    size = len(c_entry(count, 0, image.temporaries))
    start = -(-size // 64) * 64
    entry = c_entry(count, start + image.calls[0].offset, image.temporaries)
    code = entry.ljust(start, b"\x90") + image.code
    lines = [".text", ".p2align 6", f".globl {name}", f".type {name},@function", f"{name}:"]
    for at in range(0, len(code), 32):
        lines.append(".byte " + ",".join(str(b) for b in code[at : at + 32]))
    lines += [f".size {name}, . - {name}", '.section .note.GNU-stack,"",@progbits']
    escaped = (line.replace('"', "\\22") for line in lines)
    return "".join(f'module asm "{line}"\n' for line in escaped)


def _wrapper(program: Program, name: str, phase: str, temporaries: Sequence[int]) -> str:
    """LLVM IR of the C function, which puts its pointers into an array."""
    count = len(program.inputs) + len(program.outputs)
    total = count + bool(temporaries)
    parameters = ", ".join(f"ptr %p{at}" for at in range(total))
    size = count + max(1, len(temporaries))
    lines = [f"define void @{name}({parameters}) {{", f"  %a = alloca [{size} x ptr]"]
    values = [f"%p{at}" for at in range(count)]
    for at, offset in enumerate(temporaries):
        lines.append(f"  %w{at} = getelementptr i8, ptr %p{count}, i64 {offset}")
        values.append(f"%w{at}")
    for at, value in enumerate(values):
        lines.append(f"  %s{at} = getelementptr ptr, ptr %a, i64 {at}")
        lines.append(f"  store ptr {value}, ptr %s{at}")
    return "\n".join([*lines, f"  call void @{phase}(ptr %a)", "  ret void", "}", ""])


def _header(program: Program, name: str, workspace: int) -> str:
    def parameter(tensor: str, type: Type, const: bool) -> str:
        return f"{'const ' if const else ''}{_C_TYPES[type.name]} *{tensor}"

    words = [parameter(t.name, t.type, True) for t in program.inputs]
    words += [parameter(t.name, t.type, False) for t in program.outputs]
    words += ["void *workspace"] if workspace else []
    notes = [
        f" * {t.name}: {t.type}[{', '.join(map(str, t.shape))}], contiguous, last axis fastest"
        for t in (*program.inputs, *program.outputs)
    ]
    if workspace:
        notes.append(f" * workspace: {workspace} bytes, aligned to 64")
    guard = f"{name.upper()}_H"
    return "\n".join(
        [
            f"#ifndef {guard}", f"#define {guard}", "#include <stdint.h>", "",
            "#ifdef __cplusplus", 'extern "C" {', "#endif", "",
            "/*", *notes, " */", f"void {name}({', '.join(words)});", "",
            "#ifdef __cplusplus", "}", "#endif", "#endif", "",
        ]
    )  # fmt: skip
