"""What the OpenCL tracer reads off the arguments of pyopencl's calls."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from planish.trace.events import ABSENT


def profiled(original: Any) -> Any:
    """The queue's class with profiling always on."""
    profiling = int(import_module("pyopencl").command_queue_properties.PROFILING_ENABLE)

    class CommandQueue(original):  # type: ignore[misc]
        def __init__(self, context: Any, device: Any = None, properties: Any = 0) -> None:
            super().__init__(context, device, int(properties or 0) | profiling)

    return CommandQueue


def of_kernel(kernel: Any, queue: Any, grid: Any, block: Any, *_: Any) -> dict[str, Any]:
    """A launch: the kernel's name, its groups and their size."""
    items = threads = 1
    for size in grid:
        items *= int(size)
    for size in block or ():
        threads *= int(size)
    groups = -(-items // threads) if block else ABSENT
    return {"name": kernel.function_name, "grid": groups, "block": threads if block else ABSENT}


def of_copy(queue: Any, dest: Any, src: Any, *_: Any) -> dict[str, Any]:
    """A copy: its direction and bytes."""
    to_host, from_host = hasattr(dest, "__array_interface__"), hasattr(src, "__array_interface__")
    name = "Memcpy " + ("DtoH" if to_host else "HtoD" if from_host else "DtoD")
    side = dest if to_host else src
    size: int = side.nbytes if hasattr(side, "nbytes") else getattr(side, "size", ABSENT)
    return {"name": name, "bytes": int(size)}


def of_fill(queue: Any, mem: Any, pattern: Any, offset: Any, size: Any, *_: Any) -> dict[str, Any]:
    """A fill: its bytes."""
    return {"name": "Memset", "bytes": int(size)}
