"""Connections of the gateway: each serves one request at a time, and waits for the next.

A connection keeps public facts and offers, which cost time to make and belong to one token. How
many are kept is bounded; the token itself lives as long as its connection.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from dither.answer.result import Result
from dither.errors import RefusedError
from dither.remote.curator import RemoteCurator
from dither.remote.transport import SocketPool, SocketTransport
from dither.rules import PrivacyRule
from dither.session import Connection

MOST_KEPT = 64
_Key = tuple[str, str, str | None]


class AskedConnection:
    """A connection with the curator behind it."""

    def __init__(self, curator: RemoteCurator, pot: str | None) -> None:
        self.curator = curator
        self.pot = pot or curator.first_pot
        self.connection = Connection(curator, pot=self.pot, reuse_releases=False)


class ConnectionPool:
    """Idle connections by token, dataset and pot."""

    def __init__(self, sockets: SocketPool) -> None:
        self._sockets = sockets
        self._lock = Lock()
        self._idle: OrderedDict[_Key, list[AskedConnection]] = OrderedDict()

    @contextmanager
    def borrow(
        self,
        dataset: str,
        token: str,
        pot: str | None = None,
        idempotency_key: str | None = None,
    ) -> Iterator[AskedConnection]:
        """A connection for one request. One whose request failed is not used again."""
        key = (hashlib.sha256(token.encode()).hexdigest(), dataset, pot)
        borrowed = self._take(key)
        if borrowed is None:
            transport = SocketTransport(self._sockets, dataset, token)
            borrowed = AskedConnection(RemoteCurator(transport), pot)
        borrowed.curator.name_next_ask(idempotency_key)
        borrowed.curator.uses_kept_views = False
        yield borrowed
        self._put_back(key, borrowed)

    def ask(
        self,
        dataset: str,
        token: str,
        pot: str | None,
        idempotency_key: str | None,
        sql: str,
        terms: dict[str, Any],
    ) -> Result:
        """The answer to a question, by terms that were read before where there are some.

        Where a version was registered since, nothing was charged: it is asked again by the newest.
        A fresh answer is bought by terms of now, and a question in parts goes on with none of them.
        """
        curator = None
        try:
            with self.borrow(dataset, token, pot, idempotency_key) as borrowed:
                curator = borrowed.curator
                curator.uses_kept_views = not terms["fresh"]
                return borrowed.connection.sql(sql, **terms)
        except RefusedError as error:
            is_asked = curator is None or curator.has_released or terms["fresh"]
            if is_asked or error.rule is not PrivacyRule.CATALOG:
                raise
        with self.borrow(dataset, token, pot, idempotency_key) as borrowed:
            return borrowed.connection.sql(sql, **terms)

    def _take(self, key: _Key) -> AskedConnection | None:
        with self._lock:
            idle = self._idle.get(key)
            return idle.pop() if idle else None

    def _put_back(self, key: _Key, connection: AskedConnection) -> None:
        with self._lock:
            self._idle.setdefault(key, []).append(connection)
            self._idle.move_to_end(key)
            while sum(map(len, self._idle.values())) > MOST_KEPT:
                self._idle.popitem(last=False)
