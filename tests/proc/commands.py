"""What the server of the tests runs."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

loaded = 0


def warm() -> None:
    global loaded
    loaded += 1


def run() -> None:
    action, *words = sys.argv[1:]
    print(f"begins {action}", flush=True)
    if action == "tell":
        data = sys.stdin.read()
        print(loaded, Path.cwd(), os.environ.get("COLOUR"), data, *words)
        print("to stderr", file=sys.stderr)
        sys.exit(3)
    if action == "fails":
        raise ValueError("a bug")
    if action == "dies":
        os.kill(os.getpid(), signal.SIGSEGV)
    if action == "waits":
        Path(words[0]).write_text(str(os.getpid()))
        try:
            time.sleep(600)
        except KeyboardInterrupt:
            print("interrupted")
            sys.exit(130)
