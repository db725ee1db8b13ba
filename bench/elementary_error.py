"""The largest error of each function in src/planish/codegen/elementary.py.

Emits the functions as C, compiles them and compares them with those of the C library at a higher
precision, f32 with double and f64 with long double. f32 is compared at every bit pattern. f64, and
f32 too when --points says how many, is compared at patterns spread over all binades and at as many
points spread evenly where the function moves. An error is the distance to the exact value in units
in the last place of that value, which below the smallest normal number are those of the
subnormals. An infinity or NaN in the wrong place counts as wrong, and so does a wrong sign of zero.

Needs a long double wider than double (x86-64).
"""

from __future__ import annotations

import argparse
import ctypes
import math
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import common

from planish.codegen import elementary

_RANGES = {"exp": (-750.0, 715.0), "log": (0.4, 2.5), "tanh": (-20.0, 20.0), "erf": (-6.2, 6.2)}
_GOLDEN_RATIO = (1 + math.sqrt(5)) / 2
_TYPES = {"f32": "float", "f64": "double", "i32": "uint32_t", "i64": "uint64_t"}
_SIGNED = {"i32": "int32_t", "i64": "int64_t"}
_PREDICATES = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@dataclass
class CBuilder:
    """A `Builder` whose handles are C variables; `lines` is the body of the function."""

    lines: list[str] = field(default_factory=list)
    operations: int = 0

    def const(self, value: float | int, type: str) -> str:
        if type in _SIGNED:
            return self._set(type, f"({_TYPES[type]}){value & (2**64 - 1)}u")
        if not math.isfinite(value):
            return self._set(
                type, "NAN" if math.isnan(value) else "INFINITY" if value > 0 else "-INFINITY"
            )
        return self._set(type, f"({_TYPES[type]}){float(value).hex()}")

    def add(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} + {b}")

    def sub(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} - {b}")

    def mul(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} * {b}")

    def div(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} / {b}")

    def min(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} < {b} ? {a} : {b}")

    def max(self, a: str, b: str, type: str) -> str:
        return self._operation(type, f"{a} > {b} ? {a} : {b}")

    def fma(self, a: str, b: str, c: str, type: str) -> str:
        return self._operation(type, f"{_c_name('fma', type)}({a}, {b}, {c})")

    def fnma(self, a: str, b: str, c: str, type: str) -> str:
        return self._operation(type, f"{_c_name('fma', type)}(-{a}, {b}, {c})")

    def abs(self, a: str, type: str) -> str:
        return self._operation(type, f"{_c_name('fabs', type)}({a})")

    def neg(self, a: str, type: str) -> str:
        return self._operation(type, f"-{a}")

    def sqrt(self, a: str, type: str) -> str:
        return self._operation(type, f"{_c_name('sqrt', type)}({a})")

    def round(self, a: str, type: str) -> str:
        return self._operation(type, f"{_c_name('rint', type)}({a})")

    def and_(self, a: str, b: str, itype: str) -> str:
        return self._operation(itype, f"{a} & {b}")

    def or_(self, a: str, b: str, itype: str) -> str:
        return self._operation(itype, f"{a} | {b}")

    def xor(self, a: str, b: str, itype: str) -> str:
        return self._operation(itype, f"{a} ^ {b}")

    def shl(self, a: str, bits: int, itype: str) -> str:
        return self._operation(itype, f"{a} << {bits}")

    def srl(self, a: str, bits: int, itype: str) -> str:
        return self._operation(itype, f"{a} >> {bits}")

    def sra(self, a: str, bits: int, itype: str) -> str:
        return self._operation(itype, f"({_SIGNED[itype]}){a} >> {bits}")

    def iadd(self, a: str, b: str, itype: str) -> str:
        return self._operation(itype, f"{a} + {b}")

    def isub(self, a: str, b: str, itype: str) -> str:
        return self._operation(itype, f"{a} - {b}")

    def bitcast(self, a: str, from_type: str, to_type: str) -> str:
        name = self._set(to_type, "0")
        self.lines.append(f"memcpy(&{name}, &{a}, sizeof {name});")
        return name

    def to_int(self, a: str, type: str) -> str:
        return self._operation("i" + type[1:], f"({_SIGNED['i' + type[1:]]}){a}")

    def from_int(self, a: str, itype: str) -> str:
        return self._operation("f" + itype[1:], f"({_SIGNED[itype]}){a}")

    def select(self, pred: str, a: str, b: str, x: str, y: str, type: str) -> str:
        return self._operation(type, f"{a} {_PREDICATES[pred]} {b} ? {x} : {y}")

    def _operation(self, type: str, text: str) -> str:
        self.operations += 1
        return self._set(type, text)

    def _set(self, type: str, text: str) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append(f"{_TYPES[type]} {name} = {text};")
        return name


def _c_name(function: str, type: str) -> str:
    return function + "f" * (type == "f32")


