"""The pipeline grammar over a language model's tokens: a trie of spellings of the passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from planish.model.llm_prompt import CLOSING, spelled
from planish.search.decoding import Tokens
from planish.search.protocol import Plan, Space

# What stands between two elements, and behind the last one.
ENDINGS = (",", CLOSING)


def spellings(actions: Sequence[str]) -> dict[str, tuple[str, bool]]:
    """Text to (action, whether it ends the list): each element with a comma and with the end."""
    texts = {action: spelled(action) for action in actions}
    return {
        f"{text}{ending}": (action, ending == CLOSING)
        for action, text in texts.items()
        if text is not None
        for ending in ENDINGS
    }


@dataclass
class _Node:
    """Where a spelling has come to. `leads` holds what may still become of it."""

    children: dict[int, _Node] = field(default_factory=dict)
    leads: set[tuple[str, bool]] = field(default_factory=set)


@dataclass(frozen=True)
class _State:
    """What a prefix of tokens says: whole elements, and the node inside the next one."""

    chosen: tuple[str, ...]
    node: _Node
    ended: bool = False


class PassGrammar:
    """Legal tokens of a list of passes, of which each has one spelling: equal lists, equal tokens.

    words    what `spellings` gives, text to tokens
    space    decides which elements may follow which
    longest  most elements of a list; the published lists have 4 on average
    """

    end = -1

    def __init__(self, words: Mapping[str, Tokens], space: Space, longest: int = 12) -> None:
        self._space = space
        self._longest = longest
        actions = tuple(dict.fromkeys((*space.start.actions, *space.actions(space.start))))
        known = spellings(actions)
        self._actions = tuple(dict.fromkeys(action for action, _ in known.values()))
        self._root = _Node()
        for text, lead in known.items():
            self._insert(words[text], lead)
        self._states: dict[Tokens, _State] = {(): _State((), self._root)}
        self._next: dict[tuple[str, ...], frozenset[str]] = {}

    def legal(self, prefix: Tokens) -> list[int]:
        """Tokens that some legal list goes on with; none where the list has ended."""
        state = self._state(prefix)
        if state.ended:
            return []
        return [
            token
            for token, node in state.node.children.items()
            if any(self._allowed(state.chosen, *lead) for lead in node.leads)
        ]

    def plan(self, tokens: Tokens) -> Plan:
        """The plan of a whole list."""
        return Plan(self._state(tokens).chosen)

    def _insert(self, tokens: Tokens, lead: tuple[str, bool]) -> None:
        node = self._root
        for token in tokens:
            node = node.children.setdefault(token, _Node())
            node.leads.add(lead)

    def _state(self, prefix: Tokens) -> _State:
        found = self._states.get(prefix)
        if found is None:
            before = self._state(prefix[:-1])
            node = before.node.children[prefix[-1]]
            found = _State(before.chosen, node)
            if not node.children:
                [(action, ended)] = node.leads
                found = _State((*before.chosen, action), self._root, ended)
            self._states[prefix] = found
        return found

    def _allowed(self, chosen: tuple[str, ...], action: str, ends: bool) -> bool:
        if action not in self._following(chosen):
            return False
        longer = (*chosen, action)
        return ends or (len(longer) < self._longest and bool(self._following(longer)))

    def _following(self, chosen: tuple[str, ...]) -> frozenset[str]:
        found = self._next.get(chosen)
        if found is None:
            legal = self._space.legal
            found = frozenset(a for a in self._actions if legal((*chosen, a)))
            self._next[chosen] = found
        return found
