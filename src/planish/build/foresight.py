"""What a tuning will gain, foreseen by the learned model before anything is built.

Takes the place of `allocation.observed` for a unit's first round; what units gained against what
was foreseen corrects the rest, and later rounds go by what was observed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from planish.build.allocation import DEPTHS, Expectation, Spent, observed
from planish.build.blobs import Blobs
from planish.build.units import Recorded
from planish.llvm.requests import Inspect, Job
from planish.proc.pool import Call
from planish.tune.learned import describe, load_net, promise
from planish.tune.result import lock_name
from planish.tune.session import Session
from planish.tune.source import architecture

# Units that the model's own word counts for, beside what is observed.
_WEIGHT = 4.0


def foreseen(
    session: Session, recorded: Sequence[Recorded], record: Path, goal: str, folder: Path
) -> Expectation:
    """The expectation for a recorded build; units without bitcode go by `observed`.

    folder  where the lockfile lies, from which units have their names
    Raises UsageError where no model was trained for a unit's target.
    """
    blobs = Blobs(record)
    shares: dict[str, float] = {}
    for unit in recorded:
        if not unit.bitcode:
            continue
        session.pool.keep(unit.bitcode, blobs.get(unit.bitcode))
        job = Job(unit.bitcode)
        [reply] = session.pool.run([Call((), Inspect(job), (unit.bitcode,))])
        if reply.failure is None:
            net = load_net(architecture(reply.value.triple), goal)
            looks = describe(session.pool, job)
            shares[lock_name(unit.path, folder)] = promise(net, looks, DEPTHS[0])
        session.pool.forget(unit.bitcode)
    return by_shares(shares)


def by_shares(shares: Mapping[str, float]) -> Expectation:
    """First rounds by these shares of a unit's bytes, corrected by what first rounds gained."""

    def expect(name: str, unit: Spent, units: Mapping[str, Spent]) -> float:
        if unit.rounds or name not in shares:
            return observed(name, unit, units)
        pairs = [
            (each.gains[0] / each.size, shares[other])
            for other, each in units.items()
            if each.rounds and each.size and other in shares
        ]
        mean = sum(shares.values()) / len(shares)
        gained = sum(gain for gain, _ in pairs) + _WEIGHT * mean
        thought = sum(share for _, share in pairs) + _WEIGHT * mean
        return unit.size * shares[name] * (gained / thought if thought else 1.0)

    return expect
