"""Reading and explaining traces: time and peak memory beside HolisticTraceAnalysis.

    python bench/trace_readers.py --traces FOLDER --hta PATH_TO_A_PYTHON_WITH_HTA
    python bench/trace_readers.py --scale 0.1 1 5      # synthetic traces of so many GB

Each measurement is a fresh process: import, load, breakdown by device, kernel sums, idle time by
cause (HTA: get_temporal_breakdown, get_gpu_kernel_breakdown, get_idle_time_breakdown, without
pictures, the last step included). Planish's side also nests the host's calls and charges the
idle time to them, for which HTA has nothing. Best of --rounds. Peak memory is the
largest sum over the process and all that it started (each page divided by the processes that
share it, sampled every 30 ms); "anonymous" leaves the pages of files out, which the system can
drop. HTA leaves device events out whose launch is not in the trace; "equal on
launched events" says that the numbers are the same once Planish does so too. It is no
dependency: install it into an environment of its own (pip install HolisticTraceAnalysis).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

FILES = ("kineto-diff-control", "kineto-diff-test", "kineto-nccl", "kineto-h100-qwen",
         "kineto-mi300-qwen")  # fmt: skip

OURS = """
import json, sys, time
begin = time.perf_counter()
import planish.trace.trace as t
imported = time.perf_counter()
trace = t.Trace.read(sys.argv[1])
loaded = time.perf_counter()
row = trace.breakdown()[0]
kernels = trace.kernels()
streams = [trace.idle(s.device, s.stream).by_cause() for s in trace.streams]
whole = trace.idle(row.device)
plain = time.perf_counter()
trace.blame(row.device)
end = time.perf_counter()
from planish.trace.timeline import breakdown
launched = trace.work.where(trace.work.launch >= 0)
linked = breakdown(launched, row.device, None) if len(launched) else row
print(json.dumps({"import": imported - begin, "load": loaded - imported, "analyse": plain - loaded,
    "blame": end - plain, "idle": row.idle / 1000, "compute": row.compute / 1000,
    "events": len(trace.events),
    "linked_idle": linked.idle / 1000, "linked_compute": linked.compute / 1000}))
"""

THEIRS = """
import json, logging, sys, time, warnings
warnings.filterwarnings("ignore"); logging.disable(logging.CRITICAL)
begin = time.perf_counter()
from hta.trace_analysis import TraceAnalysis
imported = time.perf_counter()
trace = TraceAnalysis(trace_files={0: sys.argv[1]}, include_last_profiler_step=True)
loaded = time.perf_counter()
row = trace.get_temporal_breakdown(visualize=False)
trace.get_gpu_kernel_breakdown(visualize=False, num_kernels=10**6, include_memory_kernels=True)
trace.get_idle_time_breakdown(ranks=[0], visualize=False)
end = time.perf_counter()
print(json.dumps({"import": imported - begin, "load": loaded - imported, "analyse": end - loaded,
    "idle": float(row["idle_time(us)"][0]), "compute": float(row["compute_time(us)"][0])}))
"""


class Peak(threading.Thread):
    """The most memory of a process and its descendants, in kB, sampled while it runs."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.whole = self.anonymous = 0
        self._pid = pid
        self._stop_now = threading.Event()
        self.start()

    def stop(self) -> None:
        self._stop_now.set()
        self.join()

    def run(self) -> None:
        while not self._stop_now.wait(0.03):
            sums = {"Pss:": 0, "Pss_Anon:": 0}
            for pid in descendants(self._pid):
                try:
                    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
                except OSError:
                    continue
                for words in map(str.split, lines):
                    if words[0] in sums:
                        sums[words[0]] += int(words[1])
            self.whole = max(self.whole, sums["Pss:"])
            self.anonymous = max(self.anonymous, sums["Pss_Anon:"])


def descendants(pid: int) -> list[int]:
    """The process and all below it."""
    found = [pid]
    for one in found:
        for task in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                found += [int(word) for word in task.read_text().split()]
            except OSError:
                continue
    return found


