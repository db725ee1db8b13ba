"""Tensor kernels through LLVM: for what the x86 generator does not take, and for other targets."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping
from dataclasses import dataclass

from planish.base.errors import PlanishError
from planish.base.hashing import digest
from planish.codegen.elf import flatten
from planish.codegen.llvm_ir import to_llvm_ir
from planish.codegen.lower import Lowered, lower_nest
from planish.codegen.native import Call, Image
from planish.llvm.recipe import Recipe
from planish.llvm.requests import HANDLER, Build, Job, Target
from planish.llvm.toolchain import find_library
from planish.proc.pool import Call as Request
from planish.proc.pool import Pool
from planish.tensor.loops import Nest

_SECONDS = 120.0
_MEMORY = 6 << 30

_X86_FEATURES = {
    16: "",
    32: "+avx2,+fma,+f16c,+bmi2",
    64: "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma,+f16c,+bmi2",
}


@dataclass(frozen=True)
class Compilation:
    """How LLVM is asked: target, level and vector bytes."""

    triple: str
    features: str
    vector: int
    level: str = "O2"

    @classmethod
    def x86(cls, vector: int) -> Compilation:
        """For this machine's kind."""
        return cls("x86_64-unknown-linux-gnu", _X86_FEATURES[vector], vector)

    @classmethod
    def aarch64(cls) -> Compilation:
        """For 64-bit Arm with 128-bit vectors."""
        return cls("aarch64-unknown-linux-gnu", "+neon", 16)


def module_text(
    nest: Nest, how: Compilation, strides: Mapping[str, tuple[int, ...]] | None, name: str
) -> tuple[Lowered, str]:
    """The nest as an LLVM module with a function for each phase: `name0`, `name1`, .."""
    lowered = lower_nest(nest, how.vector, strides)
    functions = [(f"{name}{at}", phase.function) for at, phase in enumerate(lowered.phases)]
    flags = '!llvm.module.flags = !{!0}\n!0 = !{i32 8, !"PIC Level", i32 2}\n'
    return lowered, to_llvm_ir(functions, how.vector) + flags


@functools.cache
def _pool() -> Pool:
    """One worker for all kernels of this process, started when the first one needs it."""
    library, _, _ = find_library()
    pool = Pool(HANDLER, str(library), jobs=1, seconds=_SECONDS, memory=_MEMORY)
    atexit.register(pool.close)
    return pool


def compile_text(text: str, how: Compilation, kind: str = "obj") -> bytes:
    """LLVM IR to an object ("obj") or assembly ("asm"), in a worker process."""
    data = text.encode()
    blob = digest(data)
    pool = _pool()
    pool.keep(blob, data)
    job = Job(blob, Target(how.triple, "", how.features), for_size=False)
    recipe = Recipe((f"default<{how.level}>",))
    (reply,) = pool.run([Request((), Build(job, recipe, keep=(kind,)), (blob,))])
    pool.forget(blob)
    if reply.failure is not None:
        raise PlanishError(f"LLVM could not compile the kernel: {reply.reason}")
    artefact: bytes = reply.value.artefacts[kind]
    return artefact


def llvm_image(
    nest: Nest, vector: int, strides: Mapping[str, tuple[int, ...]] | None = None
) -> Image:
    """The nest through LLVM for this machine, as code that runs where it is put."""
    how = Compilation.x86(vector)
    lowered, text = module_text(nest, how, strides, "phase")
    flat = flatten(compile_text(text, how))
    calls = tuple(
        Call(flat.symbols[f"phase{at}"], phase.starts) for at, phase in enumerate(lowered.phases)
    )
    return Image(flat.code, calls, lowered.workspace, lowered.temporaries, "llvm")
