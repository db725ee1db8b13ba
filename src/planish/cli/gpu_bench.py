"""`planish gpu bench`: kernels measured on this machine's GPU."""

from __future__ import annotations

import json
from pathlib import Path

import click


@click.command("bench")
@click.option(
    "--rounds",
    default=50,
    type=click.IntRange(2),
    show_default=True,
    help="Samples of every rival.",
)
@click.option("--quick", is_flag=True, help="Small shapes only.")
@click.option("--seed", default=0, show_default=True, help="Of inputs and of the order.")
@click.option("--only", default="", help="Only programs with this in their name.")
@click.option("--no-ranking", is_flag=True, help="Leave out the estimate's rank correlation.")
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path),
    default=None,
    help="Write the report as JSON.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def command(
    rounds: int,
    quick: bool,
    seed: int,
    only: str,
    no_ranking: bool,
    output: Path | None,
    as_json: bool,
) -> None:
    """Measure products, softmax, layer norms and attention beside torch, inductor and tutorials.

    Results are checked first, into poisoned memory; each sample has its own inputs and a flushed
    L2 cache. Needs a GPU and torch; where there is none this says so (exit code 2).
    """
    from planish.base.files import check_writable, write_atomic
    from planish.tune.gpu_bench import TorchDevice, find_gpu, run_contest
    from planish.tune.gpu_contests import FULL, QUICK, contests, estimate_against_time

    torch = find_gpu()
    if output is not None:
        check_writable(output)
    device = TorchDevice()
    found = []
    for contest in contests(device.target, torch, shapes=QUICK if quick else FULL):
        if only in contest.name:
            found.append(run_contest(device, contest, rounds=rounds, seed=seed))
            if not as_json:
                _show(found[-1].to_json())
    document = {
        "device": device.name, "target": device.target, "torch": str(torch.__version__),
        "rounds": rounds, "seed": seed, "programs": [r.to_json() for r in found],
    }  # fmt: skip
    if not no_ranking:
        correlation, rows = estimate_against_time(
            device, device.target, torch, seed=seed, size=512 if quick else 2048
        )
        document["estimate"] = {"spearman": correlation, "rows": rows}
        if not as_json:
            print(f"estimate against time over {len(rows)} tiles: Spearman {correlation:.2f}")
    if output is not None:
        write_atomic(output, json.dumps(document, indent=2) + "\n")
    if as_json:
        print(json.dumps(document, indent=2))


def _show(one: dict[str, object]) -> None:
    print(one["name"])
    timings = one["timings"]
    assert isinstance(timings, list | tuple)
    for t in timings:
        low, high = t["quartiles"]
        against = ""
        if t["ratio"]:
            least, middle, most = t["ratio"]
            against = f"  {middle:.2f} of Planish's time ({least:.2f} to {most:.2f})"
        print(
            f"  {t['rival']:24} {t['median'] * 1e6:10.1f} us ({low * 1e6:.1f} to {high * 1e6:.1f})"
            f" {t['tflops']:8.1f} TFLOP/s{against}"
        )
    refused = one["refused"]
    assert isinstance(refused, dict)
    for name, words in refused.items():
        print(f"  {name:24} not timed: {words}")
