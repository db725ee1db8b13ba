"""Command lines as words, some of which stand for a value that is the next word."""

from __future__ import annotations

TYPE_CHECKING = False  # `planish cc` starts a thousand times in a build; typing is slow to load
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable


def without(
    words: Iterable[str],
    *,
    valued: Container[str],
    dropped_valued: Container[str],
    dropped: Callable[[str], bool],
) -> list[str]:
    """The words without those that are dropped, and their values.

    valued          words whose next word is their value, whatever it looks like
    dropped_valued  of such words those that go, with their values
    dropped         of words without a value, those that go
    """
    kept: list[str] = []
    left = iter(words)
    for word in left:
        if word in dropped_valued:
            next(left, None)
        elif word in valued:
            kept += [word, *(value for value in [next(left, None)] if value is not None)]
        elif not dropped(word):
            kept.append(word)
    return kept
