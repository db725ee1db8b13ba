"""Nests for which there is surely no kernel, or a hopeless one, told without compiling them."""

from __future__ import annotations

from math import prod

from planish.tensor.program import Program
from planish.tune.cursor_space import Loop, State, trips
from planish.tune.stage_rules import StageRules
from planish.tune.stage_shape import Target

_WORTH = 4  # points of an axis
_WORD = 4  # bytes; smaller elements are computed in larger ones


class CursorLimits:
    """Whether a nest is worth a build; what it lets through may still not fit.

    A stage without a vector loop is many times too slow wherever it could have one, and so is one
    whose vectors are gathered where along another axis they would lie side by side.
    """

    def __init__(self, program: Program, target: Target) -> None:
        self._target = target
        self._rules = {stage.name: StageRules(stage, target, {}) for stage in program.stages}
        self._vectors = {name: _vector_axes(rules) for name, rules in self._rules.items()}

    def __call__(self, state: State) -> bool:
        return all(self._stage(self._rules[name], loops) for name, loops in state.stages)

    def may_lead(self, state: State) -> bool:
        """Whether more actions can make it worth a build: no vector lies badly."""
        return all(
            _vector_axis(loops) in {"", *axes}
            for name, loops in state.stages
            if (axes := self._vectors[name])
        )

    def _stage(self, rules: StageRules, loops: tuple[Loop, ...]) -> bool:
        stage = rules.stage
        kept = [at for at, loop in enumerate(loops) if loop.axis not in stage.bound and loop.kind]
        axes = self._vectors[stage.name]
        if axes and _vector_axis(loops) not in axes:
            return False
        vectors = 1
        for at in kept:
            if loops[at].kind == "vector":
                if rules.stride(stage.out, loops[at].axis) != 1:
                    return False  # results of a vector lie side by side
                lanes = self._target.vector // max(_WORD, stage.out.tensor.type.size)
                vectors = -(-trips(loops, at, stage) // lanes)
        rows = prod(trips(loops, at, stage) for at in kept if loops[at].kind == "unroll")
        # Results of a reduction stay in registers, with a row of an operand beside them.
        return not stage.bound or (rows + 1) * vectors <= self._target.registers


def _vector_axis(loops: tuple[Loop, ...]) -> str:
    """Along which axis a stage has vectors, in its innermost loop if at all; "" for none."""
    return loops[-1].axis if loops and loops[-1].kind == "vector" else ""


def _vector_axes(rules: StageRules) -> set[str]:
    """Axes for vectors where there are some without gathers: results side by side, or joined at
    the end, and operands side by side or the same. Nothing where there are none: any may do.
    """
    stage = rules.stage
    return {
        axis
        for axis, extent in stage.extents.items()
        if extent >= _WORTH
        and (axis in stage.bound or rules.stride(stage.out, axis) == 1)
        and all(abs(rules.stride(access, axis)) <= 1 for access in stage.reads)
    }
