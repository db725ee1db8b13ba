"""What a processor's vector units offer beyond the instructions that all of their width have."""

from __future__ import annotations

from typing import NamedTuple

from planish.measure.machine import processor


class Units(NamedTuple):
    """Of a target; none for code that is to run on any machine of its kind.

    dot4   bytes are multiplied and added by four (VNNI)
    apart  additions and minima share units that multiply-adds do not use (AMD's Zen, by its
           optimisation guides: pipes 2 and 3, and 0 and 1). Sums are then better made as a
           multiply-add, `b * 1 + a`, where minima or sums follow; the result is the same.
    """

    dot4: bool = False
    apart: bool = False


def units_here(vector: int) -> Units:
    """This machine's, for vectors of so many bytes."""
    return Units(has_dot4(vector), processor().name.startswith("AMD"))


def has_dot4(vector: int) -> bool:
    """Whether this machine multiplies and adds bytes by four, in vectors of so many bytes."""
    name = "avx512_vnni" if vector == 64 else "avx_vnni"
    return name in processor().features
