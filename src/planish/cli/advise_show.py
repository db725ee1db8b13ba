"""Advice on the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from planish.advise.advice import Advice
from planish.advise.outcomes import Calibration
from planish.cli.trace_format import time
from planish.gpu.contexts import GpuContext


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


def show_contexts(tree: Sequence[GpuContext], top: int) -> None:
    """The tree with the samples of each context, the most first below each; `top` below a node."""
    console = Console(highlight=False, soft_wrap=True)
    below: dict[int, list[int]] = {}
    for number, node in enumerate(tree):
        below.setdefault(node.parent, []).append(number)
    whole = sum(node.own for node in tree) or 1.0

    def show(number: int, depth: int) -> None:
        node = tree[number]
        site = f" (called at instruction {node.site})" if node.site >= 0 else ""
        console.print(
            Text(f"{node.total / whole:7.1%} {node.own / whole:7.1%}  {'  ' * depth}"
                 f"{node.function}{site}")
        )  # fmt: skip
        for child in sorted(below.get(number, ()), key=lambda n: -tree[n].total)[:top]:
            show(child, depth + 1)

    console.print("  total     own  function")
    for root in sorted(below.get(-1, ()), key=lambda n: -tree[n].total)[:top]:
        show(root, 0)


def show_calibration(rows: Sequence[Calibration]) -> None:
    """A line for each rule: medians of estimates and outcomes."""
    console = Console(highlight=False, soft_wrap=True)
    if not rows:
        console.print("no outcome of advice was kept yet (planish advise BEFORE --outcome AFTER)")
        return
    console.print(
        f"{'rule':26}{'count':>6}{'estimate':>10}{'measured':>10}{'reached':>9}{'above':>7}"
    )
    for row in rows:
        console.print(
            f"{row.rule:26}{row.count:6}{row.estimate:9.2f}x{row.measured:9.2f}x{row.reached:9.0%}"
            f"{row.overrun:7}"
        )
    console.print("medians; reached: measured gain over estimated; above: faster than the bound")
