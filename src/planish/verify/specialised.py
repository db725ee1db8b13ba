"""Local functions that passes fitted to what their callers pass.

Alone they do not refine what they were; the callers, which execute them, show whether they do
where it counts.
"""

from __future__ import annotations

from planish.verify.ir import Function, Local


def knows_callers(source: Function, target: Function) -> bool:
    """Whether the target relies on what the callers of a local function pass: it promises more of
    an argument, or leaves one unused that the source uses."""
    if "local" not in source.flags or len(source.parameters) != len(target.parameters):
        return False
    ours, theirs = _used(source), _used(target)
    return any(
        {"range", "nonnull", "noalias"} & (b.flags - a.flags)
        or b.dereferenceable > a.dereferenceable
        or (a.number in ours and b.number not in theirs)
        for a, b in zip(source.parameters, target.parameters, strict=True)
    )


def _used(function: Function) -> set[int]:
    return {
        operand.value.number
        for block in function.blocks
        for instruction in block.instructions
        for operand in instruction.operands
        if isinstance(operand.value, Local)
    }
