"""The stand-in for `typing.NamedTuple` does what that one does, as far as it is used."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import planish
from planish.base.light import NamedTuple

_SOURCES = Path(planish.__file__).parents[1]


class Pair(NamedTuple):
    first: int
    second: tuple[str, ...] = ("a",)


def test_fields_defaults_and_equality() -> None:
    pair = Pair(1)
    assert (pair.first, pair.second) == pair == Pair(first=1, second=("a",)) == (1, ("a",))
    assert pair != Pair(2) and hash(pair) == hash(Pair(1))
    assert pair._replace(first=3) == Pair(3) and pair.first == 1
    assert repr(pair) == "Pair(first=1, second=('a',))"
    assert pickle.loads(pickle.dumps(pair)) == copy.deepcopy(pair) == pair
    first, second = pair
    assert (first, second) == (1, ("a",))


@pytest.mark.parametrize(
    ("values", "named"), [((), {}), ((1, (), 2), {}), ((1,), {"first": 1}), ((1,), {"third": 1})]
)
def test_wrong_fields_are_refused(values: tuple[object, ...], named: dict[str, object]) -> None:
    with pytest.raises(TypeError, match="first, second"):
        Pair(*values, **named)  # type: ignore[arg-type]


def test_the_client_of_a_replay_imports_next_to_nothing() -> None:
    bare = _loaded("sys")
    heavy = {"typing", "re", "enum", "collections", "dataclasses", "pathlib", "subprocess"}
    assert not heavy & (_loaded("planish.entry, planish.build.cc, planish.proc.client") - bare)


def _loaded(names: str) -> set[str]:
    """What is loaded by a process that imports these."""
    command = f"import sys; sys.path.insert(0, {str(_SOURCES)!r}); import {names}"
    words = [sys.executable, "-I", "-c", f"{command}; print(*sys.modules)"]
    return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())
