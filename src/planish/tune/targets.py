"""The targets that coresets are learned for: how their programs are compiled, linked and run."""

from __future__ import annotations

from dataclasses import dataclass

from planish.base.errors import unknown


@dataclass(frozen=True)
class LearnTarget:
    """One architecture, by a processor and a C library that are typical of it.

    coreset  part of the data file's name
    flags    what a module of the corpus is compiled with; none for the corpus's own bitcode
    links    what programs are linked for, statically, where this machine cannot link its own; empty
             where no program of it is run
    machine  QEMU's name of it
    """

    coreset: str
    flags: tuple[str, ...] = ()
    links: str = ""
    machine: str = ""


# By libLLVM's name. A program for ARM or RISC-V is run with Linux's C library; the code generator
# does the same for firmware.
TARGETS = {
    "X86": LearnTarget("x86", links="x86_64-linux-musl", machine="x86_64"),
    "AArch64": LearnTarget(
        "aarch64", ("--target=aarch64-unknown-linux-gnu",), "aarch64-linux-musl", "aarch64"
    ),
    "ARM": LearnTarget("arm", ("--target=thumbv7m-linux-musleabi",), "thumb-linux-musleabi", "arm"),
    "RISCV": LearnTarget(
        "riscv",
        ("--target=riscv32-linux-musl", "-march=rv32gc", "-mabi=ilp32d"),
        "riscv32-linux-musl",
        "riscv32",
    ),
    "WebAssembly": LearnTarget("wasm", ("--target=wasm32-wasi",)),
}


def find_target(architecture: str) -> LearnTarget:
    """By libLLVM's name; raises UsageError for others."""
    if architecture not in TARGETS:
        raise unknown("architecture", architecture, TARGETS)
    return TARGETS[architecture]
