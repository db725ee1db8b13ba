"""`planish profile`: run a program and measure its energy beside it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click


@click.command("profile")
@click.option("--json", "as_json", is_flag=True, help="Print the measurements as JSON.")
@click.option(
    "--period", type=click.FloatRange(0.001, 10), default=0.05, show_default=True,
    help="Seconds between samples.",
)  # fmt: skip
@click.option(
    "--out", "-o", type=click.Path(path_type=Path), help="Write the samples, for joining to traces."
)
@click.option(
    "--cpu", type=click.Path(path_type=Path), metavar="FILE",
    help="Sample the program's CPU time with perf into FILE; planish trace FILE explains it.",
)  # fmt: skip
@click.option(
    "--frequency", type=click.IntRange(1, 10_000), default=199, show_default=True,
    help="Samples a second of --cpu.",
)  # fmt: skip
@click.option(
    "--opencl", type=click.Path(path_type=Path), metavar="FILE",
    help="Trace the OpenCL calls of a Python program into FILE; planish trace FILE explains it.",
)  # fmt: skip
@click.pass_obj
def command(
    words: list[str], as_json: bool, period: float, out: Path | None, cpu: Path | None,
    frequency: int, opencl: Path | None,
) -> None:  # fmt: skip
    """Run a program and measure its energy: planish profile -- python train.py

    With --cpu its CPU time is sampled as well: planish profile --cpu perf.data -- ./program
    With --opencl its kernels are traced: planish profile --opencl run.json -- python script.py

    Reads RAPL and hwmon where the system lets it, and GPUs through nvidia-ml-py or
    amdsmi.
    The exit code is the program's.
    """
    from planish.cli.profile_show import show_profile
    from planish.measure.cpu import perf_command
    from planish.measure.profile import profile, write_samples
    from planish.trace.traced import traced_command

    if not words:
        raise click.UsageError("no program given; write it behind --")
    command = traced_command(words, opencl) if opencl is not None else words
    if cpu is not None:
        command = perf_command(command, cpu, frequency)
    found = profile(command, period)
    if out is not None:
        write_samples(found, out)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        show_profile(found)
        if cpu is not None:
            print(f"samples of the CPU: planish trace {cpu}", file=sys.stderr)
    sys.exit(found.code)
