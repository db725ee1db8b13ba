"""Measuring: sizes of objects, statistics, timing. Builds nothing, searches nothing."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from planish.measure.timer import compare

__all__ = ["compare"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'planish.measure' has no attribute '{name}'")
    from planish.measure import timer

    return getattr(timer, name)
