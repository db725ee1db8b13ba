"""Packages that are functions of the face as well: `planish.tensor("A", (8, 8))`.

Python sets a package's name on its parent when it is imported, over a function of that name. So
the package itself answers to a call.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(package: str, function: str) -> None:
    """Let calls of the package go to a function, `module:name`, imported on first use."""
    module, _, name = function.partition(":")

    class Callable(ModuleType):
        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return getattr(importlib.import_module(module), name)(*arguments, **named)

    sys.modules[package].__class__ = Callable
