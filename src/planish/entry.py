"""Where the program starts: compilers before anything else is imported, then the commands."""

from __future__ import annotations

import sys


def main() -> None:
    """`planish cc`, `planish c++`, or a command."""
    if sys.argv[1:2] in (["cc"], ["c++"]):
        from planish.build.cc import main as compile

        sys.exit(compile(sys.argv[1:]))
    from planish.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
