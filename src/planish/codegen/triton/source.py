"""Kernels as text: tile configurations, finished kernels, lines of code with unique names."""

from __future__ import annotations

import contextlib
import keyword
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from math import prod

from planish.base.errors import RecipeError, unknown
from planish.tensor.expr import Tensor
from planish.tensor.small_floats import LAYOUTS
from planish.tensor.types import Type

PRECISIONS = ("ieee", "tf32", "tf32x3", "narrow")


@dataclass(frozen=True)
class Numbers:
    """How products are computed.

    precision  of f32, one of PRECISIONS
    f8         whether the target multiplies f8; otherwise they are widened to f16, exactly
    """

    precision: str = "ieee"
    f8: bool = True


@dataclass(frozen=True)
class Config:
    """How one kernel is tiled and launched; 0 stands for the rule's choice.

    m, n, k     elements of a tile along rows, columns and the reduction (powers of two)
    warps       warps (on AMD: wavefronts) of a block
    stages      buffers of the software pipeline of loads
    group       rows of tiles that are walked together, for reuse in the L2 cache
    split       parts of the reduction that are computed by blocks of their own (split-K)
    persistent  blocks that walk over tiles; 0 is one block a tile
    """

    m: int = 0
    n: int = 0
    k: int = 0
    warps: int = 0
    stages: int = 0
    group: int = 0
    split: int = 0
    persistent: int = 0

    def __str__(self) -> str:
        chosen = ((f.name, getattr(self, f.name)) for f in fields(self))
        return " ".join(f"{name}={value}" for name, value in chosen if value)

    @classmethod
    def parse(cls, text: str) -> Config:
        """The inverse of `str`; raises RecipeError."""
        found: dict[str, int] = {}
        for word in text.split():
            match = re.fullmatch(r"([a-z]+)=(\d{1,6})", word)
            if match is None:
                raise RecipeError(
                    f"'{word}' is no tile choice", hint="write m=64 n=64 k=32 warps=4"
                )
            if match[1] not in {f.name for f in fields(cls)}:
                raise unknown("tile choice", match[1], [f.name for f in fields(cls)])
            found[match[1]] = int(match[2])
        made = cls(**found)
        for name in ("m", "n", "k", "warps"):
            value = getattr(made, name)
            if value & (value - 1):
                raise RecipeError(f"{name}={value} is no power of two")
        return made

    def over(self, rule: Config) -> Config:
        """With the rule's choice wherever this one has none."""
        given = {f.name: getattr(self, f.name) for f in fields(self) if getattr(self, f.name)}
        return replace(rule, **given)


@dataclass(frozen=True)
class KernelSource:
    """One kernel of a program: its text and how it is launched.

    name       the function's
    form       contraction, tile, rows, or attention
    text       imports, helpers and the kernel: a module that stands for itself
    tensors    arguments in order (inputs, temporaries, outputs)
    grid       blocks along the three dimensions
    domain     choices of each field of the configuration that are worth a look
    flops, bytes   operations, and bytes of operands and results each moved once
    what       the statements that it computes
    """

    name: str
    form: str
    text: str
    tensors: tuple[Tensor, ...]
    outputs: tuple[str, ...]
    grid: tuple[int, int, int]
    config: Config
    what: tuple[str, ...]
    flops: int
    bytes: int
    domain: Mapping[str, tuple[int, ...]] = field(default_factory=dict, hash=False, compare=False)
    facts: Mapping[str, int | str] = field(default_factory=dict, hash=False, compare=False)


def launch_options(kernel: KernelSource) -> dict[str, int]:
    """What Triton is told at a launch besides the arguments."""
    options = {"num_warps": kernel.config.warps or 4}
    if kernel.config.stages:
        options["num_stages"] = kernel.config.stages
    return options


def pow2(n: int) -> int:
    """The smallest power of two that is at least n."""
    return 1 << max(0, n - 1).bit_length()


# A tensor's elements in Triton; bool is a byte of 0 or 1, and f8 are bytes, since not every target
# knows them: those that do are told so where they multiply.
TRITON = {
    "f32": "tl.float32", "f64": "tl.float64", "f16": "tl.float16", "bf16": "tl.bfloat16",
    "i8": "tl.int8", "u8": "tl.uint8", "i16": "tl.int16", "i32": "tl.int32", "i64": "tl.int64",
    "bool": "tl.int1", "f8e4m3": "tl.uint8", "f8e5m2": "tl.uint8",
}  # fmt: skip
POINTERS = {
    "f32": "*fp32", "f64": "*fp64", "f16": "*fp16", "bf16": "*bf16", "i8": "*i8", "u8": "*u8",
    "i16": "*i16", "i32": "*i32", "i64": "*i64", "bool": "*u8", "f8e4m3": "*u8", "f8e5m2": "*u8",
}  # fmt: skip


def triton_type(type: Type) -> str:
    """The name of a stored type in Triton's language."""
    return TRITON[type.name]


def computed_type(type: Type) -> str:
    """The name of the type that values are computed in."""
    return TRITON[type.computed if type.is_float else type.name]


def number_text(value: int | float | bool) -> str:
    """A Python literal that Triton reads."""
    if isinstance(value, float):
        if value != value:
            return 'float("nan")'
        if value in (float("inf"), float("-inf")):
            return f'float("{value}")'
        return repr(value)
    return repr(int(value))