def measure(python: str, code: str, path: Path, rounds: int) -> dict[str, float] | str:
    """The best of several fresh processes, or the last line of what one said while failing."""
    best: dict[str, float] | None = None
    for _ in range(rounds):
        program = subprocess.Popen(
            [python, "-c", code, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, env={"HTA_DISABLE_NS_ROUNDING": "1", "PATH": "/usr/bin:/bin",
                            "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )  # fmt: skip
        peak = Peak(program.pid)
        out, said = program.communicate(timeout=3600)
        peak.stop()
        if program.returncode:
            return (said.strip().splitlines() or ["failed"])[-1]
        found: dict[str, float] = json.loads(out.strip().splitlines()[-1])
        found |= {"memory": peak.whole / 1024, "anonymous": peak.anonymous / 1024}
        if best is None or found["load"] + found["analyse"] < best["load"] + best["analyse"]:
            best = found
    assert best is not None
    return best


def compare(folder: Path, hta: str | None, rounds: int, files: Sequence[str]) -> None:
    """A line for each file."""
    print(f"{'file':22}{'planish':>10}{'+ blame':>9}{'memory':>9}{'HTA':>9}{'memory':>9}"
          f"{'faster':>9}{'smaller':>9}  idle and compute")  # fmt: skip
    for name in files:
        path = folder / f"{name}.json.gz"
        ours = measure(sys.executable, OURS, path, rounds)
        if isinstance(ours, str):
            raise SystemExit(f"{name}: {ours}")
        mine = ours["load"] + ours["analyse"]
        line = f"{name:22}{mine:9.2f}s{ours['blame']:8.2f}s{ours['memory']:6.0f} MB"
        theirs = measure(hta, THEIRS, path, rounds) if hta else "not measured"
        if isinstance(theirs, str):
            print(f"{line}  HTA: {theirs}")
            continue
        total = theirs["load"] + theirs["analyse"]
        verdict = "DIFFERENT"
        for prefix, words in (("linked_", "equal on launched events"), ("", "equal")):
            if all(abs(ours[prefix + k] - theirs[k]) < 0.02 for k in ("idle", "compute")):
                verdict = words
        whole = (total + theirs["import"]) / (mine + ours["import"])
        print(
            f"{line}{total:8.2f}s{theirs['memory']:6.0f} MB{total / mine:8.1f}x"
            f"{theirs['memory'] / ours['memory']:8.1f}x  {verdict}"
            f" (with imports {whole:.1f}x)"
        )


def synthesise(file: IO[str], size: float) -> int:
    """A Kineto trace of about `size` bytes: ops, launches, kernels. Returns the events."""
    written = file.write('{"schemaVersion": 1, "deviceProperties": [], "traceEvents": [\n')
    count, clock = 0, 0.0
    while written < size:
        link = count + 1
        lines = (
            f'  {{"ph": "X", "cat": "cpu_op", "name": "aten::op{count % 50}", "pid": 1, "tid": 1,'
            f' "ts": {clock:.3f}, "dur": 9.5, "args": {{"External id": {link},'
            f' "Record function id": 0, "Input Dims": [[64, {count % 7}], [64, 64]],'
            f' "Ev Idx": {count}}}}},\n'
            f'  {{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1,'
            f' "tid": 1, "ts": {clock + 2:.3f}, "dur": 3.25, "args": {{"External id": {link},'
            f' "cbid": 211, "correlation": {link}}}}},\n'
            f'  {{"ph": "X", "cat": "kernel", "name": "void kernel_{count % 90}<float>(int)",'
            f' "pid": 0, "tid": 7, "ts": {clock + 8:.3f}, "dur": {4 + count % 5}.125, "args":'
            f' {{"External id": {link}, "queued": 0, "device": 0, "context": 1, "stream": 7,'
            f' "correlation": {link}, "registers per thread": 32, "shared memory": 0,'
            f' "blocks per SM": 1.5, "warps per SM": 6.0, "grid": [128, 1, 1],'
            f' "block": [128, 1, 1], "est. achieved occupancy %": 50}}}},\n'
        )
        written += file.write(lines)
        count += 3
        clock += 10
    file.write('  {"ph": "X", "cat": "cpu_op", "name": "end", "pid": 1, "tid": 1, "ts": 0,'
               ' "dur": 1, "args": {}}\n]}\n')  # fmt: skip
    return count + 1


def scale(sizes: list[float], folder: Path | None) -> None:
    """Time and memory over size, with the slope between the smallest and the largest."""
    points: list[tuple[float, float]] = []
    anonymous: list[float] = []
    for size in sizes:
        with tempfile.NamedTemporaryFile("w", suffix=".json", dir=folder) as file:
            events = synthesise(file, size * 1e9)
            file.flush()
            found = measure(sys.executable, OURS, Path(file.name), 1)
        if isinstance(found, str):
            raise SystemExit(found)
        points.append((size, found["memory"]))
        anonymous.append(found["anonymous"])
        print(
            f"{size:5.1f} GB  {events:>11,} events  load {found['load']:7.2f} s  analyse"
            f" {found['analyse']:6.2f} s  blame {found['blame']:6.2f} s  peak"
            f" {found['memory']:7.0f} MB (anonymous {found['anonymous']:6.0f} MB)"
            f"  {size * 1000 / found['load']:5.0f} MB/s",
            flush=True,
        )
    if len(points) > 1:
        slope = (points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])
        alone = (anonymous[-1] - anonymous[0]) / (points[-1][0] - points[0][0])
        print(f"slope: {slope:.0f} MB of memory for each GB of trace ({alone:.0f} anonymous)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with the shared Kineto files")
    parser.add_argument("--hta", help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--only", nargs="*", default=FILES, metavar="NAME", help="of the files")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--scale", type=float, nargs="*", help="sizes in GB of synthetic traces")
    parser.add_argument("--folder", type=Path, help="where synthetic traces are written")
    options = parser.parse_args()
    if options.traces:
        compare(options.traces, options.hta, options.rounds, options.only)
    if options.scale:
        scale(sorted(options.scale), options.folder)
    if not options.traces and not options.scale:
        parser.error("give --traces or --scale")


if __name__ == "__main__":
    main()
