"""One of several curators of a ledger: the one that answers now.

Of curators that share a ledger one serves, and the others listen on nothing until they take over.
A gateway that knows the addresses of all connects to the first that accepts. One that accepts and
does not answer (a paused process) is found by a call without a token, which every curator refuses
at once; then connections to it are used no more. A call that was sent is never sent again: who
asked under an idempotency key asks again, and pays once.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Sequence

from dither.protocol.errors import ProtocolError
from dither.protocol.frames import END_OF_STREAM, MOST_REPLY_BYTES, receive_frame, write_call
from dither.protocol.messages import CallFrame, ListDatasets
from dither.remote.transport import SocketPool

SECONDS_BETWEEN_CHECKS = 1.0
SECONDS_TO_ANSWER = 3.0
Connect = Callable[[], socket.socket]


class CuratorChoice:
    """The curator that calls go to, of several."""

    def __init__(self, connectors: Sequence[Connect]) -> None:
        self._connectors = tuple(connectors)
        self._current = 0

    def connect(self) -> socket.socket:
        """A connection to the current curator, or to the next one that accepts; OSError if none."""
        refusal: OSError | None = None
        for index in self._list_candidates():
            try:
                connection = self._connectors[index]()
            except OSError as error:
                refusal = error
            else:
                self._current = index
                return connection
        assert refusal is not None
        raise refusal

    def _list_candidates(self) -> list[int]:
        """All curators, the current one first."""
        count = len(self._connectors)
        return [(self._current + step) % count for step in range(count)]

    def choose(self) -> bool:
        """Take the first curator that answers; whether it is another than before."""
        for index in self._list_candidates():
            if is_answering(self._connectors[index]):
                changed = index != self._current
                self._current = index
                return changed
        return False


def is_answering(connect: Connect, seconds: float = SECONDS_TO_ANSWER) -> bool:
    """Whether a curator replies to a call; without a token it refuses, which is a reply."""
    frame = CallFrame(number=0, token="", call=ListDatasets())
    try:
        with connect() as connection:
            connection.settimeout(seconds)
            connection.sendall(write_call(frame.model_dump()))
            return receive_frame(connection, MOST_REPLY_BYTES, seconds) is not END_OF_STREAM
    except (OSError, ProtocolError):
        return False


def make_pool(connectors: Sequence[Connect]) -> SocketPool:
    """Connections to the curator that answers, of one or several."""
    if len(connectors) == 1:
        return SocketPool(connectors[0])
    choice = CuratorChoice(connectors)
    pool = SocketPool(choice.connect)
    threading.Thread(target=watch, args=(choice, pool), daemon=True, name="curators").start()
    return pool


def watch(
    choice: CuratorChoice, pool: SocketPool, is_stopped: threading.Event | None = None
) -> None:
    """Look every second which curator answers; after a change no idle connection is used again."""
    stopped = is_stopped or threading.Event()
    while not stopped.wait(SECONDS_BETWEEN_CHECKS):
        if choice.choose():
            pool.close()