def row_major_elements(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple(prod(shape[at + 1 :]) for at in range(len(shape)))


_TAKEN = frozenset(keyword.kwlist) | {
    "tl", "triton", "range", "float", "int", "min", "max", "acc", "pid", "print", "math",
}  # fmt: skip

_LOCALS = frozenset({
    "pid_m", "pid_n", "first", "rows", "start", "batch", "tile", "value", "high", "total", "s", "p",
    "scale", "grown", "safe",
})  # fmt: skip


def argument(tensor: str) -> str:
    """A tensor's name as an argument of a kernel."""
    return f"{tensor}_ptr" if tensor in _TAKEN | _LOCALS | set(HELPERS) else tensor


def _to_f8(name: str) -> str:
    """f32 to bytes, as `small_floats.encode` has it: to nearest even, saturating."""
    layout = LAYOUTS[name]
    dropped = 23 - layout.mantissa
    shift = 2.0 ** (24 - layout.bias - layout.mantissa)
    code = (127 + 24 - layout.bias - layout.mantissa) << 23
    return "\n    ".join([
        f"def _to_{name}(x):",
        "bits = x.to(tl.uint32, bitcast=True)",
        "size = bits & 0x7FFFFFFF",
        f"normal = (size + {(1 << (dropped - 1)) - 1} + ((size >> {dropped}) & 1)) >> {dropped}",
        f"normal = tl.minimum(normal - {(127 - layout.bias) << layout.mantissa}, {layout.largest})",
        f"low = (tl.abs(x) + {shift}).to(tl.uint32, bitcast=True) - {code}",
        f"code = tl.where(size >= {(128 - layout.bias) << 23}, normal, low)",
        "code = tl.where(size > 0x7F800000, 0x7F, code)",
        "return (code | ((bits >> 24) & 0x80)).to(tl.uint8)",
    ])  # fmt: skip


HELPERS = {
    "_product": "def _product(a, b):\n    return a * b",
    "_all_bits": "def _all_bits(a, b):\n    return a & b",
    "_any_bits": "def _any_bits(a, b):\n    return a | b",
    # 1024 + (x + 128), exact in f16, is the bits 0x6400 | (x ^ 0x80).
    "_i8_to_f16": (
        "def _i8_to_f16(x):\n    bits = (x.to(tl.uint8, bitcast=True) ^ 0x80).to(tl.uint16)\n"
        "    return (bits | 0x6400).to(tl.float16, bitcast=True) - 1152.0"
    ),
    # 128 + low seven bits, less 128 or, for a negative number, 256: all exact in bf16.
    "_i8_to_bf16": (
        "def _i8_to_bf16(x):\n    bits = x.to(tl.uint8, bitcast=True).to(tl.uint16)\n"
        "    high = ((bits & 0x7F) | 0x4300).to(tl.bfloat16, bitcast=True)\n"
        "    return high - ((bits & 0x80) | 0x4300).to(tl.bfloat16, bitcast=True)"
    ),
    # The exponent's bias is 8 less than that of f16; 0x7F, which would be 480, is NaN.
    "_f8e4m3_to_f16": (
        "def _f8e4m3_to_f16(x):\n"
        "    half = ((x.to(tl.int8, bitcast=True).to(tl.int16) << 8) >> 1) & -16385\n"
        "    value = half.to(tl.int16).to(tl.float16, bitcast=True) * 256.0\n"
        '    return tl.where(tl.abs(value) > 448.0, float("nan"), value).to(tl.float16)'
    ),
    "_f8e5m2_to_f16": (
        "def _f8e5m2_to_f16(x):\n    return (x.to(tl.uint16) << 8).to(tl.float16, bitcast=True)"
    ),
    "_to_f8e4m3": _to_f8("f8e4m3"),
    "_to_f8e5m2": _to_f8("f8e5m2"),
    "_tanh": (
        "def _tanh(x):\n    e = tl.exp(-2.0 * tl.abs(x))\n    t = (1.0 - e) / (1.0 + e)\n"
        "    return tl.where(x < 0, -t, t)"
    ),
}


class Code:
    """Lines of a kernel under construction."""

    def __init__(self, reserved: set[str]) -> None:
        self.lines: list[str] = []
        self.helpers: set[str] = set()
        self._names = set(reserved) | _TAKEN | _LOCALS | set(HELPERS)
        self._indent = 1

    def line(self, text: str) -> None:
        """One more line."""
        self.lines.append("    " * self._indent + text)

    def fresh(self, hint: str) -> str:
        """A name that nothing has yet, and that looks like the hint."""
        name, at = hint, 1
        while name in self._names:
            at += 1
            name = f"{hint}_{at}"
        self._names.add(name)
        return name

    def helper(self, name: str) -> str:
        """The name of a helper function, which is then written above the kernel."""
        self.helpers.add(name)
        return name

    @contextlib.contextmanager
    def block(self, header: str) -> Iterator[None]:
        """Lines under a header."""
        self.line(header)
        self._indent += 1
        yield
        self._indent -= 1

    def module(self, name: str, arguments: list[str], blocks: Mapping[str, int], doc: str) -> str:
        """The whole text."""
        parts = ["import triton", "import triton.language as tl", ""]
        for helper in sorted(self.helpers):
            parts += ["", "@triton.jit", HELPERS[helper], ""]
        given = [*arguments, *(f"{n}: tl.constexpr = {v}" for n, v in blocks.items())]
        head = f"def {name}({', '.join(given)}):"
        if len(head) > 98:
            head = f"def {name}(\n    " + ",\n    ".join(given) + ",\n):"
        parts += ["", "@triton.jit", head]
        parts += [f"    # {words}" for words in doc.splitlines()]
        return "\n".join([*parts, *self.lines]) + "\n"
