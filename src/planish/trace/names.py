"""Names of kernels as people read them."""

from __future__ import annotations

_ANONYMOUS = "(anonymous namespace)"
_STAND_IN = "{anonymous}"
_OPERATOR = "operator()"


def short(name: str) -> str:
    """A kernel's name without its arguments; template arguments stay, they choose the code.

    `void f<int, (E)2>(float*)` is `f<int, (E)2>`: a parenthesis inside template arguments is a
    cast, or the signature of a lambda.
    """
    if name.startswith(("Memcpy", "Memset")):
        return name
    text = name.removeprefix("void ").replace(_ANONYMOUS, _STAND_IN)
    return text[: _arguments(text)].replace(_STAND_IN, _ANONYMOUS).strip() or name


def _arguments(text: str) -> int:
    """Where the list of arguments begins: the first parenthesis outside of template arguments."""
    depth = 0
    for place, letter in enumerate(text):
        if letter == "<":
            depth += 1
        elif letter == ">" and text[place - 1 : place] != "-":
            depth -= 1
        elif letter == "(" and depth <= 0 and not _is_operator(text, place):
            return place
    # comparisons and shifts in template arguments leave the depth uneven
    return text.find("(") if depth and "(" in text else len(text)


def _is_operator(text: str, place: int) -> bool:
    """Whether a parenthesis belongs to `operator()`, the name of a function."""
    name = place - len("operator")
    return name >= 0 and text.startswith(_OPERATOR, name)
