"""A profile on the terminal; on standard error, because standard output is the program's."""

from __future__ import annotations

import sys

from planish.measure.energy import Clocks, clocks
from planish.measure.profile import Profile


def show_profile(found: Profile) -> None:
    """Seconds, and a line for each meter."""
    out = sys.stderr
    print(
        f"{found.seconds:.2f} s, exit code {found.code}; {found.cpu:.2f} s of processor time"
        f" ({found.utilisation:.2f} processors busy), {found.memory / 1e6:,.0f} MB of memory",
        file=out,
    )
    for series, spent in zip(found.series, found.energy, strict=True):
        note = "" if spent.covered > 0.99 else f", {spent.covered:.0%} of the time covered"
        if series.utilisation is not None:
            note += f", busy {series.utilisation:.0%} of the time"
        print(
            f"{series.name}: {spent.joules:.1f} J, {spent.watts:.1f} W on average{note}", file=out
        )
        for flag, count in series.flags.items():
            print(f"  {flag} in {count} of {len(series.times)} samples", file=out)
        clock = clocks(series)
        if clock is not None:
            print(f"  {_clock_words(clock)}", file=out)
        if series.failed:
            print(f"  {series.failed} samples failed", file=out)
    if not found.series:
        print("no energy meter can be read on this machine", file=out)
    for why in found.missing:
        print(f"missing: {why}", file=out)


def _clock_words(clock: Clocks) -> str:
    if not clock.changes:
        return f"clock {clock.mean:,.0f} MHz throughout"
    slow = f", slow in {clock.slow:.0%} of the samples" if clock.slow else ""
    return (
        f"clock changed {clock.changes} times: {clock.least:,.0f} to {clock.most:,.0f} MHz,"
        f" {clock.mean:,.0f} on average{slow}"
    )
