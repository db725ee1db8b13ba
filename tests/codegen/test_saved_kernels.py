"""Objects and headers used from C: for this machine, and for AArch64 under qemu."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import planish as pl
from planish.measure.machine import processor
from planish.tensor.expr import Tensor
from planish.tensor.program import Program, lower
from planish.tensor.reference import evaluate
from planish.tensor.types import BF16
from planish.tune.tensors import Kernel


def _product(type: str, rows: int = 9) -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (rows, 21), type), pl.tensor("B", (21, 19), type)
    return pl.define("C", [m, n], pl.relu(pl.sum(k, a[m, k] * b[k, n])))


def _bytes() -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (9, 21), "i8"), pl.tensor("B", (21, 19), "u8")
    return pl.define("C", [m, n], pl.sum(k, pl.cast(a[m, k], "i32") * pl.cast(b[k, n], "i32")))


def _field() -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (5, 8), "i64"), pl.tensor("B", (8, 7), "i64")
    return pl.define("C", [m, n], pl.sum(k, a[m, k] * b[k, n], modulo=7))


def _graph() -> Tensor:
    m, n, k = pl.axes("m n k")
    a, b = pl.tensor("A", (9, 12), "bool"), pl.tensor("B", (12, 19), "bool")
    return pl.define("C", [m, n], pl.any_(k, a[m, k] & b[k, n]))


def _softmax() -> Tensor:
    m, n = pl.axes("m n")
    x = pl.tensor("x", (6, 37))
    e = pl.define("e", [m, n], pl.exp(x[m, n] - pl.max(n, x[m, n])))
    return pl.define("y", [m, n], e[m, n] / pl.sum(n, e[m, n]))


def _convolution() -> Tensor:
    h, w, c, o, r, s = pl.axes("h w c o r s")
    x, kernel = pl.tensor("x", (9, 8, 3)), pl.tensor("w", (3, 3, 3, 5))
    padded = pl.pad(x, ((1, 1), (1, 1), (0, 0)))
    body = padded[2 * h + r, 2 * w + s, c] * kernel[r, s, c, o]
    return pl.define("y", [h, w, o], pl.sum([r, s, c], body))


_TENSORS = {
    "f32": _product("f32"), "f64": _product("f64"), "i32": _product("i32"), "f16": _product("f16"),
    "bf16": _product("bf16"), "one_row": _product("f32", 1), "bytes": _bytes(), "field": _field(),
    "graph": _graph(), "softmax": _softmax(), "convolution": _convolution(),
}  # fmt: skip


@dataclass(frozen=True)
class _Built:
    """A program that runs all kernels: which arrays they read, and what it is started with."""

    programs: dict[str, Program]
    arrays: dict[str, dict[str, np.ndarray]]
    command: list[str]
    folder: Path


def _arrays(program: Program, seed: int) -> dict[str, np.ndarray]:
    numbers = np.random.default_rng(seed)
    found = {}
    for tensor in program.inputs:
        values = numbers.integers(0, 2 if tensor.type.name == "bool" else 5, tensor.shape)
        if tensor.type is BF16:
            bits = values.astype(np.float32).view(np.uint32) >> 16
            found[tensor.name] = bits.astype(np.uint16)
        else:
            found[tensor.name] = values.astype(tensor.type.numpy)
    return found


def _main(programs: dict[str, Program], kernels: dict[str, str]) -> str:
    """C that reads every kernel's inputs from `NAME.in` and writes its output to `NAME.out`."""
    lines = ['#include "stdio.h"', "static _Alignas(64) unsigned char memory[1 << 20];"]
    lines += [f'#include "{name}.h"' for name in programs]
    lines += ["int main(void) {", "  FILE *f;"]
    for name, program in programs.items():
        arrays = (*program.inputs, *program.outputs)
        sizes = [int(np.prod(t.shape)) * t.type.size for t in arrays]
        lines += ["  {", *(f"    static _Alignas(64) char a{i}[{n}];" for i, n in enumerate(sizes))]
        lines.append(f'    if (!(f = fopen("{name}.in", "rb"))) return 1;')
        lines += [f"    if (fread(a{i}, 1, {n}, f) != {n}) return 2;" for i, n in
                  enumerate(sizes[:-1])]  # fmt: skip
        given = [f"(void *)a{i}" for i in range(len(sizes))]
        given += ["memory"] if "void *workspace" in kernels[name] else []
        lines.append(f"    fclose(f); {name}({', '.join(given)});")
        last = len(sizes) - 1
        lines.append(f'    f = fopen("{name}.out", "wb"); fwrite(a{last}, 1, {sizes[-1]}, f);')
        lines.append("    fclose(f);\n  }")
    return "\n".join([*lines, "  return 0;", "}", ""])


@pytest.fixture(scope="module", params=["native", "llvm", "aarch64"])
def built(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> _Built:
    import ziglang

    qemu = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if request.param == "aarch64" and qemu is None:
        pytest.skip("qemu-aarch64 is not installed")
    if request.param == "native" and not processor().vector:
        pytest.skip("not an x86 machine with AVX2")
    folder = tmp_path_factory.mktemp(request.param)
    options = {"path": "llvm"} if request.param == "llvm" else {"target": request.param}
    programs = {f"kernel_{name}": lower([tensor]) for name, tensor in _TENSORS.items()}
    headers, arrays = {}, {}
    for name, program in programs.items():
        kernel = Kernel(program, store=False, **options)
        kernel.save(folder / f"{name}.o", header=folder / f"{name}.h")
        headers[name] = (folder / f"{name}.h").read_text()
        arrays[name] = _arrays(program, len(name))
        data = b"".join(a.tobytes() for a in arrays[name].values())
        (folder / f"{name}.in").write_bytes(data)
    (folder / "main.c").write_text(_main(programs, headers))
    zig = str(Path(ziglang.__file__).parent / "zig")
    target = ["-target", "aarch64-linux-musl", "-static"] if request.param == "aarch64" else []
    subprocess.run(
        [zig, "cc", *target, "-o", "main", "main.c", *(f"{name}.o" for name in programs)],
        cwd=folder, check=True, timeout=300,
    )  # fmt: skip
    command = [qemu] if request.param == "aarch64" and qemu else []
    command = [*command, str(folder / "main")]
    subprocess.run(command, cwd=folder, check=True, timeout=120)
    return _Built(programs, arrays, command, folder)


@pytest.mark.parametrize("name", list(_TENSORS))
def test_a_saved_kernel_computes_what_the_program_means(built: _Built, name: str) -> None:
    program = built.programs[f"kernel_{name}"]
    (tensor,) = program.outputs
    data = (built.folder / f"kernel_{name}.out").read_bytes()
    found = np.frombuffer(data, tensor.type.numpy).reshape(tensor.shape)
    wanted = evaluate(program, built.arrays[f"kernel_{name}"])[tensor.name]
    if name == "softmax":
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    else:
        assert np.array_equal(found, wanted)
