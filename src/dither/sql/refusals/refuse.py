"""Errors in a question: the rule, the position in its text, and what to write instead."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Protocol

from sqlglot import exp

from dither.catalog import Catalog
from dither.errors import QueryError, RefusedError
from dither.sql.refusals.own_names import write_remedy
from dither.sql.refusals.table import REFUSALS


class QuestionContext(Protocol):
    """A question and the catalog that it is about."""

    sql: str
    catalog: Catalog


def refuse(
    message: str, sql: str, node: exp.Expr | None = None, *, span: tuple[int, int] | None = None
) -> QueryError:
    """Make a QueryError that shows the line of the question with the node marked.

    What has no position of its own is marked at the first word. The caller raises it.
    """
    start, end = span or _find_nearest_span(node)
    if end <= start and not sql.strip():
        return QueryError(message)
    if end <= start:
        start = len(sql) - len(sql.lstrip())
        end = start + len(sql[start:].split(None, 1)[0])
    line_start = sql.rfind("\n", 0, start) + 1
    line_end = sql.find("\n", start)
    line = sql[line_start : line_end if line_end >= 0 else len(sql)]
    marks = " " * (start - line_start) + "^" * max(1, min(end, line_start + len(line)) - start)
    return QueryError(f"{message}\n  {line}\n  {marks}", start=start, end=end)


def make_refusal(name: str, context: QuestionContext, node: exp.Expr | None = None) -> QueryError:
    """The error of a row of the table of refusals, in the names of the question's tables."""
    row = REFUSALS[name]
    message = row.write_message(write_remedy(row, context.catalog, node))
    return refuse(message, context.sql, node)


def locate_refusal(error: RefusedError, sql: str, node: exp.Expr | None = None) -> QueryError:
    """What the rules of plans refuse, with its position in the question."""
    return refuse(str(error), sql, node)


def find_span(node: exp.Expr | None) -> tuple[int, int]:
    """Start and end of a node in the question's text; (0, 0) where the parser kept none."""
    if node is None:
        return 0, 0
    spans = [
        (descendant.meta["start"], descendant.meta["end"] + 1)
        for descendant in node.walk()
        if "start" in descendant.meta and "end" in descendant.meta
    ]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else (0, 0)


def _find_nearest_span(node: exp.Expr | None) -> tuple[int, int]:
    """Find the span of a node, or of the nearest node around it that has one."""
    span = find_span(node)
    while node is not None and span == (0, 0):
        node = node.parent
        span = find_span(node)
    return span


def quote_node(node: exp.Expr, longest: int = 60) -> str:
    """A node as SQL, for a message; cut where it is longer than `longest` characters."""
    text = node.sql(dialect="duckdb")
    return text if len(text) <= longest else text[: longest - 3] + "..."


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """Write a hint with the closest name, else the list of names."""
    names = list(dict.fromkeys(options))
    close = difflib.get_close_matches(word.lower(), [option.lower() for option in names], 1, 0.6)
    if close:
        return f"did you mean {next(option for option in names if option.lower() == close[0])}?"
    return f"there are {', '.join(names[:50])}" if names else "there are none"
