"""SASS facts of our kernels beside those of Triton's tutorials, at the same tiles and shapes.

    python bench/gpu_sass.py [--targets cuda:sm_80,cuda:sm_90] [--only WORD]

Widest global load and store, asynchronous copies and matrix instructions of the whole kernel,
registers, spills, occupancy. `equal or better` compares each: wider, at least as many bytes
copied asynchronously where there are matrix instructions, as many matrix instructions for the
same work, no more spills, no less occupancy.
"""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec
from pathlib import Path

from planish.advise.kernel_facts import COPIES, MATRIX, KernelFacts
from planish.proc.pool import Call, Pool
from planish.tune.gpu_contests import attention, layernorm, matmul, softmax
from planish.tune.gpu_inspect import Launch, of_built, triton_build
from planish.tune.gpu_kernels import build_request, gpu_kernel, workers
from planish.tune.gpu_worker import Describe

FILE = Path(find_spec("planish.tune.gpu_tutorials").origin)
I16 = "i32:16"
_P = "*fp16:16"
# fmt: off
# name, our tensor, our tiles, the tutorial's function and signature, warps, stages
CASES = [
    ("matmul 4096 128x128x32", lambda: matmul(4096, 4096, 4096), {"C": "m=128 n=128 k=32 warps=4 stages=4"}, "matmul", f"{_P},{_P},{_P},{I16},{I16},{I16},{I16},1,{I16},1,{I16},1,128,128,32,8", 4, 4),
    ("matmul 4096 128x256x64", lambda: matmul(4096, 4096, 4096), {"C": "m=128 n=256 k=64 warps=8 stages=3"}, "matmul", f"{_P},{_P},{_P},{I16},{I16},{I16},{I16},1,{I16},1,{I16},1,128,256,64,8", 8, 3),
    ("matmul 64x64x32", lambda: matmul(4096, 4096, 4096), {"C": "m=64 n=64 k=32 warps=4 stages=4"}, "matmul", f"{_P},{_P},{_P},{I16},{I16},{I16},{I16},1,{I16},1,{I16},1,64,64,32,8", 4, 4),
    ("softmax 4096x1024 f32", lambda: softmax(4096, 1024), {"Y": "m=1 k=1024 warps=4 stages=2 persistent=432"}, "softmax", f"*fp32:16,*fp32:16,{I16},{I16},{I16},{I16},1024,2", 4, 2),
    ("softmax 4096x1000 f32", lambda: softmax(4096, 1000), {"Y": "m=1 k=1024 warps=8 stages=2 persistent=432"}, "softmax", f"*fp32:16,*fp32:16,i32,i32,{I16},i32,1024,2", 8, 2),
    ("softmax 4096x4096 f32", lambda: softmax(4096, 4096), {"Y": "m=1 k=4096 warps=8 stages=2 persistent=432"}, "softmax", f"*fp32:16,*fp32:16,{I16},{I16},{I16},{I16},4096,2", 8, 2),
    ("layernorm 4096x1024 f16", lambda: layernorm(4096, 1024), {"Y": "m=1 k=1024 warps=4"}, "layernorm", f"{_P},{_P},{_P},{_P},{I16},{I16},fp32,1024", 4, 3),
    ("layernorm 4096x8192 f16", lambda: layernorm(4096, 8192), {"Y": "m=1 k=8192 warps=8"}, "layernorm", f"{_P},{_P},{_P},{_P},{I16},{I16},fp32,8192", 8, 3),
    ("attention 4x16x1024x64", lambda: attention(4, 16, 1024, 64), {"O": "m=128 n=64 warps=4 stages=3"}, "attention", f"{_P},{_P},{_P},{_P},fp32,{I16},{I16},{I16},1,{I16},{I16},64,128,64", 4, 3),
    ("attention 4x16x1024x128", lambda: attention(4, 16, 1024, 128), {"O": "m=64 n=64 warps=4 stages=2"}, "attention", f"{_P},{_P},{_P},{_P},fp32,{I16},{I16},{I16},1,{I16},{I16},128,64,64", 4, 2),
]  # fmt: skip


def numbers(f: KernelFacts) -> dict[str, float]:
    """What is compared."""

    def widest(kind: str) -> int:
        return max(f.widths.get(kind, {0: 0}))

    copies = [a for a in f.accesses if a.copy]
    dense = bool(f.count(frozenset({"UTMALDG"})))
    matrix = f.count(MATRIX, loop=True) or f.count(MATRIX)
    return {
        "load": max(widest("global load"), widest("copy"), 16 * dense),
        "store": max(widest("global store"), 16 * bool(f.count(frozenset({"UTMASTG"})))),
        "async": max((a.bytes for a in copies), default=16 * dense),
        "copies": f.count(COPIES), "matrix": matrix, "registers": f.resources.registers,
        "spills": f.resources.spills, "occupancy": f.occupancy.share, "size": len(f.code.code),
    }  # fmt: skip


def better(ours: dict[str, float], theirs: dict[str, float]) -> list[str]:
    """Where ours is behind."""
    behind = [k for k in ("load", "store", "async") if ours[k] < theirs[k]]
    behind += ["matrix"] if bool(ours["matrix"]) != bool(theirs["matrix"]) else []
    behind += ["spills"] if ours["spills"] > theirs["spills"] else []
    behind += ["occupancy"] if ours["occupancy"] < theirs["occupancy"] else []
    return behind


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", default="cuda:sm_80,cuda:sm_90")
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    keys = (
        "load",
        "store",
        "async",
        "copies",
        "matrix",
        "registers",
        "spills",
        "occupancy",
        "size",
    )
    print(f"{'':36}" + "".join(f"{k:>10}" for k in keys))
    count = good = 0
    with workers("compile") as pool:
        for target in given.targets.split(","):
            for name, make, tiles, function, signature, warps, stages in CASES:
                if given.only not in name:
                    continue
                count += 1
                kernel = gpu_kernel(make(), target=target, configs=tiles)
                ours = numbers(_ours(pool, kernel, target))
                theirs = numbers(_theirs(pool, function, signature, warps, stages, target))
                behind = better(ours, theirs)
                good += not behind
                print(
                    f"{name}, {target}: {'equal or better' if not behind else 'behind in ' + ', '.join(behind)}"
                )
                for who, found in (("planish", ours), ("tutorial", theirs)):
                    print(f"  {who:34}" + "".join(f"{found[k]:>10.4g}" for k in keys), flush=True)
    print(f"\nequal or better in {good} of {count}")
    return 0 if good == count else 1


def _ours(pool: Pool, kernel, target: str) -> KernelFacts:
    [source] = kernel.kernels
    [reply] = pool.run([Call((), build_request(source, target))])
    assert reply.failure is None, reply.reason
    return of_built(reply.value, target).facts


def _theirs(
    pool: Pool, function: str, signature: str, warps: int, stages: int, target: str
) -> KernelFacts:
    [described] = pool.run([Call((), Describe(str(FILE), function))])
    request = triton_build(
        FILE, function, described.value, target, Launch(signature, warps, stages)
    )
    [reply] = pool.run([Call((), request)])
    assert reply.failure is None, reply.reason
    return of_built(reply.value, target).facts


if __name__ == "__main__":
    sys.exit(main())
