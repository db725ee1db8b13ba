"""Length-prefixed pickles over a socket between processes of one program."""

from __future__ import annotations

import pickle
import socket
import struct
from typing import Any

_HEADER = struct.Struct("<Q")


class Closed(Exception):
    """The other end is gone."""


def send(channel: socket.socket, message: object) -> None:
    """Send one message; raises Closed when the other end is gone."""
    body = pickle.dumps(message, protocol=5)
    try:
        channel.sendall(_HEADER.pack(len(body)) + body)
    except (BrokenPipeError, ConnectionError) as error:
        raise Closed from error


def receive(channel: socket.socket) -> Any:
    """Receive one message; raises Closed at the end of the stream."""
    (size,) = _HEADER.unpack(_exactly(channel, _HEADER.size))
    return pickle.loads(_exactly(channel, size))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        try:
            chunk = channel.recv(min(size - len(data), 1 << 20))
        except ConnectionError as error:
            raise Closed from error
        if not chunk:
            raise Closed
        data += chunk
    return bytes(data)
