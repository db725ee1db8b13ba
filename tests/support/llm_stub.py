"""An OpenAI-compatible server on loopback whose answers a test chooses."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[dict[str, Any], int], tuple[int, Any]]


class Stub:
    """Answers each request with (status, text or raw bytes); notes bodies and headers."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Answer = lambda body, number: (200, "passes: globaldce")
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                stub.bodies.append(body)
                stub.headers.append(dict(self.headers))
                status, said = stub.answer(body, len(stub.bodies))
                if isinstance(said, str) and status == 200:
                    said = {"choices": [{"message": {"role": "assistant", "content": said}}]}
                data = said if isinstance(said, bytes) else json.dumps(said).encode()
                with contextlib.suppress(OSError):  # it may not have waited for us
                    self._send(status, data)

            def _send(self, status: int, data: bytes) -> None:
                self.send_response(status)
                if 300 <= status < 400:
                    self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *words: Any) -> None:
                return None

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"


@contextlib.contextmanager
def serve() -> Iterator[Stub]:
    """A stub that runs in a thread."""
    stub = Stub()
    thread = threading.Thread(target=stub.server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield stub
    finally:
        stub.server.shutdown()
        stub.server.server_close()
        thread.join()
