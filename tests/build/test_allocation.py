"""A budget shared among units: spent where it pays, the same whatever the order of the units."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from planish.build.allocation import DEPTHS, Allocation, Spent, observed
from planish.build.foresight import by_shares


def _spend(budget: int, sizes: dict[str, int], shares: dict[str, float]) -> Allocation:
    """Play a tuning in which a unit's rounds gain a share of its size, less each time."""
    shared = Allocation(budget, {name: Spent(size) for name, size in sizes.items()}, observed)
    while (step := shared.take()) is not None:
        name, depth, builds = step
        at = shared.units[name].rounds
        assert 0 < builds <= depth <= DEPTHS[at]
        shared.note(name, int(sizes[name] * shares[name] * 0.3**at), builds)
    return shared


_SIZES = st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 100_000), min_size=1)


@given(_SIZES, st.integers(1, 2000))
def test_the_budget_holds_and_the_order_of_units_does_not_matter(
    sizes: dict[str, int], budget: int
) -> None:
    shares = {name: (ord(name) % 5) * 0.04 for name in "abcdefgh"}
    one = _spend(budget, sizes, shares)
    other = _spend(budget, dict(reversed(sizes.items())), shares)
    assert one.spent <= budget and one.units == other.units
    assert one.left() >= 0


def test_builds_go_where_bytes_are() -> None:
    sizes = {"big": 50_000, "small": 500, "barren": 50_000}
    shared = _spend(110, sizes, {"big": 0.1, "small": 0.1, "barren": 0.0})
    assert shared.units["big"].rounds == 3 > shared.units["small"].rounds
    assert shared.units["barren"].rounds < 3


def test_it_stops_where_nothing_is_left() -> None:
    shared = _spend(10_000, {"a": 1000, "b": 1000}, {"a": 0.0, "b": 0.05})
    assert shared.spent <= 2 * DEPTHS[-1] and shared.units["a"].rounds == 2
    assert all(unit.done for unit in shared.units.values()) and shared.left() == 0


def test_foreseen_gains_come_first_and_are_corrected() -> None:
    sizes = {"rich": Spent(1000), "poor": Spent(1000), "unknown": Spent(1000)}
    expect = by_shares({"rich": 0.2, "poor": 0.02})
    assert expect("rich", sizes["rich"], sizes) == 200.0
    assert expect("poor", sizes["poor"], sizes) == 20.0
    assert expect("unknown", sizes["unknown"], sizes) == observed(
        "unknown", sizes["unknown"], sizes
    )
    # The rich one gained nothing: less is expected of the poor one, too.
    after = {**sizes, "rich": Spent(1000, (0,))}
    assert 0 < expect("poor", after["poor"], after) < 20.0
    # Later rounds go by what was observed.
    assert expect("rich", after["rich"], after) == observed("rich", after["rich"], after)
