"""Modules: parse, verify, run pipelines, count, hash, emit. Runs in worker processes only."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Iterator
from ctypes import byref, c_void_p

from planish.base.errors import RecipeError, UsageError
from planish.base.hashing import digest
from planish.llvm.attributes import Attributes, ModuleFlags
from planish.llvm.binding import Library
from planish.llvm.pipeline import segments
from planish.llvm.requests import Target

_EXTERNAL = 0
_EMIT_ASSEMBLY, _EMIT_OBJECT = 0, 1
_RELOC_STATIC, _RELOC_PIC = 1, 2
_CODEGEN_DEFAULT = 2
_BITCODE_MAGIC = (b"BC\xc0\xde", b"\xde\xc0\x17\x0b")
# Module analyses that many passes only look up in the cache.
_REQUIRED = "require<profile-summary>,"


# An element of a function's suffix: the recipe's passes leave the function alone, it gets the
# simplifications that every default pipeline has instead.
BASELINE = "@baseline"
_BASELINE_PASSES = (
    "sroa,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,reassociate,"
    "loop-simplify,lcssa,loop-mssa(licm),gvn,sccp,bdce,dse,adce,simplifycfg,"
    "instcombine<no-verify-fixpoint>,simplifycfg"
)


class Module:
    """One LLVM module with a context of its own, freed together.

    A context of its own makes a build independent of what the process built before.
    """

    def __init__(self, library: Library, data: bytes, name: str = "module") -> None:
        """Parse bitcode or textual IR; raises UsageError with LLVM's message."""
        self.library = library
        self._c = c = library.c
        self._context = c.LLVMContextCreate()
        module, error = c_void_p(), c_void_p()
        buffer = c.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), name.encode())
        if data.startswith(_BITCODE_MAGIC):
            failed = c.LLVMParseBitcodeInContext2(self._context, buffer, byref(module))
            c.LLVMDisposeMemoryBuffer(buffer)
        else:
            failed = c.LLVMParseIRInContext(self._context, buffer, byref(module), byref(error))
        if failed:
            reason = library.message(error).strip().replace("\n", " ") or "invalid bitcode"
            c.LLVMContextDispose(self._context)
            raise UsageError(f"cannot parse {name}: {reason}", hint="is it from a newer LLVM?")
        self._module: int = module.value or 0
        self._attributes = Attributes(library, self._context)
        self._machine: int | None = None
        # Whether frame pointers stay: whoever asked for them, the module does not tell.
        self.frames = True

    def close(self) -> None:
        """Free the module, its target machine and its context."""
        if self._machine:
            self._c.LLVMDisposeTargetMachine(self._machine)
        self._c.LLVMDisposeModule(self._module)
        self._c.LLVMContextDispose(self._context)

    def absorb(self, data: bytes, name: str) -> Module:
        """Parse a further module into this one's context, to be linked into it at once.

        The caller links it (`link`), which consumes it.
        """
        module = c_void_p()
        buffer = self._c.LLVMCreateMemoryBufferWithMemoryRangeCopy(data, len(data), name.encode())
        failed = self._c.LLVMParseBitcodeInContext2(self._context, buffer, byref(module))
        self._c.LLVMDisposeMemoryBuffer(buffer)
        if failed:
            raise UsageError(f"cannot parse {name}", hint="record the build again")
        return self._beside(module.value or 0)

    def link(self, part: Module) -> None:
        """Link a module of the same context into this one; it is gone afterwards.

        Raises UsageError when the two do not fit, with LLVM's words on standard error.
        """
        if self._c.LLVMLinkModules2(self._module, part._module):
            raise UsageError("the modules cannot be linked", hint="do their flags fit together?")

    def mentions(self, name: str) -> bool:
        """Whether a function, variable or alias of that name is defined or declared."""
        symbol = name.encode(errors="surrogateescape")
        c, module = self._c, self._module
        return bool(
            c.LLVMGetNamedFunction(module, symbol)
            or c.LLVMGetNamedGlobal(module, symbol)
            or c.LLVMGetNamedGlobalAlias(module, symbol, len(symbol))
        )

    # -- facts -------------------------------------------------------------------------------

    @property
    def triple(self) -> str:
        return str(self._c.LLVMGetTarget(self._module).decode())

    @property
    def handle(self) -> int:
        """LLVM's own pointer to the module, for those who look into it."""
        return self._module

    def functions(self) -> list[str]:
        """Names of the functions that have a body, in module order."""
        return [self.library.name(f) for f in self.library.functions(self._module)]

    def instructions(self) -> int:
        """IR instructions in the module."""
        return self.library.count_module(self._module)

    def instructions_by_function(self) -> dict[str, int]:
        """IR instructions of each function that has a body."""
        library = self.library
        functions = library.functions(self._module)
        return {library.name(f): library.count_function(f) for f in functions}

    def bitcode(self) -> bytes:
        """The module as bitcode."""
        return self.library.buffer(self._c.LLVMWriteBitcodeToMemoryBuffer(self._module))

    def text(self) -> str:
        """The module as textual IR."""
        return self.library.message(self._c.LLVMPrintModuleToString(self._module))

    def function_texts(self) -> dict[str, str]:
        """Textual IR of each function that has a body."""
        return {
            self.library.name(f): self.library.message(self._c.LLVMPrintValueToString(f))
            for f in self.library.functions(self._module)
        }

    def identity(self) -> str:
        """Hash of the module's contents; names of files and debug information do not enter."""
        copy = self.copy()
        copy.anonymise()
        data = copy.bitcode()
        copy.drop()
        return digest(data)

    def copy(self) -> Module:
        """A copy in the same context; the caller drops it before this module is closed."""
        return self._beside(self._c.LLVMCloneModule(self._module))

    def _beside(self, module: int) -> Module:
        """Another module of the same context."""
        other = Module.__new__(Module)
        other.library, other._c, other._context = self.library, self._c, self._context
        other._module, other._machine = module, None
        other._attributes, other.frames = self._attributes, self.frames
        return other

    def drop(self) -> None:
        """Free a copy, and leave its context alone."""
        self._c.LLVMDisposeModule(self._module)

    def anonymise(self) -> None:
        """Take out debug information and names of files."""
        self._c.LLVMStripModuleDebugInfo(self._module)
        self._c.LLVMSetSourceFileName(self._module, b"", 0)
        self._c.LLVMSetModuleIdentifier(self._module, b"", 0)

    def verify(self) -> str:
        """Empty when the module is valid IR, else the verifier's words."""
        error = c_void_p()
        broken = self._c.LLVMVerifyModule(self._module, 2, byref(error))
        words = self.library.message(error)
        return (words.strip() or "invalid module") if broken else ""

    # -- preparation -------------------------------------------------------------------------

    def optimise_for_size(self) -> list[str]:
        """Give every function `minsize` and `optsize`, and drop `optnone`, which forbids passes.

        Returns the functions that were changed.
        """
        functions = self.library.functions(self._module)
        return [self.library.name(f) for f in functions if self._attributes.optimise_for_size(f)]

    def expose(self, names: Iterable[str]) -> None:
        """Give these functions and variables external linkage, so that a linker finds them."""
        for name in names:
            symbol = name.encode(errors="surrogateescape")
            for find in (self._c.LLVMGetNamedFunction, self._c.LLVMGetNamedGlobal):
                value = find(self._module, symbol)
                if value and not self._c.LLVMIsDeclaration(value):
                    self._c.LLVMSetLinkage(value, _EXTERNAL)

    # -- passes ------------------------------------------------------------------------------

    def select(self, target: Target) -> None:
        """Create the target machine; raises UsageError when the library lacks the target."""
        c = self._c
        triple = target.triple or self.triple
        if not triple:
            triple = self.library.message(c.LLVMGetDefaultTargetTriple())
        handle, error = c_void_p(), c_void_p()
        if c.LLVMGetTargetFromTriple(triple.encode(), byref(handle), byref(error)):
            raise UsageError(
                f"no code generator for target '{triple}': {self.library.message(error)}",
                hint="run `planish doctor` to see the targets",
            )
        c.LLVMSetTarget(self._module, triple.encode())
        flags = ModuleFlags(self.library, self._context, self._module)
        self._machine = c.LLVMCreateTargetMachine(
            handle,
            triple.encode(),
            (target.cpu or self._first_attribute("target-cpu")).encode(),
            (target.features or self._first_attribute("target-features")).encode(),
            _CODEGEN_DEFAULT,
            _RELOC_PIC if flags.integer("PIC Level") else _RELOC_STATIC,
            flags.code_model(),
        )
        if not c.LLVMGetDataLayoutStr(self._module):
            layout = c.LLVMCreateTargetDataLayout(self._machine)
            text = self.library.message(c.LLVMCopyStringRepOfTargetData(layout))
            c.LLVMDisposeTargetData(layout)
            c.LLVMSetDataLayout(self._module, text.encode())

    def run(self, pipeline: str) -> None:
        """Run a module pipeline; raises RecipeError when LLVM refuses it.

        An element that starts with `@` sets an attribute on all functions at that point.
        """
        for element in segments(pipeline):
            if element.startswith("@"):
                for function in self.library.functions(self._module):
                    self._attributes.carry_out(function, element, self.frames)
            else:
                self._run(element)

    def _run(self, pipeline: str) -> None:
        options = self._c.LLVMCreatePassBuilderOptions()
        error = self._c.LLVMRunPasses(
            self._module, (_REQUIRED + pipeline).encode(), self._machine, options
        )
        self._c.LLVMDisposePassBuilderOptions(options)
        self._raise(error, pipeline)

    def run_plain(self, pipeline: str) -> None:
        """Run a module pipeline as LLVM itself reads it: its parameters are not looked into."""
        self._run(pipeline)

    def run_everywhere(self, suffix: str) -> None:
        """Run a function suffix on every function."""
        for element in segments(suffix):
            self.run(element if element.startswith("@") else f"function({element})")

    @contextlib.contextmanager
    def sheltered(self, names: Iterable[str]) -> Iterator[None]:
        """No pass that may be left out touches these functions, inlines them or into them."""
        held: list[tuple[str, list[str]]] = []
        for name in names:
            function = self._body(name)
            if function and not self._attributes.has(function, "alwaysinline"):
                held.append((name, self._attributes.shelter(function)))
        yield
        for name, had in held:
            function = self._body(name)
            if function:
                self._attributes.unshelter(function, had)

    def _body(self, name: str) -> int | None:
        """A function that has a body."""
        function = self._c.LLVMGetNamedFunction(self._module, name.encode(errors="surrogateescape"))
        return function if function and not self._c.LLVMIsDeclaration(function) else None

    def run_on_function(self, name: str, pipeline: str) -> bool:
        """Run a function pipeline on one function; False when there is no such body."""
        function = self._body(name)
        if not function:
            return False
        for element in segments(pipeline):
            if element == BASELINE:
                self._run_on(function, _BASELINE_PASSES)
            elif element.startswith("@"):
                self._attributes.carry_out(function, element, self.frames)
            else:
                self._run_on(function, element)
        return True

    def _run_on(self, function: int, pipeline: str) -> None:
        options = self._c.LLVMCreatePassBuilderOptions()
        error = self._c.LLVMRunPassesOnFunction(function, pipeline.encode(), self._machine, options)
        self._c.LLVMDisposePassBuilderOptions(options)
        self._raise(error, pipeline)

    # -- code --------------------------------------------------------------------------------

    def emit(self, *, assembly: bool = False) -> bytes:
        """Generate the object (or assembly). Last: code generation changes the module."""
        out, error = c_void_p(), c_void_p()
        kind = _EMIT_ASSEMBLY if assembly else _EMIT_OBJECT
        failed = self._c.LLVMTargetMachineEmitToMemoryBuffer(
            self._machine, self._module, kind, byref(error), byref(out)
        )
        if failed:
            raise RecipeError(f"code generation failed: {self.library.message(error).strip()}")
        return self.library.buffer(out)

    # -- inside ------------------------------------------------------------------------------

    def _raise(self, error: int | None, pipeline: str) -> None:
        if not error:
            return
        address = self._c.LLVMGetErrorMessage(error)
        words = ctypes.string_at(address).decode(errors="replace")
        self._c.LLVMDisposeErrorMessage(address)
        raise RecipeError(f"LLVM refuses the pipeline '{pipeline}': {words}")

    def _first_attribute(self, name: str) -> str:
        texts = (self._attributes.text(f, name) for f in self.library.functions(self._module))
        return next((text for text in texts if text), "")
