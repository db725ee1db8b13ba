"""5,000 mutated profiler files: each gives a table or an error of one line; none crashes or hangs.

    python bench/fuzz_traces.py [--count 5000] [--traces FOLDER] [--first 0]

The folder is searched whole: traces, and HPCToolkit databases (PREFIX-meta.db and its
neighbours), of which one part is damaged. Without --traces the seeds are the tests' synthetic
ones. Each file is read and explained in a killable worker with a time limit, every second one
with salvage. File number N is the same in every run: --first goes on with a run in pieces.
"""

from __future__ import annotations

import argparse
import gzip
import multiprocessing
import os
import random
import resource
import sys
import tempfile
import time
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.mutate import mutations
from support.traces import training

SECONDS = 30.0  # of processor time: a busy machine is no hang
PATIENCE = 600.0  # of wall time
MEMORY = 4 << 30
LARGEST = 1_200_000  # bytes of a seed: larger ones only repeat themselves

SAMPLES = ("meta.db", "profile.db", "cct.db", ".csv")

PERF = """prog 10/10   100.010000000:   10000000 cpu-clock:u:
\t          1100 outer+0x7 (/usr/bin/prog)
\t          3000 main+0x3 (/usr/bin/prog)

"""
NCU = "==PROF== Disconnected\n" + "".join(
    ",".join(f'"{word}"' for word in row) + "\n"
    for row in [
        ("Kernel Name", "Address", "Source", "Warp Stall Sampling (All Samples)",
         "Warp Stall Sampling (Not-issued Samples)", "stall_long_sb", "stall_barrier"),
        *(("saxpy(int)", f"0x{16 * n:x}", "FFMA R0, R1, R2, R3", str(40 + n), str(n), str(n), "0")
          for n in range(60)),
    ]
)  # fmt: skip


def serve(pipe: Connection) -> None:
    """Read and explain each path that comes; answer with one word."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from planish.base.errors import PlanishError

    while True:
        path, salvage = pipe.recv()
        try:
            pipe.send((explain(path, salvage), ""))
        except PlanishError as error:
            kind = "refused" if "\n" not in str(error) else "BAD MESSAGE"
            pipe.send((kind, str(error)))
        except BaseException as error:  # what must not happen is counted, not raised
            pipe.send((f"ESCAPED {type(error).__name__}", str(error)))


def explain(path: Path, salvage: bool) -> str:
    """Everything that is asked of a file by `planish trace` and `planish advise`."""
    from planish.advise.advise import advise_path
    from planish.advise.rules import advise_trace
    from planish.trace.read import read_table
    from planish.trace.trace import Trace

    if path.name.endswith(SAMPLES):
        advise_path(path)
        return "read"
    trace = Trace(read_table(path, salvage=salvage))
    trace.summary(5)
    advise_trace(trace)
    for row in trace.breakdown():
        if int(trace.charges(row.device).own.sum()) != row.idle:
            raise ArithmeticError("blame does not sum to the idle time")
    return "salvaged" if trace.table.skipped else "read"


class Worker:
    """A process that is replaced when it dies or takes too long."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, other = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def ask(self, path: Path, salvage: bool) -> tuple[str, str]:
        self._pipe.send((path, salvage))
        begin, spent = time.monotonic(), self._spent()
        try:
            while time.monotonic() - begin < PATIENCE and self._spent() - spent < SECONDS:
                if self._pipe.poll(1.0):
                    answer: tuple[str, str] = self._pipe.recv()
                    return answer
            self._process.kill()
            answer = ("HUNG", "")
        except EOFError:
            answer = ("CRASHED", "")
        self._process.join()
        self._start()
        return answer

    def _spent(self) -> float:
        """Seconds of processor time that the process has used."""
        try:
            words = Path(f"/proc/{self._process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def seeds(folder: Path | None, largest: int) -> list[tuple[str, bytes]]:
    """Names and contents."""
    found = [("synthetic.json", training().text().encode()), ("perf.txt", PERF.encode() * 50),
             ("ncu.csv", NCU.encode())]  # fmt: skip
    for path in sorted(folder.rglob("*")) if folder else ():
        if not path.is_file() or path.suffix == ".md":
            continue
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            text = gzip.decompress(data)
            if len(text) <= largest:
                found.append((path.name.removesuffix(".gz"), text))
        if len(data) <= 2 * largest:
            found.append((path.name, data))
    return found


def placed(folder: Path, name: str, material: list[tuple[str, bytes]]) -> Path:
    """A folder for this seed, with the other parts of its database. cct.db is read only where
    profile.db is missing."""
    home = folder / f"of-{name}"
    if not home.exists():
        home.mkdir()
        left_out = "profile.db" if name.endswith("cct.db") else "cct.db"
        for other, data in material:
            if name.endswith(".db") and other.endswith(".db") and not other.endswith(left_out):
                (home / other).write_bytes(data)
    return home / name


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--first", type=int, default=0, help="number of the first file")
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--largest", type=int, default=LARGEST, help="bytes of a seed, unpacked")
    options = parser.parse_args()
    kinds: Counter[str] = Counter()
    material = seeds(options.traces, options.largest)
    worker = Worker()
    begin, slowest = time.monotonic(), 0.0
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.first, options.first + options.count):
            rng = random.Random(f"{options.seed}-{number}")
            name, data = material[number % len(material)]
            path = placed(Path(folder), name, material)
            path.write_bytes(next(mutations(data, rng, 1)))
            started = time.monotonic()
            kind, words = worker.ask(path, salvage=number % 2 == 1)
            slowest = max(slowest, time.monotonic() - started)
            kinds[kind] += 1
            if kind.isupper() or kind.startswith(("ESCAPED", "BAD")):
                print(f"{number}: {name}: {kind}: {words[:200]}")
                kept = Path(tempfile.gettempdir()) / f"fuzz-{number}-{name}"
                kept.write_bytes(path.read_bytes())
    worker.close()
    print(
        f"{options.count} files from {len(material)} seeds in {time.monotonic() - begin:.0f} s,"
        f" the slowest {slowest:.1f} s: "
        + ", ".join(f"{count} {kind}" for kind, count in kinds.most_common())
    )
    return 1 if any(kind[0].isupper() for kind in kinds) else 0


if __name__ == "__main__":
    sys.exit(main())
