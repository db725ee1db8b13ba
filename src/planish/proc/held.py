"""What this process has loaded for workers: a fork of it is a zygote already."""

from __future__ import annotations

import importlib
from typing import Any

# Handler to its argument, its factory and what its module's `preload` gave.
_held: dict[str, tuple[Any, Any, Any]] = {}


def load(handler: str, argument: Any) -> tuple[Any, Any]:
    """The handler's factory, and what its module's `preload` gave; loaded once in a process."""
    if not holds(handler, argument):
        module, name = handler.split(":")
        loaded = importlib.import_module(module)
        _held[handler] = (argument, getattr(loaded, name), loaded.preload(argument))
    _, factory, info = _held[handler]
    return factory, info


def holds(handler: str, argument: Any) -> bool:
    """Whether the handler is loaded for this argument."""
    return handler in _held and _held[handler][0] == argument
