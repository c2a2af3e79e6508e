"""A bound on what one token has under way, so that its questions cannot keep all others out.

The gateway answers in few threads. A question of the greatest length takes seconds to read, and
asks wait for their turn at the curator: one token could fill every thread with either.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dither.protocol.errors import BusyError

MOST_PER_TOKEN = 10


class TokenTurns:
    """How many requests of each token are under way. It is used on the event loop alone."""

    def __init__(self) -> None:
        self._under_way: Counter[str] = Counter()

    @contextmanager
    def take_turn(self, token: str) -> Iterator[None]:
        """Count a request; BusyError, before anything is asked, where its token has too many."""
        key = hashlib.sha256(token.encode()).hexdigest()
        if self._under_way[key] >= MOST_PER_TOKEN:
            raise BusyError(
                f"this token has {MOST_PER_TOKEN} requests under way: nothing was charged, ask "
                "again when one of them is answered"
            )
        self._under_way[key] += 1
        try:
            yield
        finally:
            self._under_way[key] -= 1
            if not self._under_way[key]:
                del self._under_way[key]
