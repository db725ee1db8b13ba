"""Statements computed together: which may be, what that takes, and what a schedule does of it.

Three choices of a stage decide it: `inline=1` computes it where it is read, `epilogue=2` applies
the two statements that follow to its results before they are stored, and `fuse=1` computes it
inside the outermost loop of the stage behind it. Without them it stays a statement of its own,
with memory of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from planish.base.errors import UsageError
from planish.tensor.inlining import follower, into_reader, is_inlinable, is_readable
from planish.tensor.loops import For, Nest, path_of, plain
from planish.tensor.program import Program, Stage
from planish.tensor.schedule import Schedule, Step, step
from planish.tune.stage_rules import Choices, StageRules

Rules = Mapping[str, StageRules]
StageChoices = Mapping[str, Choices]

KEYS = ("inline", "epilogue", "fuse")
# Choices of the rules that put other loops than those over rows outermost.
BLOCKS = ("depth", "height", "outer")


def apply(nest: Nest, wanted: Sequence[Step]) -> tuple[Nest, list[Step]]:
    """The nest after some steps, and the steps."""
    done = []
    for one in wanted:
        nest = one.apply(nest)
        done.append(one)
    return nest, done


def absorb(program: Program, choices: StageChoices) -> tuple[Nest, list[Step]]:
    """The plain nest of the statements that `inline` and `epilogue` leave, and the steps.

    Raises UsageError where a choice cannot be taken, or is one of a statement that is gone.
    """
    nest, steps = plain(program), []
    for stage in program.stages:
        given = choices.get(stage.name, {})
        wanted = [step("inline", stage.name)] if given.get("inline") else []
        nest, added = apply(nest, wanted)
        steps += added
        for _ in range(given.get("epilogue", 0)):
            one = step("epilogue", stage.name, _behind(nest.program, stage.name).name)
            nest = one.apply(nest)
            steps.append(one)
    left = {stage.name for stage in nest.program.stages}
    gone = {stage.name for stage in program.stages} - left
    for name, given in choices.items():
        if name not in left and (name not in gone or set(given) != {"inline"}):
            raise UsageError(f"{name} is no statement of its own")
    return nest, steps


def _behind(program: Program, name: str) -> Stage:
    """The statement that may become the epilogue of this one."""
    stage = next((s for s in program.stages if s.name == name), None)
    found = follower(stage, program.stages, program.outputs) if stage is not None else None
    if found is None:
        raise UsageError(f"nothing follows {name} that could be its epilogue")
    return found


def rules_of(program: Program, rules: Rules) -> dict[str, StageRules]:
    """The rules of each stage; those of stages that have changed are made anew."""
    found = {}
    for stage in program.stages:
        old = rules[stage.name]
        found[stage.name] = (
            old if old.stage is stage else StageRules(stage, old.target, old.strides)
        )
    return found


def offered(program: Program) -> list[str]:
    """What `absorb` can do of a program, one choice each: `E inline=1`, `C epilogue=2`."""
    found = [f"{s.name} inline=1" for s in program.stages if _worth_inlining(s, program)]
    for stage in program.stages:
        nest, count = plain(program), 0
        while True:
            try:
                reader = _behind(nest.program, stage.name)
            except UsageError:
                break
            nest, count = step("epilogue", stage.name, reader.name).apply(nest), count + 1
            found.append(f"{stage.name} epilogue={count}")
    return found


def _worth_inlining(stage: Stage, program: Program) -> bool:
    if not is_inlinable(stage, program.stages, program.outputs):
        return False
    readers = (s for s in program.stages if any(a.tensor == stage.out.tensor for a in s.reads))
    return all(is_readable(into_reader(stage, reader)) for reader in readers)


class _Apart(UsageError):
    """A stage that cannot have the loops of the one behind it, `consumer`."""

    def __init__(self, consumer: str, why: str) -> None:
        super().__init__(why)
        self.consumer = consumer


def stage_steps(program: Program, rules: Rules, choices: StageChoices) -> dict[str, list[Step]]:
    """Each stage's own steps; a stage that is to be fused gets the loops that it will share.

    Where the blocks that the rules choose for the stage behind it stand in the way, that one is
    walked along its rows. Raises UsageError where no loops can be shared.
    """
    taken = dict(choices)
    while True:
        try:
            return _stage_steps(program, rules, taken)
        except _Apart as error:
            name, given = error.consumer, taken.get(error.consumer, {})
            by_rows = {key: 0 for key in BLOCKS if rules[name].choices().get(key)}
            if by_rows.keys() <= given.keys():
                raise
            taken[name] = {**by_rows, **given}


def _stage_steps(program: Program, rules: Rules, choices: StageChoices) -> dict[str, list[Step]]:
    found: dict[str, list[Step]] = {}
    behind = ""
    for stage in reversed(program.stages):
        given = choices.get(stage.name, {})
        found[stage.name] = rules[stage.name].steps(given)
        asked = given.get("fuse", 0)
        if asked and behind:
            around = path_of(apply(plain(program), found[behind])[0], behind)
            if asked > len(around):
                raise UsageError(f"{behind} lies in {len(around)} loops, not in {asked}")
            shared = around[:asked]
            _check_sums(program.stage(behind), shared)
            found[stage.name] = _within(program, rules[stage.name], given, behind, shared)
        behind = stage.name
    return found


def _check_sums(stage: Stage, shared: Sequence[For]) -> None:
    """Parts of a sum are kept in the output from one shared loop's trip to the next."""
    parts = next((loop.name for loop in shared if loop.axis in stage.bound), "")
    if parts and stage.out.type != stage.body.type:
        why = f"{stage.name} is stored as {stage.out.type}, which cannot keep sums over {parts}"
        raise _Apart(stage.name, why)


