"""Advice on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from planish.advise.advice import Advice
from planish.cli.trace_show import time


def show_advice(name: str, found: Sequence[Advice]) -> None:
    """The largest estimated gain first, each with its evidence."""
    console = Console(highlight=False, soft_wrap=True)
    if not found:
        console.print(f"{name}: nothing found that could save half a percent")
        return
    for number, advice in enumerate(found, start=1):
        gain = f"up to {advice.speedup:.2f}x, {advice.confidence.value} confidence"
        console.print(Text(f"{number}. {advice.title}"), style="bold")
        console.print(Text(f"   {gain} ({advice.rule}; {advice.source})"))
        console.print(Text(f"   where: {advice.where}"))
        console.print(Text(f"   why: {advice.detail}"))
        for seen in advice.evidence:
            console.print(
                Text(f"   at {time(seen.start)} for {time(seen.end - seen.start)}: {seen.what}"),
                style="dim",
            )
