"""Chromium without a window, driven by real input over its debugging pipe (no package needed).

Protocol: JSON messages that end in a zero byte, read by the browser from descriptor 3 and written
to descriptor 4 (`--remote-debugging-pipe`). Input events go through the browser's own handling:
what is hit, and what it does, is what a user would see.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_SECONDS = 40.0


def chromium() -> str | None:
    """The browser's command, if there is one."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


class Browser:
    """One page of one browser; a context manager."""

    def __init__(self, command: str, folder: Path) -> None:
        commands, self._to = os.pipe()
        self._from, answers = os.pipe()

        def connect() -> None:
            """In the child: put the pipes where the browser looks for them."""
            ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
            for place, end in enumerate(ends, start=3):
                os.dup2(end, place)

        self._process = subprocess.Popen(
            [command, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--window-size=1000,800", f"--user-data-dir={folder}", "about:blank"],
            preexec_fn=connect, pass_fds=(3, 4), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        os.set_blocking(self._from, False)
        self._number = 0
        self._buffer = b""
        self._session = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)

    def open(self, address: str) -> None:
        """Load a page and wait until its script says that it is ready."""
        (page,) = [t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page"]
        found = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = found["sessionId"]
        self.call("Page.navigate", url=address)
        limit = time.monotonic() + _SECONDS
        while self.value("document.documentElement?.dataset.ready") != "yes":
            assert time.monotonic() < limit, "the page's script did not come to its end"
            time.sleep(0.05)

    def call(self, method: str, **values: Any) -> dict[str, Any]:
        """One command and its answer; events are passed over."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": values}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def value(self, code: str) -> Any:
        """What a piece of JavaScript is in the page."""
        found = self.call("Runtime.evaluate", expression=code, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def corner(self, selector: str) -> tuple[float, float]:
        """The upper left corner of an element in the window, after scrolling to it."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'start'}); const b = e.getBoundingClientRect();"
            " return [b.left, b.top]; })()"
        )
        return float(place[0]), float(place[1])

    def click(self, selector: str, x: float = 5, y: float = 5, times: int = 1) -> None:
        """Press and release the left button so far right of and below an element's corner."""
        left, top = self.corner(selector)
        for count in range(1, times + 1):
            self._mouse("mousePressed", left + x, top + y, button="left", clickCount=count)
            self._mouse("mouseReleased", left + x, top + y, button="left", clickCount=count)

    def drag(self, selector: str, begin: tuple[float, float], by: float) -> None:
        """Move something to the right by so many pixels."""
        left, top = self.corner(selector)
        x, y = left + begin[0], top + begin[1]
        self._mouse("mousePressed", x, y, button="left", clickCount=1)
        for part in (0.5, 1.0):
            self._mouse("mouseMoved", x + part * by, y, button="left", buttons=1)
        self._mouse("mouseReleased", x + by, y, button="left", clickCount=1)

    def hover(self, selector: str, x: float, y: float) -> None:
        """Move the mouse over a place."""
        left, top = self.corner(selector)
        self._mouse("mouseMoved", left + x, top + y)

    def wheel(self, selector: str, x: float, y: float, by: float) -> None:
        """Turn the wheel; negative is away from the user, which zooms in."""
        left, top = self.corner(selector)
        self._mouse("mouseWheel", left + x, top + y, deltaX=0, deltaY=by)

    def write(self, text: str) -> None:
        """Type into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key: str) -> None:
        """One key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key,
                      **({"text": key} if len(key) == 1 and kind == "keyDown" else {}))  # fmt: skip

    def _mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def _next(self) -> dict[str, Any]:
        limit = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            assert time.monotonic() < limit, "the browser does not answer"
            try:
                more = os.read(self._from, 1 << 20)
            except BlockingIOError:
                time.sleep(0.005)
                continue
            assert more, "the browser has ended"
            self._buffer += more
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found
