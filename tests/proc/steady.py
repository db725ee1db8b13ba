"""`handlers` for a cluster: loaded, they are the same on every machine."""

from __future__ import annotations

import os
from typing import Any

import handlers

factory = handlers.factory


def preload(argument: Any) -> Any:
    if argument == "each its own":
        return os.getpid()
    return handlers.preload(argument)["argument"]


def identity() -> dict[str, str]:
    return {"machine": "this"}


def another_each_time() -> dict[str, str]:
    return {"machine": str(os.getpid())}
