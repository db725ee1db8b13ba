"""Compile time: the x86 generator against LLVM -O2 and -O0 on one nest, run speed beside.

LLVM is llvmlite's release build, in process, from IR already parsed into a module: the time is
optimisation and code generation only. Ours is from the scheduled nest to executable bytes, in a
warm process: `cold` with no kernel kept from an earlier compilation, `warm` with the micro-kernels
of this nest kept, as when a search tries schedules around them (finished programs are never kept
here). Every repetition has a nest of its own, made outside the clock. Both sides are taken in
turn, in seconds of the thread's processor time, so that other processes disturb little; all
columns are medians. `with schedule` begins at the program, cold. Needs: pip install llvmlite.
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
    from planish.codegen.x86.pieces import forget_pieces
    from planish.measure.machine import processor
    from planish.tune.tensor_llvm import Compilation, module_text

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    vector = processor().vector
    how = Compilation.x86(vector)
    rows, ratios = [], {(o, level): [] for o in _OURS for level in ("O2", "O0")}
    for case in tensor_cases.cases():
        if not any(f"{case.group} {case.name}".startswith(w) for w in _WANTED):
            continue
        kernel = pl.compile(case.tensor, store=False)
        lowered, text = module_text(kernel.loops, how, None, "phase")
        natives = [kernel.native()]
        times: dict[str, list[float]] = {name: [] for name in ("O2", "O0", "whole", *_OURS)}
        for turn in range(given.repeats):
            for name, seconds in _ours(case.tensor, vector).items():
                times[name] += seconds
            for level in ("O2", "O0"):
                seconds, engine = _llvm(llvm, text, how.features, level)
                times[level].append(seconds)
                if not turn:
                    natives.append(_loaded(engine, kernel.native(), lowered))
        middle = {name: statistics.median(values) for name, values in times.items()}
        row = [f"{case.group} {case.name}"]
        row += [f"{middle[name] * 1e3:.2f}" for name in (*_OURS, "whole")]
        for level in ("O2", "O0"):
            row.append(f"{middle[level] * 1e3:.0f}")
            for name in _OURS:
                ratios[name, level].append(middle[level] / middle[name])
                row.append(f"{ratios[name, level][-1]:.0f}x")
        row += [f"{s:.2f}" for s in _speeds(natives, case, np)]
        rows.append(row)
        print(" | ".join(row), flush=True)
    columns = (
        "case", "cold ms", "warm ms", "with schedule", "LLVM -O2 ms", "/cold", "/warm",
        "LLVM -O0 ms", "/cold", "/warm", "run O2/ours", "run O0/ours",
    )  # fmt: skip
    common.show("compile time", columns, rows)
    numbers = np.random.default_rng(0)
    pair = [numbers.standard_normal((512, 512)).astype(np.float32) for _ in range(2)]
    square = next(c.tensor for c in tensor_cases.cases() if c.name == "512x512x512")
    kernel = pl.compile(square, store=False)
    kernel(*pair)
    for name, before in (("cold", forget_pieces), ("warm", None)):
        first = _median(lambda: pl.compile(square, store=False)(*pair), 15, before)
        print(f"512^3, program to result of the first call, {name}: {first * 1e3:.2f} ms")
    again = _median(lambda: kernel(*pair), 15)
    print(f"512^3, each further call: {again * 1e3:.2f} ms")
    for (name, level), values in ratios.items():
        print(f"LLVM -{level} over ours {name}: geomean {statistics.geometric_mean(values):.0f}x")


_OURS = ("cold", "warm")


def _ours(tensor, vector: int) -> dict[str, list[float]]:
    """Seconds from a nest to executable bytes, some times over, by what was kept before."""
    from planish.codegen.native import Native, build_image
    from planish.codegen.x86.pieces import forget_pieces
    from planish.tensor.program import lower
    from planish.tune.tensors import compile_program

    schedule = compile_program(tensor, store=False).schedule
    times: dict[str, list[float]] = {"cold": [], "warm": [], "whole": []}
    for _ in range(6):
        forget_pieces()
        started = time.thread_time()
        compile_program(tensor, store=False).native()
        times["whole"].append(time.thread_time() - started)
        for name in ("cold", "warm"):
            nest = schedule.apply(lower([tensor]))
            if name == "cold":
                forget_pieces()
            started = time.thread_time()
            Native(build_image(nest, vector))
            times[name].append(time.thread_time() - started)
    return times


def _median(
    function: Callable[[], object], repeats: int, before: Callable[[], object] | None = None
) -> float:
    function()
    times = []
    for _ in range(repeats):
        if before is not None:
            before()
        started = time.thread_time()
        function()
        times.append(time.thread_time() - started)
    return statistics.median(times)


def _llvm(llvm, text: str, features: str, level: str):
    """Seconds of optimisation and code generation, and the engine that holds the code."""
    module = llvm.parse_assembly(text)
    target = llvm.Target.from_triple(llvm.get_process_triple())
    speed = int(level[1])
    machine = target.create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features, opt=speed, reloc="pic", codemodel="small"
    )
    started = time.thread_time()
    tuning = llvm.create_pipeline_tuning_options(speed_level=speed)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return time.thread_time() - started, engine


def _loaded(engine, ours, lowered):
    """LLVM's code, called like ours."""
    from planish.codegen.native import Image, Native

    image = Image(b"\xc3", ours.image.calls, lowered.workspace, lowered.temporaries, "llvm")
    loaded = Native(image)
    form = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    loaded._phases = [
        (form(engine.get_function_address(f"phase{at}")), phase.starts)
        for at, phase in enumerate(lowered.phases)
    ]
    loaded.engine = engine
    return loaded


def _speeds(natives, case, np) -> list[float]:
    """Times of the others over the first one's, the median over calls in turn."""
    from planish.codegen.memory import aligned

    out = np.empty(case.tensor.shape, case.tensor.type.numpy)
    arrays = list({id(a): a for a in case.arrays}.values())
    workspace = aligned(natives[0].image.workspace)
    pointers = [a.ctypes.data for a in (*arrays, out)] + [workspace[1]]
    pairs = []
    for _ in range(40):
        times = []
        for native in natives:
            started = time.perf_counter()
            native.run(pointers)
            times.append(time.perf_counter() - started)
        pairs.append([t / times[0] for t in times[1:]])
    return [statistics.median(column) for column in zip(*pairs, strict=True)]


def _arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--repeats", type=int, default=5, help="rounds (default: 5)")
    return made.parse_args()


if __name__ == "__main__":
    main()