def _within(
    program: Program, rules: StageRules, given: Choices, behind: str, around: Sequence[For]
) -> list[Step]:
    """The stage's steps with these loops outermost; blocks that would not agree are left out."""
    name = rules.stage.name
    wanted = [loop.name for loop in around]
    if _begins(program, name, rules.steps(given), wanted):
        return rules.steps(given)
    foreign = next((loop.axis for loop in around if loop.axis not in rules.stage.axes), "")
    if foreign:
        raise _Apart(behind, f"{name} has no loop over {foreign} that could be shared")
    if any(loop.kind in ("vector", "unroll") for loop in around):
        raise _Apart(behind, f"{name} cannot be computed inside a tile of registers")
    steps = rules.steps({**_agreeing(rules, around), **given})
    nest = apply(plain(program), steps)[0]
    for loop in around:
        if loop.name not in [own.name for own in path_of(nest, name)]:
            nest, added = apply(nest, [step("split", name, loop.axis, loop.step)])
            steps += added
    path = [own.name for own in path_of(nest, name)]
    moved = path[: 1 + max(path.index(each) for each in wanted)]
    if moved != wanted:
        rest = [each for each in moved if each not in wanted]
        steps.append(step("reorder", name, *wanted, *rest))
    return steps


def _begins(program: Program, name: str, steps: Sequence[Step], wanted: Sequence[str]) -> bool:
    path = path_of(apply(plain(program), steps)[0], name)
    return [loop.name for loop in path[: len(wanted)]] == list(wanted)


def _agreeing(rules: StageRules, around: Sequence[For]) -> dict[str, int]:
    """Choices with which the stage's tile divides the blocks that it is computed in."""
    blocks = {loop.axis: loop.step for loop in around}
    found = dict.fromkeys((*BLOCKS, "pack"), 0)
    chosen = rules.choices()
    for key, axis, unit in (("rows", rules.rows_axis, 1), ("vectors", rules.vector, rules.lanes)):
        if key in chosen and axis in blocks:
            fitting = [n for n in range(1, chosen[key] + 1) if blocks[axis] % (n * unit) == 0]
            found[key] = max(fitting, default=1)
    return {key: value for key, value in found.items() if key in chosen}


def fused_words(schedule: Schedule) -> list[str]:
    """What a schedule computes together, in words: one entry a decision."""
    return list(_words(schedule))


def _words(schedule: Schedule) -> Iterator[str]:
    depth: dict[tuple[str, str], list[str]] = {}
    for one in schedule.steps:
        if one.name == "inline":
            yield f"{one.words[0]} is computed where it is read"
        elif one.name == "epilogue":
            yield f"{one.words[1]} is the epilogue of {one.words[0]}"
        elif one.name == "fuse":
            producer, consumer, loop = one.words
            depth.setdefault((producer, consumer), []).append(loop)
    for (producer, consumer), loops in depth.items():
        yield f"{producer} is computed in the loop {' '.join(loops)} of {consumer}"
