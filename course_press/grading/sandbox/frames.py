"""Frames on a socket between the grader and a learner's process: a header in JSON, and bytes."""

import json
import socket
import struct
import time
from typing import Any

HEAD = struct.Struct("!II")
# Bytes that a frame may have at most: a learner's process can write what it likes.
HEADER, PAYLOAD = 1 << 16, 1 << 23


def send(to: socket.socket, header: dict[str, Any], payload: bytes = b"") -> None:
    """Send one frame."""
    text = json.dumps(header).encode()
    to.sendall(HEAD.pack(len(text), len(payload)) + text + payload)


def receive(from_: socket.socket, end: float | None = None) -> tuple[bytes, bytes]:
    """The next frame, header and bytes; TimeoutError at `end`, EOFError where none comes."""
    header, payload = HEAD.unpack(_exactly(from_, HEAD.size, end))
    if header > HEADER or payload > PAYLOAD:
        raise EOFError("a frame is too long")
    return _exactly(from_, header, end), _exactly(from_, payload, end)


def _exactly(from_: socket.socket, count: int, end: float | None) -> bytes:
    found = bytearray()
    while len(found) < count:
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError
            from_.settimeout(left)
        try:
            part = from_.recv(min(count - len(found), 1 << 20))
        except ConnectionError:
            part = b""
        if not part:
            raise EOFError("the other side has closed")
        found += part
    return bytes(found)
