"""What a pool is asked and answers, and the order in which it asks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from planish.base.records import Failure


@dataclass(frozen=True)
class Call:
    """One request for a worker of one flavour.

    blobs  data the request needs, by key; sent to a worker once and kept there
    """

    flavour: Hashable
    request: Any
    blobs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What came back: a value, or a failure with its reason."""

    value: Any = None
    failure: Failure | None = None
    reason: str = ""


class Queue:
    """The calls to come; those whose zygote died come once more, with no other beside them."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._waiting = iter(enumerate(calls))
        self._orphans: list[tuple[int, Call]] = []
        self._alone: int | None = None

    def next(self, busy: bool) -> tuple[int, Call] | None:
        """The next call; none where what is in flight has to come back first."""
        if busy and (self._orphans or self._alone is not None):
            return None
        if not self._orphans:
            self._alone = None
            return next(self._waiting, None)
        following = self._orphans.pop(0)
        self._alone = following[0]
        return following

    def again(self, index: int, call: Call) -> bool:
        """Put a call back; False where it came back from being alone."""
        if index == self._alone:
            return False
        self._orphans.append((index, call))
        return True
