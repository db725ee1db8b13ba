"""The calls themselves, in forked processes: one follows another until one faults or hangs."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence

from planish.base.errors import RecipeError
from planish.llvm.binding import Library
from planish.llvm.jit import Loaded
from planish.verify import heap
from planish.verify.ir import Function, Type
from planish.verify.native import ZONE, ZONE_SIZE, Code, Input, Patience, Result

_PAGE_FLAGS = 0x100022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
_WORD = 8


def batch(
    library: Library,
    code: Code,
    function: Function,
    inputs: Sequence[Input],
    globals_: Mapping[str, int],
    patience: Patience,
) -> list[Result]:
    """Results of the calls, in the inputs' order; those that there was no patience for at the end.

    Code without state is called again and again in one process, the zone and the heap being made
    anew each time.
    """
    loaded = Loaded(library, code.data)
    places = {name: loaded.address(name) for name in globals_}
    call = caller_of(function, loaded.address(function.name))
    for start, size in ((ZONE, ZONE_SIZE), (heap.START, heap.SIZE)):
        _map(start, size)
    most = patience.calls if code.stateful else len(inputs)
    found: list[Result] = []
    failures = 0
    while len(found) < most and failures < patience.failures:
        rest = inputs[len(found) : len(found) + 1 if code.stateful else None]

        def work(writer: int, rest: Sequence[Input] = rest) -> None:
            _several(call, rest, places, globals_, patience.seconds, writer)

        raw, ended = _child(work)
        found += _results(raw, globals_)
        if ended:
            failures += 1
            found.append(Result(ended))
    return found + [Result("not run")] * (len(inputs) - len(found))


def _child(work: Callable[[int], None]) -> tuple[bytes, str]:
    """What a forked process writes, and how it ended; empty where it ended well."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        work(writer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        raw = source.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not code:
        return raw, ""
    if code == -signal.SIGPROF:
        return raw, "timeout"
    return raw, signal.Signals(-code).name if code < 0 else f"exit code {code}"


def _several(
    call: Callable[[Sequence[int]], int],
    inputs: Sequence[Input],
    places: Mapping[str, int],
    globals_: Mapping[str, int],
    seconds: float,
    writer: int,
) -> None:
    with os.fdopen(writer, "wb", buffering=0) as out:
        for given in inputs:
            _fill(given, places)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            value = call(given.arguments)
            signal.setitimer(signal.ITIMER_PROF, 0)
            memory = ctypes.string_at(ZONE, ZONE_SIZE)
            held = b"".join(ctypes.string_at(places[n], size) for n, size in globals_.items())
            data = memoryview(value.to_bytes(_WORD, "little") + memory + heap.contents() + held)
            while data:
                data = data[out.write(data) :]


def _results(raw: bytes, globals_: Mapping[str, int]) -> list[Result]:
    size = _WORD + ZONE_SIZE + heap.HASH + sum(globals_.values())
    found = []
    for start in range(0, len(raw) - size + 1, size):
        at = start + _WORD
        zone, at = raw[at : at + ZONE_SIZE], at + ZONE_SIZE
        held, at = raw[at : at + heap.HASH], at + heap.HASH
        contents = {}
        for name, length in globals_.items():
            contents[name], at = raw[at : at + length], at + length
        value = int.from_bytes(raw[start : start + _WORD], "little")
        found.append(Result("returned", value, zone, contents, held))
    return found


def _map(start: int, size: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    got = libc.mmap(start, size, 3, _PAGE_FLAGS, -1, 0)
    if got != start:
        raise RecipeError("the test zone cannot be mapped")


def _fill(given: Input, places: Mapping[str, int]) -> None:
    ctypes.memset(ZONE, 0, ZONE_SIZE)
    ctypes.memmove(ZONE, given.zone, len(given.zone))
    heap.clear()
    for name, contents in given.globals.items():
        ctypes.memmove(places[name], contents, len(contents))


def caller_of(function: Function, entry: int):  # type: ignore[no-untyped-def]
    """A callable from argument bits to result bits."""
    kinds = [_c_type(p.type) for p in function.parameters]
    result = None if function.result.kind == "void" else _c_type(function.result)
    native = ctypes.CFUNCTYPE(result, *kinds)(entry)

    def call(bits: Sequence[int]) -> int:
        given = [
            _to_c(value, p.type, p.flags)
            for value, p in zip(bits, function.parameters, strict=True)
        ]
        got = native(*given)
        if function.result.kind == "void":
            return 0
        if function.result.kind == "float":
            raw = bytes(kind_of(function.result)(got))
            return int.from_bytes(raw, "little")
        return int(got or 0) & ((1 << function.result.width) - 1)

    return call


def kind_of(kind: Type):  # type: ignore[no-untyped-def]
    """The ctypes type of a floating-point type."""
    return ctypes.c_float if kind.width == 32 else ctypes.c_double


def _c_type(kind: Type):  # type: ignore[no-untyped-def]
    return kind_of(kind) if kind.kind == "float" else ctypes.c_uint64


def _to_c(bits: int, kind: Type, flags: frozenset[str]) -> float | int:
    if kind.kind == "float":
        raw = bits.to_bytes(kind.width // 8, "little")
        return float(kind_of(kind).from_buffer_copy(raw).value)
    if "signext" in flags and bits >> (kind.width - 1):
        return bits | (-1 << kind.width) & 0xFFFF_FFFF_FFFF_FFFF
    return bits
