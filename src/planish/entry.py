"""Where the program starts: replays and compilers before anything else is imported, then the rest.

A build starts it a thousand times, so what can be asked of a warm process is (`proc/client.py`).
"""

from __future__ import annotations

import sys

_WARM, _RUN = "planish.entry:warm", "planish.entry:run"


def main() -> None:
    """`planish cc`, `planish c++`, or a command."""
    words = sys.argv[1:]
    if words[:1] == ["opt"] and ("--replay" in words or "--locked" in words):
        code = ask_server(words)
        if code is not None:
            sys.exit(code)
    run()


def ask_server(words: list[str]) -> int | None:
    """The exit code of a warm process that did it; None where this one has to."""
    from planish.proc import client

    return client.run(words, _WARM, _RUN)


def run() -> None:
    """Do it here."""
    if sys.argv[1:2] in (["cc"], ["c++"], ["ld"]):
        from planish.build.cc import main as compile

        sys.exit(compile(sys.argv[1:], ask_server))
    from planish.cli.main import main as command

    command()


def warm() -> None:
    """Load what replays need."""
    import planish.build.cc
    import planish.cli.main
    import planish.cli.opt
    import planish.cli.opt_run
    import planish.tune.replay  # noqa: F401
    from planish.llvm.requests import HANDLER
    from planish.llvm.toolchain import find_library, find_toolchain
    from planish.proc import held

    library, _, _ = find_library()
    _, info = held.load(HANDLER, str(library))
    find_toolchain(info.version)
    find_toolchain(())  # as a session asks where the library's name tells its version


if __name__ == "__main__":
    main()
