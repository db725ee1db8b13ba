"""Stalls of samples blamed on the instructions waited for: samples joined to a listing."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from planish.advise.advice import Advice, Confidence
from planish.advise.blamed import Blamed
from planish.advise.patterns import advise_patterns
from planish.advise.stalls import ALL, ISSUED, STALLED
from planish.base.errors import UsageError
from planish.gpu.sass import Function
from planish.gpu.slicing import Share, line_of
from planish.trace.samples import Place, Samples

_SHOWN = 5
_NAME = re.compile(r"([\w$]+)\s*(?:<.*>)?\s*(?:\(|$)")


def advise_sources(samples: Samples, functions: Sequence[Function]) -> Iterator[Advice]:
    """The instructions that others wait for, with what they cost; the largest few per function.

    Raises UsageError where no function of the listing has samples.
    """
    joined = join(samples, functions)
    if not joined:
        raise UsageError(
            "no function of the listing has samples", hint="is it the listing of this GPU binary?"
        )
    whole = samples.total(ALL)
    for number, (stalls, issued) in joined.items():
        function = functions[number]
        blamed = Blamed(function, stalls, issued)
        yield from advise_patterns(blamed, whole)
        shares = blamed.shares
        for source, amount in _largest(shares):
            instruction = function.code[source]
            uses: dict[int, float] = defaultdict(float)
            for share in shares:
                if share.source == source:
                    uses[share.use] += share.amount
            waits = ", ".join(
                f"{function.code[use].text.split()[0]} at {line_of(function.code[use])}"
                for use in sorted(uses, key=lambda use: -uses[use])[:3]
            )
            yield Advice(
                "stall-source", "what is waited for: issue it earlier, make it cheaper, or give"
                " the wait other work", f"{function.name} {line_of(instruction)}",
                f"{instruction.text} at {instruction.offset:#x} holds up {waits}",
                amount, whole, Confidence.MEDIUM, "GPA: def-use slicing (stall elimination)",
            )  # fmt: skip


def _largest(shares: Sequence[Share]) -> list[tuple[int, float]]:
    sums: dict[int, float] = defaultdict(float)
    for share in shares:
        sums[share.source] += share.amount
    return sorted(sums.items(), key=lambda item: (-item[1], item[0]))[:_SHOWN]


_Stalls = dict[int, dict[str, float]]


def join(
    samples: Samples, functions: Sequence[Function]
) -> dict[int, tuple[_Stalls, Mapping[int, float]]]:
    """For each function with samples: stalls by instruction and reason, and issues.

    An instruction's place is its offset in the binary less that of its function's entry.
    """
    # a function behind its kernel in one section has its own entry
    index = [
        {i.offset - function.code[0].offset: n for n, i in enumerate(function.code)}
        for function in functions
    ]
    found: dict[int, tuple[_Stalls, dict[int, float]]] = {}
    by_name: dict[str, int] = {}
    reasons = {n.removeprefix(f"{STALLED}:"): v for n, v in samples.values.items()
               if n.startswith(f"{STALLED}:")}  # fmt: skip
    issues = samples.values.get(ISSUED, np.zeros(len(samples.contexts)))
    for row in np.flatnonzero(samples.values.get(ALL, np.zeros(0))).tolist():
        context = samples.contexts[row]
        holder = samples.function_of(row)
        if context.place != Place.INSTRUCTION or holder < 0:
            continue
        name = samples.contexts[holder].name
        if name not in by_name:
            by_name[name] = _match(name, functions)
        number = by_name[name]
        place = context.offset - samples.contexts[holder].offset
        if number < 0 or place not in index[number]:
            continue
        stalls, issued = found.setdefault(number, ({}, {}))
        at = index[number][place]
        issued[at] = issued.get(at, 0.0) + float(issues[row])
        mine = stalls.setdefault(at, {})
        for reason, values in reasons.items():
            if values[row]:
                mine[reason] = mine.get(reason, 0.0) + float(values[row])
    return {number: (stalls, issued) for number, (stalls, issued) in found.items()}


def _match(name: str, functions: Sequence[Function]) -> int:
    """The function of this (demangled) name: equal, or mangled with the same base name."""
    base = _NAME.search(name)
    mangled = f"{len(base[1])}{base[1]}" if base else None
    for number, function in enumerate(functions):
        if function.name == name or (base and function.name == base[1]):
            return number
        if mangled and function.name.startswith("_Z") and mangled in function.name:
            return number
    return -1
