"""Statements on a prepared copy in PostgreSQL: only aggregates leave, and one runs at a time."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from dither.data.engines.interface import MeasureError
from dither.data.engines.postgres.dialect import LOOKUPS, POSTGRES
from dither.data.engines.postgres.session import connect, load_psycopg
from dither.data.lower.dialect import Dialect
from dither.data.quoting import name as quote_name

_SECONDS_TO_CANCEL = 10.0
_NUMERIC = 1700
_TEXTS = (25, 1043)
_SETTINGS = {
    "default_transaction_read_only": "on",
    "enable_mergejoin": "off",
    "enable_memoize": "off",
    "random_page_cost": "2",
    "work_mem": "'64MB'",
    "jit": "off",
}
"""Settings of every session. When the server plans, it knows of private rows only what the catalog
declares and how many there are (`register/postgres/planning.py`): the plan does not follow from
their values. So it may take a large join for a small one, and then compare all rows with all, or
sort texts to merge them. Hash joins serve whatever the sizes are. Random pages cost less than by
default, since the rows of an owner lie side by side in every table."""
_BY_INDEX = "/* by index */ "
"""What a statement begins with where all of its nested loops look rows up in an index."""
_OVERRATING = 3
"""By how much the server overrates the cost of groups that are looked up: it counts the pages of
each lookup as if no lookup before had read them."""
_LOOKUP = re.compile(r'= \(*("[^"]+"|[A-Za-z_]\w*)\.')
"""A column of another table in the condition of an index scan."""


class PostgresEngine:
    """A registered copy in a schema of a database, opened read-only."""

    dialect = POSTGRES

    def __init__(self, location: str, schema: str) -> None:
        """Connect; the copy is the tables of `schema`."""
        self._location = location
        self._schema = schema
        self._errors = load_psycopg().Error
        self.connection = self._connect()

    def _connect(self) -> Any:
        """Open a connection that can write nothing and sees the copy's tables by their names."""
        connection = connect(self._location)
        try:
            for setting, value in (_SETTINGS | {"search_path": quote_name(self._schema)}).items():
                connection.execute(f"SET {setting} = {value}")
        except self._errors:
            connection.close()
            raise MeasureError("the registered copy cannot be opened") from None
        return connection

    def check(self) -> None:
        """Connect again where the connection was lost; the copy must be there. Reads no row."""
        for _ in range(2):
            try:
                row = self.connection.execute(
                    "SELECT to_regnamespace(quote_ident(%s)) IS NOT NULL", (self._schema,)
                ).fetchone()
            except self._errors:
                self.close()
                self.connection = self._connect()
                continue
            if row == (True,):
                return
            break
        raise MeasureError(
            "the registered copy cannot be opened: ask the steward to register again"
        )

    def compile(
        self, name: str, sql: str, *, is_kept: bool, rewrite: Callable[[Dialect], str]
    ) -> str:
        """Plan a statement in both dialects, which reads no row; return the cheaper text.

        It begins with _BY_INDEX where nested loops may run. Groups are looked up only there.
        """
        candidates = []
        try:
            self.connection.execute("SET enable_nestloop = on")
            # one text, planned once, where the statement joins no groups
            for text, overrating in {rewrite(LOOKUPS): _OVERRATING, sql: 1}.items():
                (((tree,),),) = self.connection.execute(f"EXPLAIN (FORMAT JSON) {text}").fetchall()
                if (is_by_index := _loops_by_index(tree["Plan"])) or text == sql:
                    candidates.append(
                        (tree["Plan"]["Total Cost"] / overrating, _BY_INDEX * is_by_index + text)
                    )
        except self._errors:
            raise MeasureError("the question could not be compiled") from None
        return str(min(candidates)[1])

    def fetch_rows(self, run: str) -> list[tuple[int, ...]]:
        """Run a statement and return its few rows as tuples of exact integers."""
        rows, _ = self._fetch(run)
        return [tuple(map(int, row)) for row in rows]

    def fetch_table(self, run: str) -> Any:
        """Run a statement and return its rows as an Arrow table."""
        import pyarrow as pa

        rows, described = self._fetch(run)
        columns = list(zip(*rows, strict=True)) if rows else [()] * len(described)
        arrays = [
            pa.array(column, _arrow_type(pa, code))
            for column, (_, code) in zip(columns, described, strict=True)
        ]
        return pa.table(arrays, names=[column for column, _ in described])

    def _fetch(self, run: str) -> tuple[list[tuple[Any, ...]], list[tuple[str, int]]]:
        """Run a statement and return its rows, with names and types of its columns.

        Connects again first where an earlier try lost the connection.
        """
        try:
            if self.connection.closed:
                self.connection = self._connect()
            self.connection.execute(f"SET enable_nestloop = {run.startswith(_BY_INDEX)}")
            cursor = self.connection.execute(run)
            assert cursor.description is not None
            described = [(column.name, column.type_code) for column in cursor.description]
            return cursor.fetchall(), described
        except self._errors:
            raise MeasureError("the engine failed") from None

    def stream(self, run: str, rows: int) -> Iterator[Any]:
        """Rows never leave the database: whoever asks for them was refused before."""
        raise MeasureError("the engine failed")

    def interrupt(self) -> None:
        """Ask the server to stop the statement that runs."""
        with suppress(self._errors):
            self.connection.cancel_safe(timeout=_SECONDS_TO_CANCEL)

    def close(self) -> None:
        """Close the connection; harmless when called again."""
        with suppress(self._errors):
            self.connection.close()


def _loops_by_index(plan: Any) -> bool:
    """Whether every nested loop of a plan finds its inner rows in an index, by a value of its outer
    row.

    With many rows such a loop is slower than a hash join. But it ends: its work is that of its
    outer rows and of the inner rows that they meet.
    """
    steps = plan.get("Plans", [])
    if plan["Node Type"] == "Nested Loop":
        inner = steps[1]
        while len(inner.get("Plans", [])) == 1:
            (inner,) = inner["Plans"]
        if not _LOOKUP.search(inner.get("Index Cond", "")):
            return False
    return all(map(_loops_by_index, steps))


def _arrow_type(pa: Any, code: int) -> Any:
    """The type of a column in Arrow: integers stay exact."""
    if code in _TEXTS:
        return pa.string()
    return pa.decimal128(38, 0) if code == _NUMERIC else pa.int64()
