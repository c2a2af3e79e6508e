"""Metrics of a gateway: how many answers left, and nothing else.

An answer is counted when it leaves, and it leaves at the end of a slot. There is no duration, no
figure of the process, and no number of requests that are under way: all of these tell how long
questions of others take. Refusals are not counted: they tell what others may not ask.
"""

from __future__ import annotations

from threading import Lock

from dither.protocol import messages
from dither.protocol.repeat_messages import RepeatStored
from dither.remote.transport import SocketPool
from dither.version import __version__

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ANSWERED_CALLS = (messages.ReleaseRequest, RepeatStored)


class CountedSockets(SocketPool):
    """Connections to a curator that count the answers which come back."""

    def __init__(self, sockets: SocketPool) -> None:
        self._sockets = sockets
        self._counting = Lock()
        self._answers = 0

    def exchange(self, frame: messages.CallFrame) -> object:
        """Send a call and receive its reply; the reply to an ask may be an answer."""
        reply = self._sockets.exchange(frame)
        if isinstance(frame.call, _ANSWERED_CALLS) and _is_answer(reply):
            with self._counting:
                self._answers += 1
        return reply

    def next_number(self) -> int:
        """A number for the next call."""
        return self._sockets.next_number()

    def close(self) -> None:
        """Close all connections that no call uses."""
        self._sockets.close()

    def write_metrics(self) -> str:
        """The metrics in the text format of Prometheus."""
        with self._counting:
            answers = self._answers
        return (
            "# HELP dither_info The version of the gateway.\n"
            "# TYPE dither_info gauge\n"
            f'dither_info{{version="{__version__}"}} 1\n'
            "# HELP dither_answers_total Answers that left since the gateway started.\n"
            "# TYPE dither_answers_total counter\n"
            f"dither_answers_total {answers}\n"
        )


def _is_answer(reply: object) -> bool:
    return isinstance(reply, dict) and reply.get("error") is None
