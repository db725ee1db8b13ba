"""What a verdict on a function can depend on, as a hash: its text and all that it refers to.

Numbers of metadata and attribute groups, which change with every edit elsewhere in the module, are
replaced by the hashes of what they stand for; names stay. Debug information is left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from planish.base.hashing import digest

_NAME = r'"(?:[^"\\]|\\.)*"|[-\w.$]+'
_START = re.compile(
    rf"^(?:(?P<define>define) [^\n]*?(?P<function>@(?:{_NAME}))\("
    rf"|declare [^\n]*?(?P<declared>@(?:{_NAME}))\("
    rf"|(?P<named>[@%](?:{_NAME})) = |attributes (?P<group>#\d+) = |(?P<node>!\d+) = )"
)
_REFERENCE = re.compile(rf"[@%](?:{_NAME})|#\d+|!\d+")
_DEBUG = re.compile(r", !dbg !\d+|^ +#dbg_[^\n]*\n", re.M)
_NUMBERED = re.compile(r"[#!]\d+|@\d+$")


@dataclass
class _Graph:
    """Tarjan's search for strongly connected components; each is hashed when it is complete."""

    texts: Mapping[str, str]
    hashes: dict[str, str] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    low: dict[str, int] = field(default_factory=dict)
    stack: list[str] = field(default_factory=list)


def cones(text: str) -> dict[str, str]:
    """Hash by name of every function with a body in a module's text."""
    texts: dict[str, str] = {}
    bodies: list[str] = []
    for key, body, has_body in _entities(text):
        texts[key] = body
        if has_body:
            bodies.append(key)
    head = [line for line in text.split("\n", 8)[:8] if line.startswith("target ")]
    graph = _Graph(texts)
    for key in bodies:
        _hash(graph, key)
    return {_plain(key): digest(*head, graph.hashes[key]) for key in bodies}


def _entities(text: str) -> Iterator[tuple[str, str, bool]]:
    """(name with its sigil, text, whether it is a function with a body)."""
    lines = iter(text.split("\n"))
    for line in lines:
        match = _START.match(line)
        if match is None:
            continue
        if not match["define"]:
            key = match["declared"] or match["named"] or match["group"] or match["node"]
            yield key, line, False
            continue
        whole = [line]
        for inner in lines:
            whole.append(inner)
            if inner == "}":
                break
        yield match["function"], _DEBUG.sub("", "\n".join(whole)), True


def _plain(key: str) -> str:
    name = key[1:]
    if not name.startswith('"'):
        return name
    raw = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), name[1:-1].encode())
    return raw.decode(errors="surrogateescape")


def _hash(graph: _Graph, key: str) -> None:
    graph.order[key] = graph.low[key] = len(graph.order)
    graph.stack.append(key)
    for other in _references(graph, key):
        if other not in graph.order:
            _hash(graph, other)
            graph.low[key] = min(graph.low[key], graph.low[other])
        elif other not in graph.hashes:
            graph.low[key] = min(graph.low[key], graph.order[other])
    if graph.low[key] == graph.order[key]:
        at = graph.stack.index(key)
        members, graph.stack = graph.stack[at:], graph.stack[:at]
        whole = sorted(_text(graph, member) for member in members)
        found = {member: digest(_text(graph, member), *whole) for member in members}
        graph.hashes.update(found)


def _references(graph: _Graph, key: str) -> list[str]:
    found = dict.fromkeys(_REFERENCE.findall(graph.texts[key]))
    return [other for other in found if other in graph.texts]


def _text(graph: _Graph, key: str) -> str:
    """The text with what it refers to by hash; within a component, numbers are no names."""

    def shown(match: re.Match[str]) -> str:
        other = match[0]
        if other not in graph.texts:
            return other
        name = "" if _NUMBERED.fullmatch(other) else other
        return name + graph.hashes.get(other, "")

    return _REFERENCE.sub(shown, graph.texts[key])
