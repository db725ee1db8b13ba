"""What a model's look at a program costs, against building it once at -Oz.

The look is printing the IR and reading features and opcode pairs from it; the build is
`default<Oz>` and code generation, in the same process. Best of three, median over the modules.
"""

from __future__ import annotations

import contextlib
import statistics
import time

import common

from planish.llvm.binding import Library
from planish.llvm.features import describe
from planish.llvm.module import Module
from planish.llvm.requests import Target
from planish.llvm.toolchain import find_library
from planish.model.corpus import read_bitcode
from planish.tune.samples import draw

_REPEATS = 3


def main() -> None:
    given = common.parser(__doc__ or "").parse_args()
    library = Library(find_library()[0])
    looks, builds, passes = [], [], []
    for module in draw(given.corpus, "train", given.modules, given.seed, largest=20_000):
        data = read_bitcode(given.corpus, module)
        times = [_times(library, data) for _ in range(_REPEATS)]
        look, passes_only, build = (min(column) for column in zip(*times, strict=True))
        looks.append(look)
        builds.append(look / build)
        passes.append(look / passes_only)
    print(
        f"{len(looks)} modules: {1e3 * statistics.median(looks):.2f} ms a look, "
        f"{statistics.median(builds):.1%} of a build at -Oz, "
        f"{statistics.median(passes):.1%} of its passes alone"
    )


def _times(library: Library, data: bytes) -> tuple[float, float, float]:
    """Seconds of the look, of the passes, of passes and code generation."""
    with contextlib.closing(Module(library, data)) as module:
        start = time.perf_counter()
        describe(module.text())
        look = time.perf_counter() - start
        module.optimise_for_size()
        module.select(Target())
        start = time.perf_counter()
        module.run("default<Oz>")
        passes = time.perf_counter() - start
        module.emit()
        return look, passes, time.perf_counter() - start


if __name__ == "__main__":
    main()
