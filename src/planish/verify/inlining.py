"""Which callees have to be executed: those that one version calls and the other has inlined."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

from planish.verify.ir import Function
from planish.verify.specialised import knows_callers

_MOST_INSTRUCTIONS = 1500
_MOST_CALLEES = 24

Find = Callable[[str], Function | None]


def choose(
    source: Function, target: Function, find_source: Find, find_target: Find
) -> tuple[dict[str, Function], dict[str, Function]]:
    """Bodies to execute, for the source and for the target.

    A callee that is recursive, has no body that can be read, or would make too much of it stays a
    question to the world.
    """
    ours: dict[str, Function] = {}
    theirs: dict[str, Function] = {}
    refused: set[str] = set()
    while len(ours.keys() | theirs.keys()) < _MOST_CALLEES:
        before, after = _calls(source, ours), _calls(target, theirs)
        names = [
            name
            for name in sorted(before.keys() | after.keys())
            if name not in refused
            and (before[name] != after[name] or _changed(find_source(name), find_target(name)))
        ]
        if not names:
            break
        for name in names:
            refused.add(name)
            for bodies, find, root in ((ours, find_source, source), (theirs, find_target, target)):
                body = find(name)
                if body is not None and name != root.name and _fits(root, bodies, body):
                    bodies[name] = body
    return ours, theirs


def _changed(before: Function | None, after: Function | None) -> bool:
    """Passes have given the callee other arguments or another result, or fitted it to callers."""
    if before is None or after is None:
        return False
    if knows_callers(before, after):
        return True
    types = [[p.type for p in one.parameters] + [one.result] for one in (before, after)]
    return types[0] != types[1]


def _fits(root: Function, bodies: Mapping[str, Function], body: Function) -> bool:
    recursive = body.name in direct_calls(body)
    size = root.size + sum(other.size for other in bodies.values()) + body.size
    return not recursive and size <= _MOST_INSTRUCTIONS


def direct_calls(function: Function) -> Counter[str]:
    """How often each function is called by name, intrinsics left out."""
    return Counter(
        instruction.name
        for block in function.blocks
        for instruction in block.instructions
        if instruction.op == "call" and not instruction.name.startswith("llvm.")
    )


def _calls(function: Function, bodies: Mapping[str, Function]) -> Counter[str]:
    """Calls that are left when the bodies are put in place of calls."""
    found: Counter[str] = Counter()
    waiting = [(function, frozenset({function.name}), 1)]
    while waiting:
        now, path, times = waiting.pop()
        for name, count in direct_calls(now).items():
            body = bodies.get(name)
            if body is None or name in path:
                found[name] += times * count
            else:
                waiting.append((body, path | {name}, times * count))
    found.pop("", None)
    return found
