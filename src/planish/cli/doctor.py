"""`planish doctor`: which toolchain was found, which targets it has, what is missing."""

from __future__ import annotations

import json
import sys

import click

from planish.base.config import read_config
from planish.base.errors import PlanishError


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def command(as_json: bool) -> None:
    """Say which toolchain is used, which targets it has, and what is missing.

    Exit code 0 when C can be compiled and optimised, else 2.
    """
    from planish.store.store import Store
    from planish.tune.session import Session

    findings: dict[str, object] = {}
    problems: list[str] = []
    with Session() as session:
        toolchain, info = session.toolchain, session.pool.info
        findings["libLLVM"] = f"{'.'.join(map(str, info.version))} ({toolchain.source})"
        findings["libLLVM path"] = str(toolchain.library)
        findings["targets"] = list(info.targets)
        front_end = toolchain.front_end
        if front_end is None:
            problems.append(f"{toolchain.problem}: only .ll and .bc files can be optimised")
        else:
            findings["front end"] = front_end.describe()
            findings["front end path"] = " ".join(front_end.command)
            if front_end.version[0] == info.version[0]:
                findings["more targets"] = ["RISCV", "WebAssembly"]
    config = read_config()
    try:
        with Store.open_default() as store:
            findings["store"] = f"{store.path} ({store.count():,} outcomes)"
    except PlanishError as error:
        problems.append(str(error))
    findings["cache"] = str(config.cache_dir)
    if as_json:
        print(json.dumps({**findings, "problems": problems}, indent=2))
    else:
        for name, value in findings.items():
            words = ", ".join(value) if isinstance(value, list) else value
            print(f"{name:16}{words}")
        print("\n".join(f"problem: {line}" for line in problems) or "all is well")
    if problems:
        sys.exit(2)
