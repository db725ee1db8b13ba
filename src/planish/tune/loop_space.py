"""The space of schedules: changes to what the rules choose for each stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise

from planish.base.errors import UsageError
from planish.search.protocol import Plan
from planish.tensor.program import Program
from planish.tensor.schedule import Schedule
from planish.tune.default_schedule import assemble, may_fuse
from planish.tune.fusing import KEYS, absorb, offered, rules_of
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import Target

# Loops in which a stage may lie with its consumer.
_DEEPEST = 3


class LoopSpace:
    """An action is one choice of one stage: `C rows=8`. The start is the rules' own schedule.

    Which statements are computed together is a choice of a stage, too: see `fusing`.

    A plan names each choice at most once, in a fixed order, so that equal plans are equal texts.
    """

    def __init__(self, program: Program, target: Target, threads: int = 1) -> None:
        self.program = program
        self.threads = threads
        self.rules = {s.name: StageRules(s, target, {}) for s in program.stages}
        self._schedules: dict[tuple[str, ...], Schedule | None] = {}
        self._left: dict[tuple[str, ...], dict[str, StageRules] | None] = {}

    @property
    def start(self) -> Plan:
        """No change."""
        return Plan()

    @cached_property
    def all_actions(self) -> tuple[str, ...]:
        """Every choice that differs from the rules', sorted."""
        found: set[str] = set()
        for absorbing in self._absorbing:
            left = self._rules_left(absorbing)
            for name, rules in left.items() if left is not None else ():
                chosen = rules.choices()
                for key, values in rules.domain().items():
                    found.update(f"{name} {key}={v}" for v in values if v != chosen[key])
        return tuple(sorted({*found, *(a for plan in self.fused for a in plan.actions)}))

    @cached_property
    def fused(self) -> tuple[Plan, ...]:
        """The rules' choices with statements computed together otherwise than the rules say."""
        found = [Plan(actions) for actions in self._absorbing if actions]
        found += [
            plan for way in self._fewest if way in self._absorbing for plan in self._depths(way)
        ]
        return tuple(dict.fromkeys(found))

    @cached_property
    def _absorbing(self) -> tuple[tuple[str, ...], ...]:
        """Ways to have fewer statements: none, each by itself, many together."""
        single = offered(self.program)
        ways = [*self._fewest, *((action,) for action in single)]
        inlined = self._fewest[1]
        if inlined and self.schedule(inlined) is not None:
            program = absorb(self.program, choices_of(inlined))[0].program
            new = (action for action in offered(program) if action not in single)
            ways += [tuple(sorted((*inlined, action))) for action in new]
        return tuple(dict.fromkeys(w for w in ways if self.schedule(w) is not None))

    @cached_property
    def _fewest(self) -> tuple[tuple[str, ...], ...]:
        """No statement less, all into their readers that may be, all epilogues that may be."""
        single = offered(self.program)
        # Of one stage the deepest is offered last.
        deepest = {a.split()[0]: a for a in single if _key(a) == "epilogue"}
        inlined = (a for a in single if _key(a) == "inline")
        return ((), tuple(sorted(inlined)), tuple(sorted(deepest.values())))

    def _depths(self, absorbing: tuple[str, ...]) -> list[Plan]:
        """Other depths at which a stage may be computed with the next one, besides the rules'."""
        schedule = self.schedule(absorbing)
        assert schedule is not None
        usual = {s.words[0] for s in schedule.steps if s.name == "fuse"}
        program = absorb(self.program, choices_of(absorbing))[0].program
        found = []
        for producer, consumer in pairwise(program.stages):
            if not may_fuse(program, producer, consumer):
                continue
            for depth in range(min(_DEEPEST, len(consumer.axes)) + 1):
                actions = tuple(sorted((*absorbing, f"{producer.name} fuse={depth}")))
                if depth != int(producer.name in usual) and self.legal(actions):
                    found.append(Plan(actions))
        return found

    def _rules_left(self, actions: Sequence[str]) -> dict[str, StageRules] | None:
        """The rules of the statements that a plan leaves; None where it cannot be taken."""
        absorbing = tuple(a for a in actions if _key(a) in ("inline", "epilogue"))
        if absorbing not in self._left:
            try:
                program = absorb(self.program, choices_of(absorbing))[0].program
                self._left[absorbing] = rules_of(program, self.rules)
            except UsageError:
                self._left[absorbing] = None
        return self._left[absorbing]

    def actions(self, plan: Plan) -> Sequence[str]:
        """All of them: any may stand somewhere."""
        return self.all_actions

    def legal(self, actions: Sequence[str]) -> bool:
        """Whether they are sorted, no choice is made twice, and the schedule can be applied."""
        keys = [action.split("=")[0] for action in actions]
        if list(actions) != sorted(actions) or len(set(keys)) != len(keys):
            return False
        left = self._rules_left(actions)
        if left is None:
            return False
        chosen = choices_of(actions)
        if not all(rules.fits(chosen.get(name, {})) for name, rules in left.items()):
            return False
        return self.schedule(tuple(actions)) is not None

    def schedule(self, actions: tuple[str, ...]) -> Schedule | None:
        """The schedule of a plan; None where a step may not be taken."""
        if actions not in self._schedules:
            try:
                self._schedules[actions] = self._make(actions)
            except UsageError:
                self._schedules[actions] = None
        return self._schedules[actions]

    def _make(self, actions: Sequence[str]) -> Schedule:
        return assemble(self.program, self.rules, choices_of(actions), self.threads)[0]


def choices_of(actions: Sequence[str]) -> dict[str, dict[str, int]]:
    """What actions choose, by stage."""
    given: dict[str, dict[str, int]] = {}
    for action in actions:
        stage, _, choice = action.partition(" ")
        key, _, value = choice.partition("=")
        given.setdefault(stage, {})[key] = int(value)
    return given


def fuses(action: str) -> bool:
    """Whether the action is about which statements are computed together."""
    return _key(action) in KEYS


def _key(action: str) -> str:
    return action.partition(" ")[2].partition("=")[0]


def describe(plan: Plan) -> str:
    """A plan as one line, for the store."""
    return "; ".join(plan.actions) or "the rules"
