"""Compile time: the x86 generator against LLVM -O2 and -O0 on one nest, run speed beside.

LLVM is llvmlite's release build, in process, from IR already parsed into a module: the time is
optimisation and code generation only. Ours is from the scheduled nest to executable bytes; from
the program (with the default schedule) stands beside it. Needs: pip install llvmlite.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

_WANTED = (
    "square 64x", "square 256x", "square 512x", "odd 127x", "conv resnet 28x28 128>128 3x3 NHWC",
    "rows softmax 512", "rows layernorm 512", "elementwise gelu", "min-plus 128", "batched 64",
)  # fmt: skip


def main() -> None:
    given = _arguments()
    try:
        import llvmlite.binding as llvm
    except ImportError:
        sys.exit("this bench needs llvmlite: pip install llvmlite")
    import common
    import numpy as np
    import tensor_cases

    import planish as pl
    from planish.codegen.native import Image, Native, build_image
    from planish.measure.machine import processor
    from planish.tune.tensor_llvm import Compilation, module_text

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    vector = processor().vector
    how = Compilation.x86(vector)
    rows, ratios = [], {"O2": [], "O0": []}
    for case in tensor_cases.cases():
        if not any(f"{case.group} {case.name}".startswith(w) for w in _WANTED):
            continue
        kernel = pl.compile(case.tensor, store=False)
        nest = kernel.loops
        ours = _median(lambda n=nest: Native(build_image(n, vector)), given.repeats)
        whole = _median(lambda t=case.tensor: pl.compile(t, store=False).native(), given.repeats)
        lowered, text = module_text(nest, how, None, "phase")
        speeds = [_speed(kernel.native(), case, np)]
        row = [f"{case.group} {case.name}", f"{ours * 1e3:.2f}", f"{whole * 1e3:.2f}"]
        for level in ("O2", "O0"):
            seconds, engine = _llvm(llvm, text, how.features, level)
            offsets = lowered.temporaries
            image = Image(b"\xc3", kernel.native().image.calls, lowered.workspace, offsets, "llvm")
            loaded = Native(image)
            form = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
            loaded._phases = [
                (form(engine.get_function_address(f"phase{at}")), phase.starts)
                for at, phase in enumerate(lowered.phases)
            ]
            speeds.append(_speed(loaded, case, np))
            ratios[level].append(seconds / ours)
            row.append(f"{seconds * 1e3:.0f} ({seconds / ours:.0f}x)")
        row += [f"{s / speeds[0]:.2f}" for s in speeds[1:]]
        rows.append(row)
        print(" | ".join(row), flush=True)
    columns = (
        "case",
        "ours ms",
        "with schedule",
        "LLVM -O2 ms",
        "LLVM -O0 ms",
        "run O2/ours",
        "run O0/ours",
    )
    common.show("compile time", columns, rows)
    numbers = np.random.default_rng(0)
    pair = [numbers.standard_normal((512, 512)).astype(np.float32) for _ in range(2)]
    square = next(c.tensor for c in tensor_cases.cases() if c.name == "512x512x512")
    first = _median(lambda: pl.compile(square, store=False)(*pair), given.repeats)
    print(f"512^3: program to result of the first call, in a warm process: {first * 1e3:.2f} ms")
    for level, values in ratios.items():
        print(f"LLVM -{level} over ours: geomean {statistics.geometric_mean(values):.0f}x")


def _median(function: Callable[[], object], repeats: int) -> float:
    function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _llvm(llvm, text: str, features: str, level: str):
    """Seconds of optimisation and code generation, and the engine that holds the code."""
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    speed = int(level[1])
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=speed, reloc="pic", codemodel="small"
    )
    started = time.perf_counter()
    tuning = llvm.create_pipeline_tuning_options(speed_level=speed)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return time.perf_counter() - started, engine


def _speed(native, case, np) -> float:
    """The median time of a call."""
    outs = [np.empty(case.tensor.shape, case.tensor.type.numpy)]
    order = {id(a): a for a in case.arrays}
    workspace = np.empty(native.image.workspace + 64, np.uint8)
    base = workspace.ctypes.data
    pointers = [a.ctypes.data for a in order.values()] + [o.ctypes.data for o in outs]
    pointers.append(base + -base % 64)
    return _median(lambda: native.run(pointers), 15)


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--repeats", type=int, default=15)
    return made.parse_args()


if __name__ == "__main__":
    main()