_PROGRAM = """
#include <math.h>
#include <stdint.h>
#include <string.h>
typedef struct {{ double error, at; uint64_t wrong; double wrong_at; }} worst;
static {real} function({real} x) {{
{body}
}}
static void compare({real} x, worst *w) {{
    {real} y = function(x), largest = {largest};
    {wide} exact = {reference}(({wide})x);
    int e = {minimal};
    {wide} size = {absolute}(exact), unit;
    if (isnan(exact) || size == 0) {{
        int same = isnan(exact) ? isnan(y) : y == 0 && !signbit(y) == !signbit(exact);
        if (!same) w->wrong++, w->wrong_at = x;
        return;
    }}
    if (isinf(exact) || ({real})exact > largest) {{
        if (({real})exact != y) w->wrong++, w->wrong_at = x;
        return;
    }}
    if (size >= {smallest}) e = {logb}(size);
    unit = {scale}(1, e - {fraction});
    {wide} error = isinf(y) ? {scale}(1, {minimal} * -1 + 2) - size : {absolute}(y - exact);
    error /= unit;
    if (!(error <= w->error)) w->error = error, w->at = x;
}}
void at_bits(uint64_t start, uint64_t stride, uint64_t count, worst *w) {{
    for (uint64_t i = 0; i < count; i++) {{
        {bits} bits = start + i * stride;
        {real} x;
        memcpy(&x, &bits, sizeof x);
        compare(x, w);
    }}
}}
void on_line(double low, double high, uint64_t count, worst *w) {{
    for (uint64_t i = 0; i < count; i++) compare(low + (high - low) * i / count, w);
}}
"""


class _Worst(ctypes.Structure):
    _fields_ = [
        ("error", ctypes.c_double),
        ("at", ctypes.c_double),
        ("wrong", ctypes.c_uint64),
        ("wrong_at", ctypes.c_double),
    ]


def main() -> None:
    given = _arguments()
    cases = [(name, type) for name in given.functions for type in given.types]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(given.jobs) as threads:
        rows = list(threads.map(lambda case: _measure(*case, given.points, Path(folder)), cases))
    common.show(
        "Largest errors, in units in the last place",
        ("function", "operations", "points", "largest error", "at", "wrong", "last wrong at"),
        rows,
    )


def _measure(name: str, type: str, points: int, folder: Path) -> tuple[object, ...]:
    builder = CBuilder()
    result = getattr(elementary, name)(builder, "x", type)
    source = folder / f"{name}_{type}.c"
    body = "\n".join([*builder.lines, f"return {result};"])
    source.write_text(_PROGRAM.format(body=body, **_words(name, type)))
    library = source.with_suffix(".so")
    command = [sys.executable, "-m", "ziglang", "cc", "-O2", "-march=native", "-ffp-contract=off"]
    command += ["-shared", "-fPIC", str(source), "-o", str(library), "-lm"]
    subprocess.run(command, check=True)
    compiled = ctypes.CDLL(str(library))
    worst = _Worst()
    width = 2 ** int(type[1:])
    everything = type == "f32" and not points
    done = width if everything else points or 1 << 26
    # Multiples of the golden ratio, modulo the width, spread evenly at any count.
    stride = 1 if everything else int(width / _GOLDEN_RATIO) | 1
    compiled.at_bits(*map(ctypes.c_uint64, (0, stride, done)), ctypes.byref(worst))
    if not everything:
        low, high = map(ctypes.c_double, _RANGES[name])
        compiled.on_line(low, high, ctypes.c_uint64(done), ctypes.byref(worst))
    return (
        f"{name} {type}",
        builder.operations,
        f"{done:,}",
        f"{worst.error:.4f}",
        worst.at.hex(),
        worst.wrong,
        worst.wrong_at.hex() if worst.wrong else "",
    )


def _words(name: str, type: str) -> dict[str, str]:
    """What differs between the types, for the program's text."""
    if type == "f32":
        words = {"real": "float", "wide": "double", "bits": "uint32_t", "reference": name}
        suffix, limits = "", {"fraction": "23", "minimal": "-126"}
        ends = {"largest": "0x1.fffffep127f", "smallest": "0x1p-126"}
    else:
        words = {"real": "double", "wide": "long double", "bits": "uint64_t"}
        words["reference"] = name + "l"
        suffix, limits = "l", {"fraction": "52", "minimal": "-1022"}
        ends = {"largest": "0x1.fffffffffffffp1023", "smallest": "0x1p-1022"}
    names = {"absolute": "fabs", "logb": "ilogb", "scale": "scalbn"}
    return words | limits | ends | {key: value + suffix for key, value in names.items()}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=0, help="in either set; 0: f32 all, f64 2^26")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--functions", nargs="+", default=[*_RANGES], choices=[*_RANGES])
    parser.add_argument("--types", nargs="+", default=["f32", "f64"], choices=["f32", "f64"])
    return parser.parse_args()


if __name__ == "__main__":
    main()
