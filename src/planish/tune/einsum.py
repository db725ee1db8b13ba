"""Einsum as a function of arrays: a kernel for each set of shapes and types it is called with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from planish.base.errors import UsageError, unknown
from planish.tensor.einsum import SEMIRINGS, Spec, einsum_program, parse_spec
from planish.tensor.types import Type, type_of
from planish.tune.call_checks import Array
from planish.tune.tensors import Kernel, compile_program


def einsum(
    spec: str,
    *,
    semiring: str = "sum-product",
    modulo: int | None = None,
    types: Sequence[str] | None = None,
    threads: int | None = 1,
) -> Einsum:
    """An einsum as a function of arrays, compiled on first call for their shapes and types.

    spec      as NumPy has it: "mk,kn->mn"
    semiring  sum-product, min-plus, max-plus, max-times, or-and, xor-and
    modulo    sums of integers modulo that number
    types     element types where NumPy has none: "bf16" is carried in uint16 arrays
    threads   None is one for each core
    """
    return Einsum(spec, semiring=semiring, modulo=modulo, types=types, threads=threads)


class Einsum:
    """What `einsum` gives; keeps a Kernel for each set of shapes and types."""

    def __init__(
        self,
        spec: str,
        *,
        semiring: str = "sum-product",
        modulo: int | None = None,
        types: Sequence[str] | None = None,
        threads: int | None = 1,
    ) -> None:
        self.spec: Spec = parse_spec(spec)
        if semiring not in SEMIRINGS:
            raise unknown("semiring", semiring, list(SEMIRINGS))
        self._semiring = semiring
        self._modulo = modulo
        self._types = [type_of(t) for t in types] if types is not None else None
        self._threads = threads
        self._kernels: dict[object, Kernel] = {}
        self._last: Kernel | None = None
        self._count = len(self.spec.operands)

    def __call__(self, *arrays: Array, out: Array | None = None) -> Any:
        """The einsum of the arrays, in a new array or in `out`."""
        last = self._last
        fast = last._fast if last is not None else None
        if fast is not None and len(arrays) == self._count:
            assert last is not None
            result = fast(arrays) if out is None else last._fast_into(arrays, out)
            if result is not None:
                return result
        return self.kernel(*arrays)(*map(np.asanyarray, arrays), out=out)

    def kernel(self, *arrays: Array) -> Kernel:
        """The Kernel for arrays of these shapes and types."""
        if len(arrays) != self._count:
            raise UsageError(f"'{self.spec}' takes {self._count} arrays, not {len(arrays)}")
        made = [np.asanyarray(a) for a in arrays]
        key = tuple((a.shape, a.dtype) for a in made)
        found = self._kernels.get(key)
        if found is None:
            types: list[Type] = self._types or [type_of(a.dtype) for a in made]
            tensor = einsum_program(
                self.spec.expand([a.ndim for a in made]), [a.shape for a in made], types,
                semiring=self._semiring, modulo=self._modulo,
            )  # fmt: skip
            found = compile_program(tensor, threads=self._threads)
            self._kernels[key] = found
        self._last = found
        return found

    def __repr__(self) -> str:
        return f"einsum('{self.spec}')"
