"""Text to one SELECT statement, by sqlglot's parser; none of its rewrites."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from dither.errors import QueryError
from dither.sql.refuse import refuse

MAX_LENGTH = 100_000


def parse(sql: str) -> exp.Select:
    """The one SELECT in the text.

    >>> parse("SELECT COUNT(*) FROM visits").sql()
    'SELECT COUNT(*) FROM visits'
    """
    if not isinstance(sql, str) or not sql.strip():
        raise QueryError("the question is empty: write SELECT COUNT(*) FROM table")
    if len(sql) > MAX_LENGTH:
        raise QueryError(f"the question is longer than {MAX_LENGTH} characters")
    try:
        statements = sqlglot.parse(sql, read="duckdb")
    except ParseError as error:
        raise refuse(*_where(error, sql)) from None
    except (SqlglotError, RecursionError) as error:
        raise QueryError(f"the question cannot be read: {type(error).__name__}") from None
    if len(statements) != 1 or statements[0] is None:
        raise QueryError("one question at a time: remove everything after the first ';'")
    if not isinstance(statements[0], exp.Select):
        raise QueryError(f"only SELECT is answered, not {statements[0].key.upper()}: questions never change data")
    return statements[0]


def _where(error: ParseError, sql: str) -> tuple[str, str, None]:
    found = error.errors[0] if error.errors else {}
    message = f"the question is not SQL: {found.get('description') or 'it ends too early'}"
    return f"{message} (line {found.get('line', 1)}, column {found.get('col', 1)})", sql, None
