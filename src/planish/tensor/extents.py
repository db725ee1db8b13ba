"""How long axes are: from the tensors that they index, given lengths, and windows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from planish.base.errors import UsageError
from planish.tensor.expr import Access, Expr, Index, Reduce, accesses, walk


def infer_extents(body: Expr, given: Mapping[str, int]) -> dict[str, int]:
    """Extents of all axes of an expression, those bound inside included.

    An axis that stands alone in some dimension has that dimension's length. Others get the
    largest extent that stays inside. Raises UsageError on a conflict or an access outside.
    """
    given = dict(given)
    found = accesses(body)
    for part in walk(body):
        if isinstance(part, Access | Reduce):
            given.update(part.extents)
    extents = dict(given)
    places = [(a, i, n) for a in found for i, n in zip(a.indices, a.tensor.shape, strict=True)]
    for access, index, length in places:
        if index.constant or len(index.terms) != 1 or index.terms[0][1] != 1:
            continue
        name = index.axes[0]
        if extents.setdefault(name, length) != length and extents[name] > length:
            raise UsageError(
                f"the axis '{name}' is {extents[name]} long elsewhere and {length} in {access}"
            )
        if name not in given and extents[name] != length:
            raise UsageError(
                f"the axis '{name}' is {extents[name]} long elsewhere and {length} in {access}",
                hint=f'to use a part of the tensor, give the extent: axes("{name}={length}")',
            )
    while _infer_windows(places, extents):
        pass
    for access, index, length in places:
        _check_inside(access, index, length, extents)
    return extents


def _infer_windows(places: Iterable[tuple[Access, Index, int]], extents: dict[str, int]) -> bool:
    """One more round over indices with exactly one unknown axis; whether any was found."""
    allowed: dict[str, int] = {}
    for _, index, length in places:
        open_axes = [name for name in index.axes if name not in extents]
        if len(open_axes) != 1:
            continue
        name = open_axes[0]
        step = index.coefficient(name)
        reach = index.constant + sum(
            max(0, c * (extents[n] - 1)) for n, c in index.terms if n != name
        )
        if step > 0:
            most = max(0, (length - 1 - reach) // step + 1)
            allowed[name] = min(allowed.get(name, most), most)
    extents.update(allowed)
    return bool(allowed)


def _check_inside(access: Access, index: Index, length: int, extents: Mapping[str, int]) -> None:
    absent = [name for name in index.axes if name not in extents]
    if absent:
        raise UsageError(
            f"nothing says how long the axis '{absent[0]}' in {access} is",
            hint=f'give its extent: axes("{absent[0]}=3")',
        )
    if any(extents[name] == 0 for name in index.axes):
        return
    low = index.constant + sum(min(0, c * (extents[n] - 1)) for n, c in index.terms)
    high = index.constant + sum(max(0, c * (extents[n] - 1)) for n, c in index.terms)
    if low < 0 or high >= length:
        raise UsageError(
            f"{access} reaches from {low} to {high} in a dimension of {length}",
            hint="pad the tensor: pad(x, ((1, 1), ..)), or give the axis an extent",
        )
