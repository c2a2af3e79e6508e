"""The gateway's connections to a curator: each reply belongs to the call before it."""

from __future__ import annotations

import socket
import threading

import pytest

from dither.protocol import messages
from dither.protocol.errors import ProtocolError
from dither.protocol.frames import MOST_CALL_BYTES, receive_frame, write_frame
from dither.remote.transport import SocketPool, SocketTransport


def answer(end: socket.socket, shift: int) -> None:
    """Answer one call under a number that is so much greater."""
    frame = receive_frame(end, MOST_CALL_BYTES)
    result = {"kind": "datasets", "names": ["of another"]}
    number = frame["number"] + shift
    reply = {"v": 1, "number": number, "result": result, "error": None}
    end.sendall(write_frame(reply, 1000))


@pytest.mark.parametrize("shift", [0, -1, 1])
def test_a_reply_to_another_call_is_given_to_nobody_and_ends_the_connection(monkeypatch, shift):
    here, there = socket.socketpair()
    monkeypatch.setattr(SocketPool, "_connect", lambda _: here)
    pool = SocketPool(lambda: None)
    threading.Thread(target=answer, args=(there, shift), daemon=True).start()
    call = SocketTransport(pool, "clinic", "token")
    with there:
        if shift == 0:
            reply = call.call(messages.ListDatasets(), messages.DatasetNames)
            assert reply.names == ["of another"] and pool._idle == [here]
        else:
            with pytest.raises(ProtocolError, match="another call"):
                call.call(messages.ListDatasets(), messages.DatasetNames)
            assert pool._idle == [] and here.fileno() == -1
        pool.close()
