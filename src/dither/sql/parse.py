"""Text to one query, by sqlglot's parser; none of its rewrites."""

from __future__ import annotations

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from dither.canonical import is_unicode
from dither.errors import QueryError
from dither.sql.refusals import REFUSALS
from dither.sql.refuse import refuse

MAX_LENGTH = 100_000


def parse(sql: str) -> exp.Query:
    """The one query in the text: a SELECT, or a UNION of some.

    >>> parse("SELECT COUNT(*) FROM visits").sql()
    'SELECT COUNT(*) FROM visits'
    """
    if not isinstance(sql, str) or not sql.strip():
        raise QueryError("the question is empty: write SELECT COUNT(*) FROM table")
    if len(sql) > MAX_LENGTH:
        raise QueryError(f"the question is longer than {MAX_LENGTH} characters")
    if not is_unicode(sql):
        raise QueryError("the question holds a lone surrogate, which is no Unicode: write the letter itself")
    try:
        statements = sqlglot.parse(sql, read="duckdb")
    except ParseError as error:
        raise refuse(*_where(error, sql)) from None
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError) as error:
        raise QueryError(f"the question cannot be read: {type(error).__name__}") from None
    found = [each for each in statements if each is not None]
    if len(found) != 1:
        raise QueryError("one question at a time: remove everything after the first ';'")
    query = found[0]
    while isinstance(query, exp.Subquery) and not any(
        value for part, value in query.args.items() if part != "this" and value
    ):
        query = query.this
    if not isinstance(query, (exp.Select, exp.SetOperation)):
        if sql.split(None, 1)[0].upper() == "EXPLAIN":
            raise QueryError(REFUSALS["explain"].message)
        raise QueryError(f"only SELECT is answered, not {query.key.upper()}: questions never change data")
    return query


def _where(error: ParseError, sql: str) -> tuple[str, str, None]:
    found = error.errors[0] if error.errors else {}
    message = f"the question is not SQL: {found.get('description') or 'it ends too early'}"
    return f"{message} (line {found.get('line', 1)}, column {found.get('col', 1)})", sql, None
