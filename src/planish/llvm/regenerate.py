"""Write the vocabularies that ship: `python -m planish.llvm.regenerate` in a checkout."""

from __future__ import annotations

import sys
from pathlib import Path

from planish.base.files import write_atomic
from planish.llvm.requests import HANDLER
from planish.llvm.toolchain import find_toolchain
from planish.llvm.vocabulary import generate, to_json
from planish.proc.pool import Pool

_SHIPPED = ("X86", "AArch64", "ARM", "RISCV", "WebAssembly")


def main() -> None:
    folder = Path(__file__).parent / "data"
    found = find_toolchain()
    with Pool(HANDLER, str(found.library), jobs=2, seconds=10) as pool:
        for architecture in _SHIPPED:
            vocabulary = generate(pool, architecture, front_end=found.need_front_end())
            path = folder / f"vocabulary-{vocabulary.version}-{architecture}.json"
            write_atomic(path, to_json(vocabulary))
            counts = f"{len(vocabulary.module)} passes, {len(vocabulary.options)} options"
            print(f"{path.name}: {counts}", file=sys.stderr)


if __name__ == "__main__":
    main()
