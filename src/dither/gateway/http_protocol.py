"""HTTP for strangers: whoever connects must send a request soon, or is cut off.

uvicorn waits for ever for the first request of a connection, and for the end of its headers. So few
silent connections, without any token, would use up all that a gateway serves at a time.
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS_FOR_HEADERS = 30


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 whose requests begin within a bound after the connection or the last response."""

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Expect the first request."""
        super().connection_made(transport)
        self._expect_request()

    def on_response_complete(self) -> None:
        """Expect the next request, of which a pipeline may hold some bytes already."""
        self._expect_request()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Expect nothing more."""
        if self._deadline is not None:
            self._deadline.cancel()
        super().connection_lost(exc)

    def _expect_request(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(SECONDS_FOR_HEADERS, self._close_if_waiting)

    def _close_if_waiting(self) -> None:
        """Close the connection unless a request is being answered."""
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()
