"""Training of the policy `learned` from labels: validation, the file and its card."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.llvm.features import FEATURES
from planish.model.labels import LabelTable, read_labels
from planish.model.policy_net import ARRAYS, PolicyNet, save
from planish.model.train import Shape
from planish.tune.left_out import BUILDS, Validation, leave_out, made_unsure, validate, wanted
from planish.tune.policy_training import fit, prepare, scaled

Say = Callable[[str], None]
_LARGEST_BYTES = 8 << 20


def learn_policy(labels: Path, goal: str, out: Path, shape: Shape, folds: int, say: Say) -> None:
    """Validate, train on everything, write the model and, beside it, its card (`.md`).

    folds  groups of projects that are left out in turn; 0 for no validation
    """
    training = prepare(read_labels(labels, goal))
    table = training.table
    say(
        f"{len(table.names)} programs of {len(set(table.projects))} projects, {table.broadcast} "
        f"recipes on all, {len(table.recipes) - table.broadcast} more on one each, "
        f"{len(training.actions)} actions"
    )
    found, taught = Validation(1.0, 1.0, {}), None
    if folds:
        left = leave_out(training, shape, folds, say)
        found = validate(left, say)
        taught = wanted(made_unsure(left, found.spread, found.noise))
    net = scaled(fit(training, shape, say, taught), found.spread, found.noise)
    net = replace(net, card=_card(table, goal, shape, folds, found))
    save(net, out)
    size = out.stat().st_size
    if size > _LARGEST_BYTES:
        out.unlink()
        raise UsageError(f"the model takes {size / 1e6:.1f} MB", hint="make it narrower")
    write_atomic(out.with_suffix(".md"), card_text(net, size))


def _card(
    table: LabelTable, goal: str, shape: Shape, folds: int, found: Validation
) -> dict[str, Any]:
    return {
        "goal": goal,
        "labels": table.words,
        "programs": len(table.names),
        "projects": sorted(set(table.projects)),
        "recipes on all programs": table.broadcast,
        "recipes on one program": len(table.recipes) - table.broadcast,
        "measurements": int(np.isfinite(table.ratios).sum()),
        "features": list(FEATURES),
        "clip": shape.clip,
        "shape": asdict(shape),
        "folds": folds,
        "builds": list(BUILDS),
        "saved on projects left out": {
            name: [round(value, 2) for value in values] for name, values in found.saved.items()
        },
        "spread": found.spread,
        "noise": found.noise,
        "versions": {
            "planish": "0.1.0", "python": platform.python_version(),
            "torch": metadata.version("torch"), "numpy": metadata.version("numpy"),
        },
    }  # fmt: skip


def card_text(net: PolicyNet, size: int) -> str:
    """The card for people (Markdown)."""
    card = net.card
    words = card["labels"]
    weights = sum(array.size for array in net.arrays.values())
    lines = [
        f"# Recipes for {words['architecture']}, goal {card['goal']}",
        "",
        "Written by `planish learn policy`; the policy `learned` uses it (docs/learn.md).",
        "",
        "| what | |",
        "| --- | --- |",
        f"| compiler | {words['compiler']} |",
        f"| programs | {card['programs']} of {len(card['projects'])} training projects: "
        f"{', '.join(card['projects'])} |",
        f"| recipes | {card['recipes on all programs']} built on all programs, "
        f"{card['recipes on one program']} more on the program whose search tried them |",
        f"| measurements | {card['measurements']} |",
        *(f"| {name} | {words[name]} |" for name in ("searched", "built", "checked")),
        f"| vocabulary | {len(net.actions)} actions |",
        f"| weights | {weights} in {len(ARRAYS)} arrays, {size} bytes |",
        f"| sureness | spread of the factors times {card['spread']}, noise times {card['noise']} |",
        f"| seed | {card['shape']['seed']} |",
        f"| versions | {', '.join(f'{n} {v}' for n, v in card['versions'].items())} |",
        "",
        f"Saved of the baseline by the recipes of the table, on projects left out in turn "
        f"({card['folds']} groups), %:",
        "",
        "| builds | " + " | ".join(map(str, card["builds"])) + " |",
        "| --- |" + " ---: |" * len(card["builds"]),
        *(
            f"| {name} | " + " | ".join(f"{v:.2f}" for v in values) + " |"
            for name, values in card["saved on projects left out"].items()
        ),
    ]
    return "\n".join(lines) + "\n"
