"""What a tuning leaves for `planish report`: one JSON file beside the recording."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from planish.base.errors import UsageError
from planish.base.files import write_atomic
from planish.build.confirm import Linked
from planish.build.tuning import Outcome, Tuned
from planish.measure.sizes import measure_object
from planish.tune.session import Options

FILE = "tuned.json"
VERSION = 1


def save(
    record: Path, tuned: Tuned, linked: Sequence[Linked], options: Options, notes: Sequence[str]
) -> None:
    """Write it; raises UsageError when it cannot be written."""
    document = {
        "version": VERSION,
        "goal": options.goal,
        "budget": str(options.budget),
        "policy": options.policy,
        "seed": options.seed,
        "builds": tuned.builds,
        "left": tuned.left,
        "curve": tuned.curve,
        "linked": [asdict(each) for each in linked],
        "notes": list(notes),
        "units": [_unit(outcome) for outcome in tuned.outcomes],
    }
    write_atomic(record / FILE, json.dumps(document))


def load(record: Path) -> dict[str, Any]:
    """The document; raises UsageError where there is none."""
    try:
        document: dict[str, Any] = json.loads((record / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UsageError("nothing was tuned here", hint="run: planish tune") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{record / FILE} cannot be read: {error}", hint="tune again") from error
    if document.get("version") != VERSION:
        raise UsageError(f"{record / FILE} is of another version", hint="tune again")
    return document


def _unit(outcome: Outcome) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "source": outcome.unit.source,
        "problem": outcome.problem,
        "own": outcome.own,
        "result": None,
        "functions": {},
    }
    if outcome.result is not None:
        result = outcome.result
        fields["result"] = result.to_json()
        if result.goal == "size":
            fields["functions"] = _functions(outcome)
    return fields


def _functions(outcome: Outcome) -> dict[str, list[int]]:
    """Bytes of each function in the build's own object and in the tuned one, where they differ."""
    assert outcome.result is not None
    own = outcome.unit.object
    before = measure_object(own.read_bytes()).functions if own.exists() else {}
    after = measure_object(outcome.result.artefact).functions
    names = [name for name in {**before, **after} if before.get(name, 0) != after.get(name, 0)]
    return {
        name.encode(errors="replace").decode(): [before.get(name, 0), after.get(name, 0)]
        for name in sorted(names)
    }
