"""`planish gpu`: compile tensor programs for GPUs, judge and compare GPU kernels, measure."""

from __future__ import annotations

import importlib

import click

_COMMANDS = {
    "compile": ("planish.cli.gpu_compile", "Lower a tensor program to Triton, check, compile."),
    "tune": ("planish.cli.gpu_tune", "Search a kernel's tiles; measured where there is a GPU."),
    "inspect": ("planish.cli.gpu_inspect", "Judge any GPU kernel without running it."),
    "diff": ("planish.cli.gpu_diff", "Compare two GPU kernels."),
    "bench": ("planish.cli.gpu_bench", "Measure on this machine's GPU, beside torch."),
}


class _Lazy(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        found = importlib.import_module(_COMMANDS[name][0]).command
        assert isinstance(found, click.Command)
        return found

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in _COMMANDS.items()])


@click.group("gpu", cls=_Lazy, no_args_is_help=True)
def command() -> None:
    """GPU kernels: from tensor programs to Triton, and what stands in any kernel's way.

    Only `bench` needs a GPU.

    \b
    planish gpu compile "mk,kn->mn" --shape m=512,k=512,n=512 --type f16 --source
    planish gpu tune "mk,kn->mn" --shape m=512,k=512,n=512 --lock planish.lock
    planish gpu inspect kernel.cubin
    planish gpu inspect kernels.py:softmax --signature "*fp32:16, *fp32:16, i32, 1024"
    planish gpu diff old.cubin new.cubin
    """
