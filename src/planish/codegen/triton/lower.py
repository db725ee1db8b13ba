"""`lower_program`: a tensor program to a sequence of Triton kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from planish.base.errors import UsageError, unknown
from planish.codegen.triton.attention import emit_attention
from planish.codegen.triton.contraction import emit_contraction
from planish.codegen.triton.match_attention import as_attention
from planish.codegen.triton.match_contraction import as_contraction
from planish.codegen.triton.match_rows import as_rows
from planish.codegen.triton.plan import Plan, simplify
from planish.codegen.triton.rows import emit_rows
from planish.codegen.triton.source import PRECISIONS, Config, KernelSource, Numbers
from planish.codegen.triton.tiles import emit_tiles, splits
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, Stage

Strides = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Lowered:
    """Kernels in order, with the temporaries that lie in memory between them."""

    kernels: tuple[KernelSource, ...]
    temporaries: tuple[Tensor, ...]
    configs: Mapping[str, Config]

    @property
    def source(self) -> str:
        """All kernels' text, one after the other."""
        return "\n\n".join(kernel.text for kernel in self.kernels)


def lower_program(
    program: Program,
    *,
    configs: Mapping[str, Config] | None = None,
    strides: Strides | None = None,
    precision: str = "ieee",
    f8: bool = True,
) -> Lowered:
    """The kernels of a program.

    configs    choices by the name of the kernel's result; rules choose where there is none
    strides    elements, by tensor; row-major where not given
    precision  of products of f32: ieee (no tensor cores), tf32, tf32x3; `narrow` also rounds what
               is computed in f32 to 16 bits where the other factor is stored in 16
    f8         whether the target multiplies f8; else they are widened to f16 first
    Raises UsageError for what has no lowering, with the reason.
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, list(PRECISIONS))
    given = dict(configs or {})
    steps = dict(strides or {})
    _check(program)
    plan = simplify(program)
    numbers = Numbers(precision, f8)
    kernels: list[KernelSource] = []
    used: dict[str, Config] = {}
    for group in groups(plan, numbers, steps):
        key = group[-1].out.tensor.name
        config = given.pop(key, Config())
        made = _emit(group, plan, config, steps, numbers)
        used[key] = made[0].config
        kernels += made
    if given:
        raise unknown("kernel", sorted(given)[0], list(used))
    known = {*program.inputs, *program.outputs}
    between = dict.fromkeys(t for k in kernels for t in k.tensors if t not in known)
    return Lowered(tuple(kernels), tuple(between), used)


def _check(program: Program) -> None:
    for tensor in (*program.inputs, *program.outputs):
        if prod(tensor.shape) == 0:
            raise UsageError(
                f"{tensor.name} is empty ({list(tensor.shape)}): a kernel would have no blocks",
                hint="compile it for the CPU, or leave the call out",
            )


def groups(plan: Plan, numbers: Numbers, strides: Strides) -> list[tuple[Stage, ...]]:
    """Statements that become one kernel each, in order."""
    found: list[tuple[Stage, ...]] = []
    waiting = list(plan.stages)
    while waiting:
        attention = as_attention(waiting, plan.outputs, strides, numbers)
        if attention is not None:
            found.append(attention.stages)
            waiting = waiting[len(attention.stages) :]
            continue
        size = 1
        if as_contraction(waiting[0], numbers, strides) is None:
            while size < len(waiting) and as_rows(waiting[: size + 1], plan.outputs) is not None:
                size += 1
        found.append(tuple(waiting[:size]))
        waiting = waiting[size:]
    return found


def _emit(
    group: tuple[Stage, ...], plan: Plan, config: Config, strides: Strides, numbers: Numbers
) -> list[KernelSource]:
    name = f"{group[-1].out.tensor.name}_kernel"
    if len(group) > 1:
        attention = as_attention(group, plan.outputs, strides, numbers)
        if attention is not None:
            _refuse(config, name, "group", "split", "persistent")
            return [emit_attention(attention, config, strides, name)]
        rows = as_rows(group, plan.outputs)
        assert rows is not None
        _refuse(config, name, "group", "split")
        later = {a.tensor for s in plan.stages if s not in group for a in s.reads}
        return [emit_rows(rows, config, strides, name, {*plan.outputs, *later})]
    contraction = as_contraction(group[0], numbers, strides)
    if contraction is not None:
        return emit_contraction(contraction, config, strides, name)
    _refuse(config, name, "group", "persistent", *(() if splits(group[0]) else ("split",)))
    return emit_tiles(group[0], config, strides, name)


def _refuse(config: Config, name: str, *choices: str) -> None:
    """Raises UsageError where one is made that this kind of kernel does not know."""
    for choice in choices:
        if getattr(config, choice) > 1:
            raise UsageError(
                f"{name} has no choice of '{choice}': it is no such kernel", hint="leave it out"
            )
