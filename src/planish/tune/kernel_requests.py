"""What the workers of kernel tuning are asked, and what they answer.

Apart from the worker's own module, since that one sets up NumPy for its process alone.
"""

from __future__ import annotations

from dataclasses import dataclass

HANDLER = "planish.tune.kernel_worker:Runner"


@dataclass(frozen=True)
class Build:
    """Ask for a schedule's machine code; the answer is the bytes of an Image.

    program  key of the pickled program
    vector   bytes of vector registers
    """

    program: str
    schedule: str
    vector: int


@dataclass(frozen=True)
class Measure:
    """Ask for timings of one kernel in turn with the baseline's.

    baseline  machine code of the baseline (the bytes of an Image), and `candidate` of the other
    seconds   about how long to measure at most
    seed      of inputs, poison and order
    cold      whether caches are flushed before each call
    enough    ratio to the baseline beyond which a candidate is timed no longer
    precise   relative standard error of the ratio at which timing ends early; 0 never ends early
    """

    program: str
    baseline: bytes
    candidate: bytes
    seconds: float
    seed: int
    cold: bool = False
    enough: float = float("inf")
    precise: float = 0.0


@dataclass(frozen=True)
class Measured:
    """Seconds of single calls, round by round in turn.

    clock  seconds that a fixed computation took before and after: the clock's speed
    """

    baseline: tuple[float, ...]
    candidate: tuple[float, ...]
    clock: tuple[float, float]
