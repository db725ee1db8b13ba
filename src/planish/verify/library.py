"""What the C standard says of library functions, as far as LLVM's passes rely on it."""

from __future__ import annotations

# Arguments that are read whatever the others are: null there is undefined (C17 7.1.4, 7.24).
_READ: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(("strlen", "strchr", "strrchr", "atoi", "atol", "atof", "strdup"), (0,)),
    **dict.fromkeys(("strcmp", "strcpy", "strcat", "strstr", "strspn", "strcspn", "strpbrk",
                     "stpcpy", "strcasecmp"), (0, 1)),
}  # fmt: skip


def read_arguments(name: str) -> tuple[int, ...]:
    """Positions of the pointers that the function reads at least one byte from."""
    return _READ.get(name, ())


def ignores_null(name: str) -> bool:
    """Whether a call with null does nothing (C17 7.22.3.3)."""
    return name == "free"
