"""`--workers`: the one option of every command that can spread its work over a cluster."""

from __future__ import annotations

import click

workers_option = click.option(
    "--workers", default="", metavar="ray|ray://HOST:PORT|HOST:PORT",
    help="Spread the work over the machines of this Ray cluster that are like this one; results "
    "do not depend on how many there are.",
)  # fmt: skip
