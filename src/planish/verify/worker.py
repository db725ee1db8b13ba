"""What runs in a verifying worker: reading two modules, encoding, solving, confirming."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from planish.base.records import Grade, Verdict
from planish.llvm.binding import Library
from planish.llvm.module import Module
from planish.verify import prove, solvers, terms
from planish.verify.cfg import shape_of
from planish.verify.cones import cones
from planish.verify.ir import Function, Unsupported
from planish.verify.reader import Reader
from planish.verify.requests import FunctionVerdict, List, Validate

_library: Library | None = None
_solvers: tuple[str, ...] = ()
_RECURSION = 50_000


def preload(path: str) -> tuple[str, ...]:
    """Load libLLVM and the solvers, once, in the zygote; the solvers' names."""
    global _library, _solvers
    _library = Library(Path(path))
    _solvers = solvers.load()
    return _solvers


class Validator:
    """A worker. Keeps the modules that it was sent."""

    def __init__(self, _: object) -> None:
        assert _library is not None, "preload was not called"
        self._library = _library
        self._blobs: dict[str, bytes] = {}
        sys.setrecursionlimit(_RECURSION)

    def __call__(self, request: Any, blobs: dict[str, bytes]) -> Any:
        self._blobs.update(blobs)
        if isinstance(request, List):
            with self._open(request.blob) as module:
                return _functions(module)
        return self._validate(request)

    def _validate(self, request: Validate) -> FunctionVerdict:
        started = time.monotonic()
        terms.clear()
        with self._open(request.before) as before, self._open(request.after) as after:
            found = FunctionVerdict(request.function, Verdict(Grade.UNKNOWN))
            case = None
            try:
                readers = Reader(self._library, before), Reader(self._library, after)
                if request.same:
                    return _unchanged(readers[0], found)
                source, target = (reader.function(request.function) for reader in readers)
                finders = (_finder(reader) for reader in readers)
                case = prove.Case(source, target, before, after, self._library, *finders)
                if request.proofs:
                    found = prove.validate(case, request, _solvers)
                else:
                    found = prove.run_only(case, found)
            except Unsupported as error:
                found = replace(found, reason=str(error), unsupported=True)
                if case is not None and request.run:
                    found = prove.run_only(case, found)
        return replace(found, seconds=time.monotonic() - started)

    @contextlib.contextmanager
    def _open(self, blob: str) -> Iterator[Module]:
        with contextlib.closing(Module(self._library, self._blobs[blob], blob)) as module:
            yield module


def _unchanged(reader: Reader, found: FunctionVerdict) -> FunctionVerdict:
    """Proved, whatever the function does."""
    try:
        loops = shape_of(reader.function(found.function)).has_loops
    except Unsupported:
        loops = False  # what cannot be read counts as having none
    return replace(found, verdict=Verdict(Grade.PROVED), loops=loops)


def _finder(reader: Reader) -> Callable[[str], Function | None]:
    """Bodies of callees, as far as they can be read."""
    known: dict[str, Function | None] = {}

    def find(name: str) -> Function | None:
        if name not in known:
            try:
                known[name] = reader.function(name)
            except Unsupported:
                known[name] = None
        return known[name]

    return find


def _functions(module: Module) -> list[tuple[str, str]]:
    """Name and hash of every function that has a body."""
    return list(cones(module.text()).items())
