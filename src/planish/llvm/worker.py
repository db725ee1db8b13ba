"""What runs in a worker process: building recipes for the modules that were sent to it.

A worker is started with the code generator's options (global to a process, set once) and keeps
the bitcode it was sent. Every build starts from that bitcode in a context of its own, so that a
result never depends on what the worker did before.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from planish.base.hashing import digest
from planish.llvm import frontend
from planish.llvm.binding import Library
from planish.llvm.extraction import extract
from planish.llvm.features import Description, describe
from planish.llvm.merging import merge
from planish.llvm.module import BASELINE, Module
from planish.llvm.requests import (
    Build,
    Built,
    Describe,
    Extract,
    Extracted,
    Facts,
    Inspect,
    Job,
    LibraryInfo,
    Merge,
)
from planish.measure.sizes import measure_object

# LLVM names a target's own options after it.
_OPTION_NAMES = {"RISCV": "-riscv-", "WebAssembly": "-wasm-"}
_library: Library | None = None


def preload(path: str) -> LibraryInfo:
    """Load libLLVM and the reader of objects, once, in the zygote."""
    import elftools.elf.elffile  # noqa: F401 - so that no worker has to load it

    global _library
    _library = Library(Path(path))
    triple = _library.message(_library.c.LLVMGetDefaultTargetTriple())
    return LibraryInfo(_library.version, _library.targets, triple)


class Builder:
    """A worker for one set of code generator options."""

    def __init__(self, options: tuple[str, ...]) -> None:
        if _library is None:
            raise RuntimeError("preload was not called")
        self._library = _library
        self._options = options
        self._blobs: dict[str, bytes] = {}
        self._library.parse_options(tuple(o for o in options if not self._foreign(o)))

    def _foreign(self, option: str) -> bool:
        """Whether it is of a target that libLLVM lacks: then it is for the front end alone."""
        absent = [name for arch, name in _OPTION_NAMES.items() if arch not in self._library.targets]
        return any(name in option for name in absent)

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any:
        self._blobs.update(blobs)
        if isinstance(request, Inspect):
            return self._inspect(request)
        if isinstance(request, Describe):
            return self._describe(request)
        if isinstance(request, Extract):
            return self._extract(request)
        if isinstance(request, Merge):
            parts = [self._blobs[blob] for blob in request.blobs]
            return merge(self._library, parts, request.needs, request.keep)
        return self._build(request)

    def _inspect(self, request: Inspect) -> Facts:
        with contextlib.closing(self._open(request.job)) as module:
            return _facts(module, request.job)

    def _describe(self, request: Describe) -> Description:
        with contextlib.closing(self._open(request.job)) as module:
            return describe(module.text())

    def _extract(self, request: Extract) -> tuple[Extracted, ...]:
        with contextlib.closing(self._open(request.job)) as module:
            return extract(self._library, module, request.smallest)

    def _build(self, request: Build) -> Built:
        job, recipe = request.job, request.recipe
        with contextlib.closing(self._open(job)) as module:
            facts = _facts(module, job) if request.inspect else None
            if facts and request.expected and facts.identity != request.expected:
                return Built("", 0, facts=facts)
            if job.for_size:
                module.optimise_for_size()
            if not job.clang:
                module.select(job.target)
            module.frames = job.frames
            kept = [name for name, suffix in recipe.functions if suffix.startswith(BASELINE)]
            with module.sheltered(kept):
                module.run(recipe.pipeline)
            absent = [
                name
                for name, suffix in recipe.functions
                if not module.run_on_function(name, suffix)
            ]
            if request.everywhere:  # a probe stands where a function's next suffix would
                module.run_everywhere(request.everywhere)
            words = module.verify()
            if words:
                raise ValueError(f"the verifier refuses the result: {words.splitlines()[0]}")
            opcodes = self._library.opcodes(module.handle) if request.opcodes else {}
            built = self._measure(module, request, tuple(absent))
            return replace(built, facts=facts, opcodes=opcodes)

    def _measure(self, module: Module, request: Build, absent: tuple[str, ...]) -> Built:
        lean = request.inspect and "bc" not in request.keep
        bitcode = b"" if lean else module.bitcode()
        identity = "" if lean else digest(bitcode, " ".join(self._options))
        instructions = module.instructions()
        artefacts = {}
        if "bc" in request.keep:
            artefacts["bc"] = bitcode
        if "ll" in request.keep:
            artefacts["ll"] = module.text().encode(errors="surrogateescape")
        if not request.emit:
            counts = module.instructions_by_function()
            return Built(identity, instructions, counts=counts, absent=absent, artefacts=artefacts)
        if identity and identity in request.known and not request.keep:
            return Built(identity, instructions, absent=absent)
        if "asm" in request.keep:
            with contextlib.closing(Module(self._library, bitcode or module.bitcode())) as copy:
                artefacts["asm"] = self._generate(copy, request.job, True)
        code = self._generate(module, request.job, False, bitcode or None)
        if "obj" in request.keep:
            artefacts["obj"] = code
        sizes = measure_object(code, functions=not request.inspect)
        return Built(
            identity,
            instructions,
            sections=sizes.sections,
            functions=sizes.functions,
            absent=absent,
            artefacts=artefacts,
        )

    def _generate(
        self, module: Module, job: Job, assembly: bool, bitcode: bytes | None = None
    ) -> bytes:
        if job.clang:
            return frontend.generate(
                job.clang, bitcode or module.bitcode(), self._options, assembly=assembly
            )
        if assembly:
            module.select(job.target)
        return module.emit(assembly=assembly)

    def _open(self, job: Job) -> Module:
        return Module(self._library, self._blobs[job.blob], job.blob)


def _facts(module: Module, job: Job) -> Facts:
    """What the module is before any pass; marks it for size where the job asks for that."""
    identity = module.identity()
    resized = module.optimise_for_size() if job.for_size else []
    functions = tuple(module.functions())
    return Facts(identity, module.triple, functions, module.instructions(), tuple(resized))
