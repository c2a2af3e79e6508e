"""Fifty analysts ask at once: none is sent away, and who reads still finds a thread."""

from __future__ import annotations

import asyncio

from anyio.to_thread import current_default_thread_limiter

from dither.curator.schedule import MOST_WAITING
from dither.curator.server import MOST_CONNECTIONS
from dither.gateway.app import MOST_THREADS, make_app
from dither.gateway.repeats import MOST_AT_ONCE
from dither.remote.transport import SocketPool

ANALYSTS = 50
FOR_READERS = 8


def refuse_to_connect():
    raise OSError


def test_waiting_questions_leave_threads_and_connections_to_readers():
    assert MOST_WAITING >= ANALYSTS
    assert MOST_THREADS >= MOST_WAITING + FOR_READERS
    assert MOST_CONNECTIONS >= MOST_THREADS + MOST_AT_ONCE + FOR_READERS


def test_the_gateway_has_the_threads_that_it_states():
    app = make_app(SocketPool(refuse_to_connect))

    async def count_threads() -> float:
        async with app.router.lifespan_context(app):
            return current_default_thread_limiter().total_tokens

    assert asyncio.run(count_threads()) == MOST_THREADS
