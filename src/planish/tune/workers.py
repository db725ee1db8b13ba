"""Where builds and measurements run: on this machine, or on those of a cluster that are like it."""

from __future__ import annotations

import os
from typing import Any

from planish.proc.here import Here
from planish.proc.pool import Pool

_IDENTITY = "planish.tune.workers:identity"
_KERNEL_MEMORY = 8 << 30


def open_pool(
    workers: str,
    handler: str,
    argument: Any,
    *,
    jobs: int,
    seconds: float,
    memory: int,
    here: bool = False,
) -> Pool:
    """A pool of this machine, or of the Ray cluster that `workers` names (see `Cluster`).

    here  one call in this very process instead (see `Here`)
    Raises UsageError where it names none, PlanishError where it cannot be used.
    """
    if here:
        return Here(handler, argument, seconds=seconds, memory=memory)
    if not workers:
        return Pool(handler, argument, jobs=jobs, seconds=seconds, memory=memory)
    from planish.proc.cluster import Cluster

    return Cluster(workers, handler, argument, identity=_IDENTITY, seconds=seconds, memory=memory)


def identity() -> dict[str, str]:
    """What must be the same on machines that share one search."""
    import platform

    from planish import __version__
    from planish.measure.machine import processor  # a replay needs none of these

    return {
        "processor": processor().fingerprint, "Planish": __version__,
        "Python": platform.python_version(),
    }  # fmt: skip


def kernel_pool(seconds: float, workers: str = "") -> Pool:
    """A pool that compiles and measures kernels; `seconds` are of one call."""
    from planish.tune.kernel_requests import HANDLER

    return open_pool(
        workers, HANDLER, None, jobs=os.cpu_count() or 1, seconds=seconds, memory=_KERNEL_MEMORY
    )
