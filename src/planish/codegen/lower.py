"""A nest to vector instructions.

Loops become loops that move pointers. Where only reduction loops and unrolled or vector loops
are left, a kernel begins: its results stay in registers until the reductions are done. A loop
whose range is not a multiple of its step is followed by its last, shorter iteration, written out
for that length; kernels for the same lengths are shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from planish.base.errors import UsageError
from planish.codegen import vir
from planish.codegen.invariant import looped
from planish.codegen.kernel import build_kernel, kernel_form
from planish.codegen.layout import Place, move, place_temporary, row_major
from planish.codegen.segments import kernel_start, segments_of
from planish.codegen.shape import Ranges, Shape
from planish.codegen.view import StageView
from planish.tensor.loops import Do, For, Nest, Node, leaves, stages_of


@dataclass(frozen=True)
class Phase:
    """A function and how often it is called, side by side.

    starts  for each call, bytes to add to each argument; behind the arrays stand temporaries
    """

    function: vir.Function
    starts: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class Lowered:
    """Phases that run one after the other, and the workspace they need (bytes).

    temporaries  where each temporary, an argument of its own, begins in the workspace
    """

    phases: tuple[Phase, ...]
    workspace: int
    temporaries: tuple[int, ...]


def lower_nest(
    nest: Nest,
    vector: int,
    strides: Mapping[str, tuple[int, ...]] | None = None,
    *,
    dot4: bool = False,
) -> Lowered:
    """The nest as functions over pointers to all inputs, all outputs and all temporaries.

    vector   bytes of the target's widest vector register
    strides  bytes by tensor name, where an argument is not contiguous
    dot4     whether the target multiplies and adds bytes by four
    Raises UsageError where the nest cannot be lowered; the caller takes another schedule.
    """
    lowering = _Lowering(nest, vector, strides or {}, dot4)
    phases = []
    serial: list[Node] = []
    for node in nest.body:
        if isinstance(node, For) and node.kind == "parallel":
            if serial:
                phases.append(lowering.serial(serial))
                serial = []
            phases.extend(lowering.parallel(node))
        else:
            serial.append(node)
    if serial or not phases:
        phases.append(lowering.serial(serial))
    return Lowered(tuple(phases), lowering.workspace, tuple(lowering.offsets.values()))


class _Lowering:
    def __init__(
        self, nest: Nest, vector: int, strides: Mapping[str, tuple[int, ...]], dot4: bool
    ) -> None:
        self.nest = nest
        self.dot4 = dot4
        self.vector = vector
        program = nest.program
        self.stages = {stage.name: stage for stage in program.stages}
        self.paths = dict(leaves(nest.body))
        self.starts = {name: kernel_start(self.stages[name], p) for name, p in self.paths.items()}
        arrays = (*program.inputs, *program.outputs)
        self.arguments = [t.name for t in (*arrays, *program.temporaries)]
        self.places: dict[str, Place] = {}
        for tensor in arrays:
            given = strides.get(tensor.name)
            self.places[tensor.name] = Place(given or row_major(tensor.shape, tensor.type.size))
        self.offsets: dict[str, int] = {}
        self.workspace = 0
        self._place_temporaries()
        self.views = {stage.name: StageView(stage, self.places) for stage in program.stages}
        # Of the function at hand: its stages' first pointers, and its kernels.
        self.function = vir.Function()
        self.first: dict[str, int] = {}
        self.kernels: dict[object, vir.Kernel] = {}

    def _place_temporaries(self) -> None:
        """One behind the other; those of one parallel iteration have a copy for each of them."""
        program = self.nest.program
        for tensor in program.temporaries:
            self.places[tensor.name] = place = place_temporary(self.nest, tensor, self.paths)
            loop = place.parallel
            copies = -(-program.extents[loop.axis] // loop.step) if loop is not None else 1
            self.offsets[tensor.name] = self.workspace
            self.workspace += _aligned(place.size) * copies

    def serial(self, nodes: Sequence[Node]) -> Phase:
        self._begin()
        ranges = dict(self.nest.program.extents)
        flags = dict.fromkeys(ranges, (True, True))
        self.function.body = self._nodes(nodes, ranges, flags, None)
        return Phase(self.function, ((0,) * len(self.arguments),))

    def parallel(self, loop: For) -> list[Phase]:
        """One function for the full iterations, one for what is left at the end."""
        extent = self.nest.program.extents[loop.axis]
        full, rest = divmod(extent, loop.step)
        phases = []
        for length, calls, base in ((loop.step, full, 0), (rest, int(bool(rest)), full)):
            if not calls or not length:
                continue
            self._begin()
            ranges = {**self.nest.program.extents, loop.axis: length}
            flags = dict.fromkeys(ranges, (True, True))
            self.function.body = self._nodes(loop.body, ranges, flags, None)
            rows = tuple(self._call_offsets(loop, base + at) for at in range(calls))
            phases.append(Phase(self.function, rows))
        return phases

    def _call_offsets(self, loop: For, at: int) -> tuple[int, ...]:
        """Bytes that an iteration of the parallel loop adds to each argument."""
        inside = [self.stages[name] for name in loop.stages]
        rows = []
        for name in self.arguments:
            if self.places[name].parallel is loop:
                rows.append(at * _aligned(self.places[name].size))
                continue
            moves = {
                move(access, self.places[name], loop.axis, at * loop.step)
                for stage in inside
                for access in (stage.out, *stage.reads)
                if access.tensor.name == name
            }
            if len(moves) > 1:
                raise UsageError(
                    f"{name} moves by different strides along the parallel loop {loop.name}"
                )
            rows.append(moves.pop() if moves else 0)
        return tuple(rows)

    def _begin(self) -> None:
        self.function = vir.Function()
        self.first = {}
        self.kernels = {}

    def _pointers(self, stage: str) -> range:
        """The numbers of the stage's pointers in this function."""
        view = self.views[stage]
        if stage not in self.first:
            self.first[stage] = len(self.function.pointers)
            for access in view.pointers:
                self.function.pointers.append(self.arguments.index(access.tensor.name))
        first = self.first[stage]
        return range(first, first + len(view.pointers))

    def _nodes(
        self,
        nodes: Sequence[Node],
        ranges: Ranges,
        flags: dict[str, tuple[bool, bool]],
        owner: str | None,
    ) -> list[vir.Item]:
        items: list[vir.Item] = []
        for node in nodes:
            names = stages_of(node)
            if len(names) == 1 and owner is None:
                pointers = tuple(self._pointers(names[0]))
                inside = self._nodes([node], ranges, flags, names[0])
                items.append(vir.Stage(names[0], pointers, inside))
            elif owner is not None and self._is_kernel(node, owner):
                items.append(self._kernel(owner, ranges, flags))
            else:
                assert isinstance(node, For)
                items.extend(self._loop(node, ranges, flags, owner))
        return items

    def _is_kernel(self, node: Node, owner: str) -> bool:
        path = self.paths[owner]
        at = self.starts[owner]
        return isinstance(node, Do) if at == len(path) else node is path[at]

    def _loop(
        self, loop: For, ranges: Ranges, flags: dict[str, tuple[bool, bool]], owner: str | None
    ) -> list[vir.Item]:
        length = ranges[loop.axis]
        full, rest = divmod(length, loop.step)
        begin, end = flags[loop.axis]
        inside = [self.stages[name] for name in loop.stages]
        peeled = any(loop.axis in stage.bound for stage in inside)
        parts = segments_of(full, rest, loop.step, (begin, end) if peeled else None)
        moves = self._moves(loop)
        segments = []
        for trips, size, flag in parts:
            inner = {**flags, loop.axis: flag or (begin, end)}
            body = self._nodes(loop.body, {**ranges, loop.axis: size}, inner, owner)
            segments.append(vir.Segment(trips, body))
        if len(segments) == 1 and segments[0].trips == 1:
            return body
        if owner is not None and segments and segments[0].trips > 1:
            return [self._around(owner, moves, segments)]
        return [vir.Loop(moves, segments)] if segments else []

    def _around(
        self, owner: str, moves: tuple[tuple[int, int], ...], segments: list[vir.Segment]
    ) -> vir.Item:
        """A loop of one stage; around a kernel without loops it becomes part of the kernel."""
        trips, inner = segments[0].trips, segments[0].body
        body = inner[0] if len(inner) == 1 else None
        if len(segments) > 2 or not isinstance(body, vir.Kernel):
            return vir.Loop(moves, segments)
        if body.looped or self.stages[owner].reduce:
            return vir.Loop(moves, segments)
        first = self._pointers(owner)[0]
        own = tuple((pointer - first, by) for pointer, by in moves)
        key = (id(body), trips, own)
        kernel = self.kernels.get(key)
        if kernel is None:
            room = 31 if self.vector == 64 else 15  # the last one is scratch
            kernel = vir.Kernel(
                owner, ("looped", body.form, trips, own), body.pointers,
                lambda: looped(body.body, trips, own, room), True,
            )  # fmt: skip
            self.kernels[key] = kernel
        if len(segments) == 1:
            return kernel
        far = tuple((pointer, by * trips) for pointer, by in moves)
        return vir.Loop(far, [vir.Segment(1, [kernel]), segments[1]])

    def _moves(self, loop: For) -> tuple[tuple[int, int], ...]:
        found = []
        for name in loop.stages:
            first = self._pointers(name)[0]
            for operand, step in self.views[name].moves(loop):
                if not self.places[operand.tensor].stays(loop):
                    found.append((first + operand.pointer, step))
        return tuple(found)

    def _kernel(
        self, owner: str, ranges: Ranges, flags: dict[str, tuple[bool, bool]]
    ) -> vir.Kernel:
        stage = self.stages[owner]
        lengths = {axis: ranges[axis] for axis in stage.all_axes}
        first = all(flags[axis][0] for axis in stage.bound)
        last = all(flags[axis][1] for axis in stage.bound)
        key = (owner, tuple(lengths.values()), first, last)
        found = self.kernels.get(key)
        if found is None:
            inner = self.paths[owner][self.starts[owner] :]
            touched = frozenset(t for name, t in self.nest.prefetch if name == owner)
            shape = Shape(inner, lengths, first, last, self.vector, touched, self.dot4)
            view = self.views[owner]
            form = kernel_form(view, shape)
            found = vir.Kernel(owner, form, len(view.pointers), lambda: build_kernel(view, shape))
            self.kernels[key] = found
        return found


def _aligned(size: int) -> int:
    return -(-size // 64) * 64
