"""`advise_path`: advice for whatever lies at a path."""

from __future__ import annotations

from pathlib import Path

from planish.advise.advice import Advice, ranked
from planish.advise.rules import advise_ranks, advise_trace
from planish.advise.sources import advise_sources, join
from planish.advise.stalls import advise_samples
from planish.base.errors import UsageError
from planish.base.files import read_bytes
from planish.gpu.amd import is_amd, parse_amd
from planish.gpu.contexts import GpuContext, gpu_contexts
from planish.gpu.sass import Function, parse_sass
from planish.trace.hpctoolkit import find_parts, read_hpctoolkit
from planish.trace.ncu import is_ncu, read_ncu
from planish.trace.ranks import read_ranks, trace_files
from planish.trace.samples import Samples
from planish.trace.source import head
from planish.trace.trace import Trace


def advise_path(path: Path, *, salvage: bool = False, sass: Path | None = None) -> list[Advice]:
    """Rules for one trace, for a folder of ranks (those of the slowest rank as well), or samples.

    sass  a listing of the samples' GPU binary: stalls are blamed on the instructions waited for
    Raises UsageError and TraceError as the readers do.
    """
    samples = _samples(path)
    if samples is not None:
        found = advise_samples(samples)
        if sass is not None:
            found = ranked([*found, *advise_sources(samples, read_listing(sass))])
        return found
    if sass is not None:
        raise UsageError("--sass goes with samples", hint=f"{path} holds none")
    if not path.is_dir():
        return advise_trace(Trace.read(path, salvage=salvage))
    trace_files(path)
    ranks = read_ranks(path, salvage=salvage)
    slowest = max(ranks.rows, key=lambda row: row.compute)
    return [
        *advise_ranks(ranks),
        *advise_trace(Trace.read(slowest.file, salvage=salvage)),
    ]


def read_listing(path: Path) -> list[Function]:
    """The functions of a listing of NVIDIA's or AMD's instructions; raises TraceError."""
    text = read_bytes(path).decode(errors="replace")
    return parse_amd(text) if is_amd(text) else parse_sass(text)


def kernel_contexts(path: Path, listing: Path) -> list[GpuContext]:
    """The calling-context tree of GPU code, made of a profile's samples and a listing's calls.

    Raises UsageError where there are no samples or none of the listing's functions has some.
    """
    samples = _samples(path)
    if samples is None:
        raise UsageError(f"{path} holds no samples", hint="give an HPCToolkit database")
    functions = read_listing(listing)
    flat = {
        functions[number].name: {
            at: issued.get(at, 0.0) + sum(stalls.get(at, {}).values()) for at in {*stalls, *issued}
        }
        for number, (stalls, issued) in join(samples, functions).items()
    }
    return gpu_contexts(functions, flat)


def _samples(path: Path) -> Samples | None:
    if find_parts(path):
        return read_hpctoolkit(path)
    if path.is_file() and is_ncu(head(path)):
        return read_ncu(path)
    return None
