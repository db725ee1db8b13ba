"""Kernels run on the CPU by Triton's interpreter, with every access checked.

Tensors lie apart, with room around them; an access by an active lane that is not inside of one is
an error with the kernel's line and the lanes. The interpreter multiplies bf16 as whole numbers
(Triton 3.9), so that `dot` is put right here: operands widened to f32 and products summed there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from planish.tensor.small_floats import decode

if TYPE_CHECKING:
    from planish.tune.gpu_worker import Interpret

Array = np.ndarray[Any, Any]

_ROOM = 4096
_SHOWN = 4
_KINDS = {
    "f32": "float32", "f64": "float64", "f16": "float16", "bf16": "uint16", "i8": "int8",
    "u8": "uint8", "i16": "int16", "i32": "int32", "i64": "int64", "bool": "uint8",
    "f8e4m3": "uint8", "f8e5m2": "uint8",
}  # fmt: skip


class Memory:
    """Tensors, each inside of a larger array, so that no two touch."""

    def __init__(self) -> None:
        self._kept: list[Array] = []
        self.arrays: dict[str, Array] = {}
        self._starts = np.zeros(0, np.uint64)
        self._ends = np.zeros(0, np.uint64)

    def add(self, name: str, shape: tuple[int, ...], type_name: str, given: Array | None) -> None:
        """A tensor with these elements, or with poison: NaN for floats."""
        dtype = np.dtype(_KINDS[type_name])
        size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        whole = np.full(size + 2 * _ROOM, 0xFF, np.uint8)
        offset = _ROOM - whole.ctypes.data % 16 % _ROOM
        part = whole[offset : offset + size].view(dtype).reshape(shape)
        if given is not None:
            part[...] = given.view(dtype) if given.dtype == np.bool_ else given
        elif type_name not in ("f32", "f64", "f16", "bf16", "f8e4m3", "f8e5m2"):
            part[...] = np.full(1, 0xA5, np.uint8).view(np.uint8).astype(dtype)
        self._kept.append(whole)
        self.arrays[name] = part
        starts = sorted((a.ctypes.data, a.ctypes.data + a.nbytes) for a in self.arrays.values())
        self._starts = np.array([s for s, _ in starts], np.uint64)
        self._ends = np.array([e for _, e in starts], np.uint64)

    def outside(self, addresses: Array, mask: Array, size: int) -> Array:
        """For each lane whether it is active and not inside of a tensor."""
        at = np.searchsorted(self._starts, addresses, side="right").astype(np.int64) - 1
        ends = self._ends[np.maximum(at, 0)]
        inside = (at >= 0) & (addresses + np.uint64(size) <= ends)
        return np.asarray(mask & ~inside)


def interpret(request: Interpret, load: Callable[[str], ModuleType]) -> dict[str, Array]:
    """Run all kernels; returns the outputs. Raises ValueError for an access out of bounds."""
    memory = Memory()
    for name, shape, type_name in request.tensors:
        memory.add(name, shape, type_name, request.arrays.get(name))
    types = {name: type_name for name, _, type_name in request.tensors}
    for text, function, arguments, grid in request.kernels:
        _run(load(text), function, [(memory.arrays[a], types[a]) for a in arguments], grid, memory,
             request.guard)  # fmt: skip
    return {
        name: memory.arrays[name].astype(bool) if types[name] == "bool"
        else memory.arrays[name].copy()
        for name in request.outputs
    }  # fmt: skip


def _run(
    module: ModuleType, function: str, arguments: list[tuple[Array, str]],
    grid: tuple[int, int, int], memory: Memory, guard: bool,
) -> None:  # fmt: skip
    import triton.language as tl
    from triton.runtime import interpreter

    from planish.codegen.triton.source import TRITON

    found = getattr(module, function)
    rewritten = found.rewrite()
    values = []
    for array, type_name in arguments:
        stored = "tl.uint8" if type_name == "bool" else TRITON[type_name]
        kind = tl.pointer_type(getattr(tl, stored.removeprefix("tl.")))
        handle = interpreter.TensorHandle(np.array([array.ctypes.data], np.uint64), kind)
        values.append(tl.tensor(handle, kind))
    builder: Any = interpreter.interpreter_builder
    scope = interpreter._patch_lang(rewritten)
    try:
        with _Checked(builder, memory, str(module.__file__), guard):
            builder.set_grid_dim(*grid)
            for z in range(grid[2]):
                for y in range(grid[1]):
                    for x in range(grid[0]):
                        builder.set_grid_idx(x, y, z)
                        rewritten(*values)
    finally:
        scope.restore()


class _Checked:
    """The interpreter's loads, stores and dot, exchanged while this is entered."""

    def __init__(self, builder: Any, memory: Memory, file: str, guard: bool) -> None:
        self._builder = builder
        self._memory = memory
        self._file = file
        self._guard = guard
        self._names = (
            "create_masked_load", "create_masked_store", "create_dot", "create_si_to_fp",
            "create_ui_to_fp", "create_fsub",
        )  # fmt: skip

    def __enter__(self) -> None:
        builder = self._builder
        load, store, dot, whole, _, less = (getattr(builder, name) for name in self._names)

        def checked_load(ptrs: Any, mask: Any, other: Any, *rest: Any) -> Any:
            self._check("loads", ptrs, mask)
            return load(ptrs, mask, other, *rest)

        def checked_store(ptrs: Any, value: Any, mask: Any, *rest: Any) -> Any:
            self._check("stores", ptrs, mask)
            return store(ptrs, value, mask, *rest)

        builder.create_masked_load = checked_load
        builder.create_masked_store = checked_store
        builder.create_si_to_fp = lambda src, kind: right_cast(builder, whole, src, kind)
        builder.create_fsub = lambda a, b: right_less(builder, less, a, b)
        builder.create_ui_to_fp = builder.create_si_to_fp
        builder.create_dot = lambda a, b, d, *rest: right_dot(dot, a, b, d, *rest)

    def __exit__(self, *error: object) -> None:
        for name in self._names:
            delattr(self._builder, name)

    def _check(self, what: str, ptrs: Any, mask: Any) -> None:
        if not self._guard:
            return
        size = max(1, ptrs.get_element_ty().primitive_bitwidth // 8)
        addresses, lanes = np.broadcast_arrays(ptrs.data, mask.data)
        bad = self._memory.outside(addresses.astype(np.uint64), lanes.astype(bool), size)
        if not bad.any():
            return
        places = [tuple(map(int, p)) for p in np.argwhere(bad)[:_SHOWN]]
        more = f" and {int(bad.sum()) - _SHOWN} more" if bad.sum() > _SHOWN else ""
        grid = ", ".join(map(str, self._builder.grid_idx))
        raise ValueError(
            f"line {self._line()} {what} out of bounds in program ({grid}), lanes "
            f"{', '.join(map(str, places))}{more}"
        )

    def _line(self) -> str:
        frame = sys._getframe()
        while frame is not None:
            if frame.f_code.co_filename == self._file:
                return str(frame.f_lineno)
            frame = frame.f_back  # type: ignore[assignment]
        return "?"


def right_cast(builder: Any, cast: Callable[..., Any], source: Any, kind: Any) -> Any:
    """Whole numbers to bf16 by way of f32: the interpreter takes their bits for the float's."""
    import triton.language as tl

    if kind.scalar != tl.bfloat16:
        return cast(source, kind)
    wide = tl.float32 if not kind.is_block() else tl.block_type(tl.float32, kind.shape)
    return builder.cast_impl(cast(source, wide), kind)


def right_less(builder: Any, less: Callable[..., Any], a: Any, b: Any) -> Any:
    """A difference; of bf16 by way of f32."""
    import triton.language as tl
    from triton.runtime import interpreter

    if a.dtype.scalar != tl.bfloat16:
        return less(a, b)
    wide = [interpreter.TensorHandle((x.data.astype(np.uint32) << 16).view(np.float32), tl.float32)
            for x in (a, b)]  # fmt: skip
    return builder.cast_impl(less(*wide), tl.bfloat16)


def right_dot(dot: Callable[..., Any], a: Any, b: Any, d: Any, *rest: Any) -> Any:
    """`dot` with bf16 and f8 widened to f32 first; other types as they are."""
    import triton.language as tl
    from triton.runtime import interpreter

    bytes_of = {tl.float8e4nv: "f8e4m3", tl.float8e5: "f8e5m2"}
    narrow = {tl.bfloat16, *bytes_of}

    def widened(x: Any) -> Any:
        kind = x.dtype.scalar
        if kind not in narrow:
            return x
        bits = x.data.astype(np.uint32)
        wide = decode(bits, bytes_of[kind]) if kind in bytes_of else (bits << 16).view(np.float32)
        return interpreter.TensorHandle(wide, tl.float32)

    if narrow & {a.dtype.scalar, b.dtype.scalar}:
        return dot(widened(a), widened(b), d, *rest)
    if a.data.dtype.kind in "iu":  # products of bytes do not fit into bytes
        wide_a, wide_b = (x.data.astype(np.int32) for x in (a, b))
        return interpreter.TensorHandle(np.matmul(wide_a, wide_b) + d.data, d.dtype.scalar)
    return dot(a, b, d, *rest)
