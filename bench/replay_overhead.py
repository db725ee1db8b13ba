"""What a replay costs over a plain compile: `planish opt --replay` against `clang -Oz -c`.

Real C files of the corpus' kind are given as arguments (with flags after --); both commands are
run as a user would, interleaved. Prints the ratio of medians with its quartiles.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import common

from planish.llvm.toolchain import find_toolchain

_REPEATS = 9


def main() -> None:
    words = sys.argv[1:]
    flags = words[words.index("--") + 1 :] if "--" in words else []
    sources = [Path(word) for word in (words[: words.index("--")] if "--" in words else words)]
    sources = sources or [Path(__file__).parent.parent / "examples" / "lzss.c"]
    front_end = find_toolchain().need_front_end()
    planish = [sys.executable, "-m", "planish.cli.main", "opt"]
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        lock = ["--lock", f"{folder}/planish.lock"]
        out = f"{folder}/out.o"
        headers = front_end.headers("")
        target = [f"--target={front_end.default_triple()}"] if front_end.default_triple() else []
        for source in sources:
            search = [*planish, str(source), *lock, "-o", out, "--budget", "8", "--", *flags]
            subprocess.run(search, check=True, capture_output=True)
            plain = [
                *front_end.command,
                *target,
                *flags,
                *headers,
                "-Oz",
                "-c",
                str(source),
                "-o",
                out,
            ]
            replay = [*planish, str(source), *lock, "-o", out, "--replay", "--", *flags]
            plains, replays = [], []
            for _ in range(_REPEATS):
                plains.append(_time(plain))
                replays.append(_time(replay))
            ratios = [b / a for a, b in zip(plains, replays, strict=True)]
            rows.append(
                (
                    source.name,
                    f"{statistics.median(plains) * 1e3:.0f} ms",
                    f"{statistics.median(replays) * 1e3:.0f} ms",
                    "{1:.2f}x [{0:.2f}, {2:.2f}]".format(*statistics.quantiles(ratios, n=4)),
                )
            )
    common.show("Replay over a plain compile", ("file", "clang -Oz", "replay", "ratio"), rows)


def _time(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
