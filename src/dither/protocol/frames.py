"""Frames on a stream: four bytes with the length, big-endian, then canonical JSON in UTF-8.

A frame that is too long, not UTF-8, not JSON, or not in the one canonical spelling is refused, and
the connection is closed: after it nobody can tell where the next frame would start.
"""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from dither.canonical import dumps
from dither.protocol.errors import ProtocolError
from dither.strict_json import read_json

MOST_CALL_BYTES = 2**20
MOST_REPLY_BYTES = 2**30
MAX_DEPTH = 300
END_OF_STREAM = object()
"""What is received where a stream has ended between two frames."""
_LENGTH = struct.Struct(">I")


def write_frame(document: Any, max_bytes: int) -> bytes:
    """The bytes of a frame.

    >>> write_frame({"a": 1}, 100)
    b'\\x00\\x00\\x00\\x07{"a":1}'
    """
    try:
        body = dumps(document).encode()
    except (TypeError, ValueError, RecursionError):
        raise ProtocolError("canonical JSON has no such number or key: write texts") from None
    if len(body) > max_bytes:
        raise ProtocolError(f"a message has at most {max_bytes:,} bytes: ask for less at once")
    return _LENGTH.pack(len(body)) + body


def write_call(document: Any) -> bytes:
    """The frame of a call; ProtocolError where the curator would not read it."""
    frame = write_frame(document, MOST_CALL_BYTES)
    read_document(frame[_LENGTH.size :])
    return frame


def receive_frame(connection: socket.socket, max_bytes: int, seconds: float | None = None) -> Any:
    """The next document of a stream; END_OF_STREAM where it ended between two frames.

    A frame may be awaited for ever; once it has begun, all of it must come within `seconds`.
    """
    head = connection.recv(_LENGTH.size)
    if not head:
        return END_OF_STREAM
    deadline = None if seconds is None else time.monotonic() + seconds
    head += _receive_bytes(connection, _LENGTH.size - len(head), deadline)
    if len(head) < _LENGTH.size:
        raise ProtocolError("the stream ended inside a frame")
    (length,) = _LENGTH.unpack(head)
    if length > max_bytes:
        raise ProtocolError(f"a frame of more than {max_bytes:,} bytes")
    body = _receive_bytes(connection, length, deadline)
    if len(body) < length:
        raise ProtocolError("the stream ended inside a frame")
    return read_document(body)


def read_document(body: bytes, *, is_canonical: bool = True) -> Any:
    """The document of a frame, in its canonical spelling; HTTP bodies may have another one."""
    try:
        text = body.decode()
        document = read_json(text, max_characters=len(text), max_depth=MAX_DEPTH)
        is_readable = not is_canonical or dumps(document) == text
    except (ValueError, RecursionError, TypeError):
        raise ProtocolError("a frame that is no JSON of this protocol") from None
    if not is_readable:
        raise ProtocolError("a frame that is not canonical JSON")
    return document


def _receive_bytes(connection: socket.socket, count: int, deadline: float | None) -> bytes:
    """So many bytes of a stream; fewer, where it ends before. TimeoutError past the deadline."""
    chunks = bytearray()
    while len(chunks) < count:
        if deadline is not None:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            connection.settimeout(left_s)
        chunk = connection.recv(min(count - len(chunks), 2**20))
        if not chunk:
            break
        chunks += chunk
    return bytes(chunks)
