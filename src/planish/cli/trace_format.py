"""How traces are written on the terminal: times, rates, shares, names cut to fit, tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

WIDEST = 120


def time(nanoseconds: float) -> str:
    """With a unit that leaves one to four digits before the point."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(nanoseconds) >= size:
            return f"{nanoseconds / size:,.2f} {unit}"
    return f"{nanoseconds:.0f} ns"


def bandwidth(rate: float) -> str:
    """Bytes a second with a unit that leaves digits before the point."""
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6)):
        if rate >= size:
            return f"{rate / size:,.1f} {unit}"
    return f"{rate / 1e3:,.1f} kB/s"


def share(part: float, whole: float) -> str:
    """In percent; empty where there is no whole."""
    return f"{part / whole:.1%}" if whole else ""


def room(console: Console, taken: int) -> int:
    """How long a name may be beside columns that take `taken` characters."""
    return max(24, min(WIDEST, console.width - taken))


def path_words(path: Sequence[str], width: int) -> str:
    """The inner end of a calling context, as much of it as fits."""
    if not path:
        return "(no thread ran anything that was traced)"
    words = clip(path[-1], width)
    for part in reversed(path[:-1]):
        longer = f"{clip(part, 40)} > {words}"
        if len(longer) > width:
            break
        words = longer
    return words


def clip(text: str, width: int) -> str:
    """The text, or as much of it as fits, and three dots."""
    return text if len(text) <= width else text[: width - 3] + "..."


def new_table(right: Sequence[str], left: Sequence[str] = (), *, wrap: bool = True) -> Table:
    """A plain table with columns of numbers, then of words; `wrap` lets words take more lines."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(right):
        plain = number == 0 and not name
        table.add_column(name, justify="left" if plain else "right", no_wrap=True)
    for name in left:
        table.add_column(name, no_wrap=not wrap)
    return table


def new_console() -> Console:
    """Standard output without colours of its own; long lines are the terminal's to break."""
    return Console(highlight=False, soft_wrap=True)
