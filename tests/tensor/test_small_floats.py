"""f8 in NumPy beside a table of all numbers, and beside torch where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planish.tensor.small_floats import LAYOUTS, decode, encode

NAMES = sorted(LAYOUTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_number_comes_back(name: str) -> None:
    codes = np.arange(256, dtype=np.uint8)
    values = decode(codes, name)
    finite = np.isfinite(values)
    assert np.array_equal(encode(values[finite], name), codes[finite])
    assert np.isnan(decode(encode(np.float32([np.nan]), name), name)).all()


@pytest.mark.parametrize("name", NAMES)
@given(x=st.floats(width=32, allow_nan=False))
def test_the_nearest_number_is_taken_and_ties_are_even(name: str, x: float) -> None:
    codes = np.arange(128, dtype=np.uint8)
    values = decode(codes, name)
    codes, values = codes[np.isfinite(values)], values[np.isfinite(values)].astype(np.float64)
    found = int(encode(np.float32([x]), name)[0])
    assert (found >= 128) == bool(np.signbit(np.float32(x)))
    far = np.abs(values - min(abs(x), values.max()))
    nearest = codes[far == far.min()]
    assert (found & 127) == (nearest[0] if len(nearest) == 1 else nearest[nearest % 2 == 0][0])


@pytest.mark.parametrize(
    ("name", "theirs"), [("f8e4m3", "float8_e4m3fn"), ("f8e5m2", "float8_e5m2")]
)
def test_torch_has_the_same_numbers(name: str, theirs: str) -> None:
    torch = pytest.importorskip("torch")
    codes = torch.arange(256, dtype=torch.uint8)
    wanted = codes.view(getattr(torch, theirs)).float().numpy()
    assert np.array_equal(decode(codes.numpy(), name), wanted, equal_nan=True)
    top = float(np.nanmax(wanted[np.isfinite(wanted)]))
    x = np.random.default_rng(0).uniform(-top, top, 5000).astype(np.float32)
    x = np.concatenate([x, x * np.float32(1e-5), x * np.float32(1e-3)])
    rounded = torch.from_numpy(x).to(getattr(torch, theirs)).view(torch.uint8).numpy()
    assert np.array_equal(encode(x, name), rounded)
