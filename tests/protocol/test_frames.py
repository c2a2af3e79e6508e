"""Frames: what is read is exactly what was written, and nothing else is read."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import pytest

from dither.protocol.errors import ProtocolError
from dither.protocol.frames import END_OF_STREAM, MAX_DEPTH, receive_frame, write_frame


def receive(content: bytes, max_bytes: int = 1000) -> object:
    """What a reader makes of a stream that holds these bytes and then ends."""
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(10)
        far.sendall(content)
        far.shutdown(socket.SHUT_WR)
        return receive_frame(near, max_bytes)


def frame(body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + body


@pytest.mark.parametrize(
    "number",
    [1.5, float("nan"), {1: 2}, 1j, 10**5000],
    ids=["fraction", "nan", "key", "complex", "long"],
)
def test_what_canonical_json_cannot_hold_is_an_error_of_the_protocol(number):
    with pytest.raises(ProtocolError, match="canonical JSON"):
        write_frame({"n": number}, 100)


def test_a_document_comes_back_as_it_was():
    document = {"b": [1, None, True, "é"], "a": {"deep": [[2**70]]}}
    assert receive(write_frame(document, 1000)) == document


def test_two_frames_on_one_stream_are_two_documents():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(write_frame({"n": 1}, 99) + write_frame({"n": 2}, 99))
        assert [receive_frame(near, 99), receive_frame(near, 99)] == [{"n": 1}, {"n": 2}]


def test_a_stream_that_ends_between_frames_ends():
    assert receive(b"") is END_OF_STREAM


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\0\0", "ended inside"),
        (frame(b'{"a":1}')[:-1], "ended inside"),
        (struct.pack(">I", 2**31), "more than"),
        (frame(b"\xff\xfe"), "no JSON"),
        (frame(b"{"), "no JSON"),
        (frame(b'{"a":1,"a":2}'), "no JSON"),
        (frame(b'{"a":1.5}'), "no JSON"),
        (frame(b'{"a":"\\ud800"}'), "no JSON"),
        (frame(b"[" * (MAX_DEPTH + 1)), "no JSON"),
        (frame(b'{"a": 1}'), "not canonical"),
        (frame(b'{"b":1,"a":2}'), "not canonical"),
        (frame(b'{"a":"\\u0041"}'), "not canonical"),
        (frame(b"GET / HTTP/1.1\r\n\r\n"), "no JSON"),
    ],
)
def test_anything_else_is_refused(content, reason):
    with pytest.raises(ProtocolError, match=reason):
        receive(content)


def test_a_message_that_is_too_long_is_not_sent():
    with pytest.raises(ProtocolError, match="at most"):
        write_frame({"text": "x" * 100}, 50)


def test_a_frame_that_comes_byte_by_byte_has_one_deadline_for_all_of_it():
    """A limit for each read alone would let 64 such peers hold every connection for hours."""
    near, far = socket.socketpair()
    stop = threading.Event()

    def dribble() -> None:
        with suppress(OSError):  # the reader leaves first
            far.sendall(struct.pack(">I", 10_000))
            while not stop.wait(0.02):
                far.sendall(b" ")

    sender = threading.Thread(target=dribble)
    sender.start()
    try:
        with near, pytest.raises(TimeoutError):
            receive_frame(near, 100_000, seconds=0.2)
    finally:
        stop.set()
        sender.join()
        far.close()
