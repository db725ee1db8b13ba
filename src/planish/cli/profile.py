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
@click.pass_obj
def command(words: list[str], as_json: bool, period: float, out: Path | None) -> None:
    """Run a program and measure its energy: planish profile -- python train.py

    Reads RAPL and hwmon where the system lets it, and NVIDIA GPUs with nvidia-ml-py installed.
    The exit code is the program's.
    """
    from planish.cli.profile_show import show_profile
    from planish.measure.profile import profile, write_samples

    if not words:
        raise click.UsageError("no program given; write it behind --")
    found = profile(words, period)
    if out is not None:
        write_samples(found, out)
    if as_json:
        print(json.dumps(found.to_json(), indent=2))
    else:
        show_profile(found)
    sys.exit(found.code)
