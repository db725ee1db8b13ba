"""Launch the kernels of a folder on torch tensors; needs torch and Triton only.

Planish writes this file, as it stands, to each folder of kernels as `run.py`:

    from run import run
    y = run(a, b)  # in the order of launch.json
"""

import functools
import importlib.util
import json
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@functools.cache
def _about() -> Any:
    return json.loads((HERE / "launch.json").read_text())


@functools.cache
def _function(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)


def run(*inputs: Any) -> Any:
    """The output, or a tuple of them. Raises ValueError for inputs of another shape or type."""
    import torch

    tensors, kernels = _about()["tensors"], _about()["kernels"]
    names = [n for n, about in tensors.items() if about["role"] == "input"]
    if len(inputs) != len(names):
        raise ValueError(f"the kernels take {len(names)} tensors: {', '.join(names)}")
    memory = dict(zip(names, inputs, strict=True))
    for name, about in tensors.items():
        shape, dtype = tuple(about["shape"]), getattr(torch, about["torch"])
        if name not in memory:
            device = inputs[0].device if inputs else torch.device("cuda")
            memory[name] = torch.empty(shape, dtype=dtype, device=device)
        x = memory[name]
        if tuple(x.shape) != shape or x.dtype != dtype or not x.is_contiguous():
            raise ValueError(f"{name} is to be row-major, {dtype}, of the shape {list(shape)}")
    for kernel in kernels:
        given = [_plain(memory[n]) for n in kernel["tensors"]]
        _function(kernel["source"])[tuple(kernel["grid"])](*given, **kernel["options"])
    found = tuple(memory[n] for n, about in tensors.items() if about["role"] == "output")
    return found[0] if len(found) == 1 else found


def _plain(tensor: Any) -> Any:
    """bool and f8 as the bytes that the kernels read."""
    import torch

    narrow = tensor.element_size() == 1 and tensor.dtype != torch.int8
    return tensor.view(torch.uint8) if narrow else tensor
