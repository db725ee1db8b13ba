"""`planish`: the group of commands, and what all of them do with errors."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from planish import __version__
from planish.base.errors import PlanishError
from planish.cli.report import report

# Command to module and one line of help; imported when used, so that `--help` stays fast.
_COMMANDS = {
    "opt": ("planish.cli.opt", "Make C, C++ or LLVM IR files smaller; replay how."),
    "record": ("planish.cli.record", "Run a build and note what it compiles."),
    "tune": ("planish.cli.tune", "Make all units of a recorded build smaller."),
    "report": ("planish.cli.report_page", "Show what a tuning gained, as one HTML page."),
    "compile": ("planish.cli.compile", "Compile a tensor program to machine code."),
    "tune-kernel": ("planish.cli.tune_kernel", "Search for a faster schedule of a tensor program."),
    "gpu": ("planish.cli.gpu", "GPU kernels: compile tensor programs, judge kernels, measure."),
    "trace": ("planish.cli.trace", "Explain a profiler's trace: busy, idle and why, kernels."),
    "advise": ("planish.cli.advise", "Say what to change, from a trace or samples, and the gain."),
    "profile": ("planish.cli.profile", "Run a program and measure its energy beside it."),
    "verify": ("planish.cli.verify", "Say how far a result has been checked."),
    "doctor": ("planish.cli.doctor", "Say which toolchain was found and what is missing."),
    "learn": ("planish.cli.learn", "Learn from a corpus of programs what helps others."),
    "corpus": ("planish.cli.corpus", "Build a corpus of real programs to learn from."),
}


class _Lazy(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _COMMANDS:
            return None
        command = importlib.import_module(_COMMANDS[name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, words) for name, (_, words) in _COMMANDS.items()])


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="planish")
def group() -> None:
    """Make programs smaller and faster by learning how to drive compilers.

    \b
    planish opt lz4.c              find a smaller build; writes lz4.o and planish.lock
    planish opt lz4.c --replay     build it again from planish.lock, with no search
    planish compile "mk,kn->mn" --shape m=512,k=512,n=512     a tensor kernel and its speed
    planish trace run.json.gz      where the time of a GPU job went, and who is to blame
    planish verify a.ll b.ll       proved, tested or refuted, function by function
    planish doctor                 see which compiler is used
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command; a user's mistake is one line on standard error and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    # click would add what stands behind `--` to the sources; it is the compiler's.
    flags = words[words.index("--") + 1 :] if "--" in words else []
    words = words[: words.index("--")] if "--" in words else words
    try:
        group.main(words, standalone_mode=False, obj=flags)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.UsageError as error:
        where = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
        print(f"planish: error: {error.format_message()}{where}", file=sys.stderr)
        sys.exit(2)
    except PlanishError as error:
        report(error)
        sys.exit(2)
    except KeyboardInterrupt:
        print("planish: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        sys.stderr.close()  # the reader of our output went away; there is nobody to tell
        sys.exit(141)


if __name__ == "__main__":
    main()
