"""The connection for programs with an event loop: each question waits in a thread of its own.

A question that was cancelled is not taken back: it is charged, and its answer is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any


class AsyncConnection:
    """A connection whose methods are awaited; several may be under way at once.

    It has the methods of `dither.Connection`: `await con.sql(...)`, `await con.preview(...)`.
    """

    def __init__(self, connect: Callable[[], Any]) -> None:
        self._connect = connect
        self._idle: list[Any] = []

    async def sql(self, sql: str, **terms: Any) -> Any:
        """Ask: as `Connection.sql`."""
        return await self._run("sql", sql, **terms)

    async def preview(self, sql: str, **terms: Any) -> Any:
        """Price and error of a question: as `Connection.preview`."""
        return await self._run("preview", sql, **terms)

    async def explain(self, sql: str, **terms: Any) -> Any:
        """How a question would be answered: as `Connection.explain`."""
        return await self._run("explain", sql, **terms)

    async def suggest(self, what: str, of: str, **terms: Any) -> Any:
        """Buy a bound or a limit: as `Connection.suggest`."""
        return await self._run("suggest", what, of, **terms)

    async def budget(self) -> Any:
        """What was spent and what is left: as `Connection.budget`."""
        return await self._run("budget")

    async def history(self) -> Any:
        """What was asked: as `Connection.history`."""
        return await self._run("history")

    async def describe(self, table: str) -> Any:
        """The columns of a table: as `Connection.describe`."""
        return await self._run("describe", table)

    async def _run(self, method: str, *arguments: Any, **terms: Any) -> Any:
        """Call a method of an idle connection, or of a new one, in a thread."""
        return await asyncio.to_thread(self._call, method, arguments, terms)

    def _call(self, method: str, arguments: tuple[Any, ...], terms: dict[str, Any]) -> Any:
        connection = self._idle.pop() if self._idle else self._connect()
        try:
            return getattr(connection, method)(*arguments, **terms)
        finally:
            self._idle.append(connection)
