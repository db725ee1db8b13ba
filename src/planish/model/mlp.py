"""Small networks in NumPy: what a trained policy needs where no framework is installed."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from planish.base.errors import UsageError, unknown

Floats = NDArray[np.float32]

_ACTIVATIONS: dict[str, Callable[[Floats], Floats]] = {
    "tanh": lambda x: np.tanh(x),
    "relu": lambda x: np.maximum(x, 0),
}


@dataclass(frozen=True)
class Mlp:
    """Layers one after another; the activation stands between them, not behind the last.

    weights  of each layer, (out, in); biases, (out,)
    card     how it was trained, and on what
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: str
    card: dict[str, Any]

    def __call__(self, x: NDArray[Any]) -> Floats:
        """Outputs, (out,) or (n, out), for inputs of shape (in,) or (n, in)."""
        between = _ACTIVATIONS[self.activation]
        found: Floats = np.asarray(x, np.float32)
        last = len(self.weights) - 1
        for at, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            found = found @ weight.T + bias
            found = found if at == last else between(found)
        return found


def save(network: Mlp, path: Path) -> None:
    """Write it as safetensors; the activation and the card are its metadata."""
    from safetensors.numpy import save_file

    arrays = {f"weight{at}": np.ascontiguousarray(w) for at, w in enumerate(network.weights)}
    arrays |= {f"bias{at}": np.ascontiguousarray(b) for at, b in enumerate(network.biases)}
    words = {"activation": network.activation, "card": json.dumps(network.card, sort_keys=True)}
    save_file(arrays, str(path), metadata=words)


def load(path: Path) -> Mlp:
    """Read it; raises UsageError for a file that is none."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), "np") as file:
            words = file.metadata() or {}
            count = sum(1 for name in file.keys() if name.startswith("weight"))  # noqa: SIM118
            weights = tuple(file.get_tensor(f"weight{at}") for at in range(count))
            biases = tuple(file.get_tensor(f"bias{at}") for at in range(count))
        if words["activation"] not in _ACTIVATIONS or not weights:
            raise unknown("activation", words["activation"], sorted(_ACTIVATIONS))
        return Mlp(weights, biases, words["activation"], json.loads(words["card"]))
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise UsageError(f"cannot read the network {path}: {error}") from error
