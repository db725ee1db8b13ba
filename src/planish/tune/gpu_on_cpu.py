"""Kernels on torch tensors of the CPU, by Triton's interpreter in a worker, every access checked.

What TRITON_INTERPRET=1 asks for: the same checks of tensors, the same choice of kernels by strides
as on a GPU, and nothing of its speed.
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from planish.base.errors import PlanishError
from planish.proc.pool import Call, Pool
from planish.tune.gpu_kernels import workers
from planish.tune.gpu_worker import Interpret

if TYPE_CHECKING:
    from planish.tune.gpu_kernels import GpuKernel

# Types that NumPy does not have, by those that carry their bits.
_BITS = {"bf16": "uint16", "f8e4m3": "uint8", "f8e5m2": "uint8"}


@functools.cache
def _interpreter() -> Pool:
    """One worker for the whole process."""
    context = workers("interpret")
    pool = context.__enter__()
    atexit.register(context.__exit__, None, None, None)
    return pool


def launch_on_cpu(kernel: GpuKernel, tensors: Sequence[Any], torch: Any) -> Any:
    """All kernels on the tensors; returns the output(s). Raises PlanishError for a bad access."""
    program = kernel.program
    strides = {t.name: tuple(x.stride()) for t, x in zip(program.inputs, tensors, strict=True)}
    lowered = kernel.lowered
    if not all(x.is_contiguous() for x in tensors):
        lowered = kernel.lowered_for(strides)
    arrays = {
        t.name: _memory(x.detach(), t.type.name, torch)
        for t, x in zip(program.inputs, tensors, strict=True)
    }
    made = (*program.outputs, *lowered.temporaries)
    request = Interpret(
        tuple((k.text, k.name, tuple(t.name for t in k.tensors), k.grid) for k in lowered.kernels),
        (*((t.name, arrays[t.name].shape, t.type.name) for t in program.inputs),
         *((t.name, t.shape, t.type.name) for t in made)),
        arrays, tuple(t.name for t in program.outputs),
    )  # fmt: skip
    [reply] = _interpreter().run([Call((), request)])
    if reply.failure is not None:
        raise PlanishError(f"the kernel fails in Triton's interpreter: {reply.reason}",
                           hint="this is a fault of Planish; please report it")  # fmt: skip
    found = tuple(_tensor(reply.value[t.name], t.type.name, torch) for t in program.outputs)
    return found[0] if len(found) == 1 else found


def _memory(tensor: Any, type_name: str, torch: Any) -> np.ndarray[Any, Any]:
    """All elements from the first to the last that the tensor reaches, as they lie in memory."""
    span = 1 + sum(s * (n - 1) for s, n in zip(tensor.stride(), tensor.shape, strict=True))
    flat = tensor.as_strided((span,), (1,))
    if type_name in _BITS:
        flat = flat.view(getattr(torch, _BITS[type_name]))
    found: np.ndarray[Any, Any] = flat.numpy()
    return found


def _tensor(array: np.ndarray[Any, Any], type_name: str, torch: Any) -> Any:
    from planish.tune.gpu_torch import TORCH

    made = torch.from_numpy(np.ascontiguousarray(array))
    return made.view(getattr(torch, TORCH[type_name])) if type_name in _BITS else made
