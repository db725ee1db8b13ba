"""The calls themselves, in a forked process: one after another, whether they fault or return."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import RecipeError
from planish.llvm.binding import Library
from planish.llvm.jit import Loaded
from planish.verify import heap
from planish.verify.guard import CAUGHT, Guard, kind_of
from planish.verify.ir import Function, Type
from planish.verify.native import ZONE, ZONE_SIZE, Code, Input, Patience, Result

_PAGE_FLAGS = 0x100022  # MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE
_WORD = 8
_FAULTS = {int(one): one.name for one in CAUGHT if one != signal.SIGPROF}


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
    kinds = [parameter.type for parameter in function.parameters]
    guard = Guard(library, kinds, function.result)
    entry = loaded.address(function.name)
    for start, size in ((ZONE, ZONE_SIZE), (heap.START, heap.SIZE)):
        _map(start, size)
    most = patience.calls if code.stateful else len(inputs)
    found: list[Result] = []
    while len(found) < most and (left := patience.hangs - _hangs(found)) > 0:
        rest = inputs[len(found) : len(found) + 1 if code.stateful else None]

        def work(writer: int, rest: Sequence[Input] = rest, left: int = left) -> None:
            run = _Run(function, guard, entry, places, globals_, patience.seconds, left)
            _several(run, rest, writer)

        raw, ended = _child(work)
        found += _results(raw, function, globals_)
        if ended:
            found.append(Result(ended))
    return found + [Result("not run")] * (len(inputs) - len(found))


@dataclass(frozen=True)
class _Run:
    function: Function
    guard: Guard
    entry: int
    places: Mapping[str, int]
    globals: Mapping[str, int]
    seconds: float
    hangs: int


def _hangs(found: Sequence[Result]) -> int:
    """Calls that took too long, or took the process with them."""
    return sum(1 for one in found if one.ended not in ("returned", *_FAULTS.values()))


def _child(work: Callable[[int], None]) -> tuple[bytes, str]:
    """What a forked process writes, and how it ended; empty where it ended well."""
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        work(writer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        raw = source.read()
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not code:
        return raw, ""
    return raw, f"killed by signal {-code}" if code < 0 else f"exit code {code}"


def _several(run: _Run, inputs: Sequence[Input], writer: int) -> None:
    run.guard.arm()
    kinds = [(p.type, p.flags) for p in run.function.parameters]
    hangs = 0
    with os.fdopen(writer, "wb", buffering=0) as out:
        for given in inputs:
            _fill(given, run.places)
            bits = [_to_c(v, *kind) for v, kind in zip(given.arguments, kinds, strict=True)]
            signal.setitimer(signal.ITIMER_PROF, run.seconds)
            caught, value = run.guard.call(run.entry, bits)
            signal.setitimer(signal.ITIMER_PROF, 0)
            memory = ctypes.string_at(ZONE, ZONE_SIZE) + heap.contents()
            held = b"".join(ctypes.string_at(run.places[n], z) for n, z in run.globals.items())
            words = caught.to_bytes(_WORD, "little") + value.to_bytes(_WORD, "little")
            data = memoryview(words + memory + held)
            while data:
                data = data[out.write(data) :]
            hangs += caught == signal.SIGPROF
            if hangs == run.hangs:
                break


def _results(raw: bytes, function: Function, globals_: Mapping[str, int]) -> list[Result]:
    mask = (1 << function.result.width) - 1 if function.result.kind != "void" else 0
    size = 2 * _WORD + ZONE_SIZE + heap.HASH + sum(globals_.values())
    found = []
    for start in range(0, len(raw) - size + 1, size):
        caught = int.from_bytes(raw[start : start + _WORD], "little")
        if caught:
            found.append(Result(_FAULTS.get(caught, "timeout")))
            continue
        value = int.from_bytes(raw[start + _WORD : start + 2 * _WORD], "little") & mask
        at = start + 2 * _WORD
        zone, at = raw[at : at + ZONE_SIZE], at + ZONE_SIZE
        held, at = raw[at : at + heap.HASH], at + heap.HASH
        contents = {}
        for name, length in globals_.items():
            contents[name], at = raw[at : at + length], at + length
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


def _to_c(bits: int, kind: Type, flags: frozenset[str]) -> float | int:
    if kind.kind == "float":
        raw = bits.to_bytes(kind.width // 8, "little")
        return float(kind_of(kind).from_buffer_copy(raw).value)
    if "signext" in flags and bits >> (kind.width - 1):
        return bits | (-1 << kind.width) & 0xFFFF_FFFF_FFFF_FFFF
    return bits
