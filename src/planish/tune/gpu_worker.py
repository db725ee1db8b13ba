"""What runs in a worker process: Triton's compiler, or its interpreter with guarded accesses.

A worker is of one kind, since Triton decides when it is imported whether functions are
interpreted. No GPU and no torch is needed for either.
"""

from __future__ import annotations

import importlib.util
import pickle
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from planish.base.config import interpret_triton, read_config
from planish.base.files import write_atomic
from planish.base.hashing import digest

HANDLER = "planish.tune.gpu_worker:Worker"


@dataclass(frozen=True)
class Build:
    """Ask for a kernel compiled ahead of time.

    text       a module's source, or "" where `path` names a file
    signature  types of all arguments that are no constants, by name
    constants  values of the constants
    aligned    names of arguments (pointers, whole numbers) that are multiples of 16
    target     cuda:sm_90, hip:gfx942
    """

    text: str
    function: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Any], ...]
    aligned: tuple[str, ...]
    target: str
    warps: int
    stages: int
    path: str = ""


@dataclass(frozen=True)
class Built:
    """Texts and binary by stage (ttir, ttgir, llir, ptx, cubin; amdgcn, hsaco), and metadata."""

    asm: Mapping[str, bytes]
    shared: int
    name: str
    file: str
    seconds: float


@dataclass(frozen=True)
class Describe:
    """Ask for the arguments of a function in a file: (name, is a constant, default or None)."""

    path: str
    function: str


@dataclass(frozen=True)
class Interpret:
    """Ask for a sequence of kernels run by the interpreter.

    kernels  (text, function, argument tensors, grid)
    tensors  (name, shape, type) of all; those not in `arrays` are poisoned before the run
    outputs  names of tensors to give back
    """

    kernels: tuple[tuple[str, str, tuple[str, ...], tuple[int, int, int]], ...]
    tensors: tuple[tuple[str, tuple[int, ...], str], ...]
    arrays: Mapping[str, Any] = field(hash=False)
    outputs: tuple[str, ...] = ()
    guard: bool = True


def preload(kind: str) -> str:
    """Import Triton once: `interpret` or `compile`. Returns its version."""
    # Whatever the user's environment says: this worker is of this kind.
    interpret_triton(kind == "interpret")
    import triton
    import triton.language

    if kind != "interpret":
        triton.knobs.cache.dir = str(read_config().cache_dir / "triton")
    return str(triton.__version__)


class Worker:
    """One worker; its flavour is ignored."""

    def __init__(self, flavour: object) -> None:
        del flavour
        self._modules: dict[str, ModuleType] = {}

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any:
        for data in blobs.values():
            pickle.loads(data)
        if isinstance(request, Interpret):
            from planish.tune.gpu_interpreter import interpret

            return interpret(request, self.load)
        if isinstance(request, Describe):
            return _describe(self.open(request.path), request.function)
        return self._build(request)

    def _build(self, request: Build) -> Built:
        import time

        import triton
        from triton.backends.compiler import GPUTarget
        from triton.compiler import ASTSource

        started = time.perf_counter()
        module = self.open(request.path) if request.path else self.load(request.text)
        function = getattr(module, request.function)
        vendor, _, name = request.target.partition(":")
        if vendor == "hip":
            target = GPUTarget("hip", name, 64)
        else:
            target = GPUTarget("cuda", int(name.split("_")[1].rstrip("af")), 32)
        names = [p.name for p in function.params]
        signature = dict(request.signature)
        signature |= {n: "constexpr" for n, _ in request.constants}
        attributes = {(names.index(n),): [["tt.divisibility", 16]] for n in request.aligned}
        source = ASTSource(
            function, signature={n: signature[n] for n in names},
            constexprs=dict(request.constants), attrs=attributes,
        )  # fmt: skip
        options: dict[str, Any] = {"num_warps": request.warps}
        if request.stages:
            options["num_stages"] = request.stages
        compiled = triton.compile(source, target=target, options=options)
        asm = {k: v if isinstance(v, bytes) else str(v).encode() for k, v in compiled.asm.items()}
        return Built(
            asm, int(compiled.metadata.shared), str(compiled.metadata.name), str(module.__file__),
            time.perf_counter() - started,
        )  # fmt: skip

    def load(self, text: str) -> ModuleType:
        """A module of that source, kept on disk: Triton reads a function's lines from its file."""
        key = digest(text)
        if key not in self._modules:
            path = read_config().cache_dir / "gpu" / "sources" / f"k{key}.py"
            if not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(path, text)
            self._modules[key] = self.open(str(path))
        return self._modules[key]

    def open(self, path: str) -> ModuleType:
        """The module in a file; what it imports from its own folder is found."""
        name = f"planish_kernel_{digest(path)}"
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ValueError(f"{path} is no Python file")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        folder = str(Path(path).parent)
        sys.path.insert(0, folder)
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(folder)
        return module


def _describe(module: ModuleType, function: str) -> list[tuple[str, bool, Any]]:
    import inspect

    found = getattr(module, function, None)
    if found is None or not hasattr(found, "params"):
        names = [n for n, v in vars(module).items() if hasattr(v, "params")]
        raise ValueError(
            f"no Triton function '{function}' in the file; it has: {', '.join(names) or 'none'}"
        )
    result = []
    for p in found.params:
        default = p.default if p.default is not inspect.Parameter.empty else None
        result.append((p.name, bool(p.is_constexpr), default))
    return result
