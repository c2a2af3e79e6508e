"""Text to one query, by sqlglot's parser; none of its rewrites.

What a text may hold is bounded here.
"""

from __future__ import annotations

import re

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from dither.canonical import is_unicode, shorten
from dither.catalog import written
from dither.errors import QueryError
from dither.rules import PrivacyRule
from dither.sql.refusals.refuse import refuse
from dither.sql.refusals.syntax import (
    describe_open_quote,
    describe_syntax_error,
    describe_unreadable,
    find_first_word,
)
from dither.sql.refusals.table import REFUSALS
from dither.sql.tree_nodes import DUCKDB, list_children, list_nodes

MAX_LENGTH = 100_000
MAX_WORD = 1_000
MAX_PARENTHESES = 100
MAX_DEPTH = 100
MAX_STEPS = 50_000
_LONG_WORD = re.compile(rf"\w{{{MAX_WORD + 1}}}")
_QUOTED = re.compile(
    r"""`([^`"\n]*)`|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|/\*.*?\*/""", re.DOTALL
)
"""A name in backticks, or what a backtick has no meaning in: texts, names in quotes, comments."""
_TOP = re.compile(
    r"\s*SELECT\s+(?:DISTINCT\s+)?(TOP\s*(?:\(\s*([0-9]+)\s*\)|([0-9]+)))(?![\w.])", re.IGNORECASE
)
"""A question that begins with `SELECT TOP 3` ends with LIMIT 3."""
EMPTY = "the question is empty: write SELECT COUNT(*) FROM table"
_UNFINISHED = re.compile(r"\b(GROUP\s+BY|ORDER\s+BY|ON)\s*;?\s*$", re.IGNORECASE)
_AS = re.compile(r"\bAS\s+\Z", re.IGNORECASE)
_CLAUSE_WORDS = {
    "order": "ORDER BY ...",
    "group": "GROUP BY ...",
    "limit": "LIMIT 10",
    "offset": "OFFSET 10",
    "window": "WINDOW ... AS (...)",
    "in": "IN (...)",
    "desc": "ORDER BY ... DESC",
    "asc": "ORDER BY ... ASC",
    "case": "CASE WHEN ... END",
    "end": "CASE WHEN ... END",
}
"""Words that begin or end a clause, each with a clause that it belongs to."""
_OPENING = "([{"
_CLOSING = ")]}"


def parse(sql: str) -> exp.Query:
    """Parse the one query in the text: a SELECT, or a UNION of some.

    Raises QueryError for anything else.

    >>> parse("SELECT COUNT(*) FROM visits").sql()
    'SELECT COUNT(*) FROM visits'
    """
    trees = parse_trees(sql)
    if not trees:
        raise QueryError(EMPTY)
    if len(trees) != 1:
        semicolon = sql.find(";")
        raise refuse(
            "one question at a time: remove everything after the first ';'",
            sql,
            span=(semicolon, semicolon + 1),
        )
    query = trees[0]
    while isinstance(query, exp.Subquery) and not any(
        value for clause, value in query.args.items() if clause != "this" and value
    ):
        query = query.this
    if not isinstance(query, (exp.Select, exp.SetOperation)):
        start, end = find_first_word(sql)
        word = sql[start:end].upper()
        if word == "EXPLAIN":
            raise refuse(REFUSALS["explain"].message, sql, span=(start, end))
        if word == "PIVOT":
            raise refuse("PIVOT is not answered: write SELECT ... GROUP BY", sql, span=(start, end))
        raise refuse(
            f"only SELECT is answered, not {shorten(word)}: questions never change data",
            sql,
            span=(start, end),
        )
    _check_names(query, sql)
    _check_ending(sql)
    return query


def _check_ending(sql: str) -> None:
    """Refuse a text that ends with GROUP BY, ORDER BY or ON: the parser accepts it."""
    ending = _UNFINISHED.search(sql)
    is_comment = "--" in sql or "/*" in sql
    if ending is None or is_comment or _AS.search(sql, 0, ending.start(1)):
        return
    raise refuse(
        f"the question is not SQL: something is missing after {ending[1].upper()}",
        sql,
        span=ending.span(1),
    )


def _check_names(query: exp.Expr, sql: str) -> None:
    """Refuse a word of SQL that stands where a name could: `FROM visits ORDER` lacks its BY."""
    for node in list_nodes(query):
        if not isinstance(node, (exp.TableAlias, exp.Alias)):
            continue
        name = node.this if isinstance(node, exp.TableAlias) else node.args.get("alias")
        if not isinstance(name, exp.Identifier) or name.quoted or "start" not in name.meta:
            continue
        start = name.meta["start"]
        end = name.meta["end"] + 1
        if sql[start:end].lower() in _CLAUSE_WORDS and not _AS.search(sql, 0, start):
            word = sql[start:end].upper()
            raise refuse(
                f"{word} is no name: complete it ({_CLAUSE_WORDS[word.lower()]}), remove it, or "
                f'write it in quotes, as in "{word.lower()}"',
                sql,
                span=(start, end),
            )


def parse_trees(sql: str) -> list[exp.Expr]:
    """Parse the statements in a text, each of bounded depth and size.

    Whatever the parser raises becomes a QueryError.
    """
    read_text(sql)
    try:
        trees = _parse_statements(sql)
        for tree in trees:
            _check_tree(tree)
    except ParseError as error:
        raise describe_syntax_error(error, sql) from None
    except TokenError:
        raise describe_open_quote(sql) from None
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None
    except (SqlglotError, ValueError, TypeError, AttributeError, KeyError, IndexError):
        raise describe_unreadable(sql) from None
    return trees


def _parse_statements(sql: str) -> list[exp.Expr]:
    """Parse the statements of a text; SELECT TOP n is read as LIMIT n."""
    sql = quote_names(sql)
    top = _TOP.match(sql)
    text = sql if top is None else sql[: top.start(1)] + " " * len(top[1]) + sql[top.end(1) :]
    trees = [tree for tree in sqlglot.parse(text, read=DUCKDB) if tree is not None]
    if top is not None and trees:
        _set_limit(trees[0], top[2] or top[3], sql)
    return trees


def quote_names(sql: str) -> str:
    """The text with names in backticks written in double quotes, at the same positions.

    >>> print(quote_names("SELECT `a b`, '`', 1 -- `"))
    SELECT "a b", '`', 1 -- `
    """
    if "`" not in sql:
        return sql
    return _QUOTED.sub(lambda match: f'"{match[1]}"' if match[1] is not None else match[0], sql)


def _set_limit(query: exp.Expr, count: str, sql: str) -> None:
    """LIMIT in place of TOP, for a question that is one SELECT without a LIMIT of its own."""
    if not isinstance(query, exp.Select) or query.args.get("limit") is not None:
        raise refuse("TOP is for one SELECT without LIMIT: write LIMIT in its place", sql)
    query.set("limit", exp.Limit(expression=exp.Literal.number(count)))


def read_text(sql: str) -> str:
    """Return the text, if it is one that a parser may be given; else raise QueryError.

    Its length, words and nesting are bounded. Quotes are not read: a bracket in a text counts as
    one outside.
    """
    if not isinstance(sql, str) or not sql.strip():
        raise QueryError(EMPTY)
    if len(sql) > MAX_LENGTH:
        raise QueryError(
            f"the question is longer than {MAX_LENGTH:,} characters: ask for less in one question"
        )
    if not is_unicode(sql):
        raise QueryError(
            "the question holds a lone surrogate, which is no Unicode: write the letter itself"
        )
    if _LONG_WORD.search(sql):
        raise QueryError(
            f"a name, number or word of more than {MAX_WORD:,} characters: shorten it "
            f"{PrivacyRule.BOUNDED_WORK.label}"
        )
    depth = 0
    for letter in sql:
        if letter in _OPENING:
            depth += 1
            if depth > MAX_PARENTHESES:
                raise QueryError(REFUSALS["deep"].message)
        elif letter in _CLOSING:
            depth = max(0, depth - 1)
    return sql


def read_whole(node: exp.Expr | None) -> int | None:
    """The whole number that a literal is, within the limits of numbers; None for everything else.

    >>> read_whole(exp.Literal.number("12")), read_whole(exp.Literal.number("9" * 5000))
    (12, None)
    """
    if not isinstance(node, exp.Literal) or node.is_string or not str(node.this).isdecimal():
        return None
    return written.whole(str(node.this))


def _check_tree(tree: exp.Expr) -> None:
    """Refuse a tree that would take too long to bind.

    Rules look at all that is under a node, so the work of binding goes with the sum of the depths
    of all nodes. A chain of AND (or OR) is read as a list, and counts as one level.
    """
    steps = 0
    level = [tree]
    depth = 0
    while level:
        depth += 1
        steps += depth * len(level)
        if depth > MAX_DEPTH:
            raise QueryError(REFUSALS["deep"].message)
        if steps > MAX_STEPS:
            raise QueryError(REFUSALS["long"].message)
        level = [child for node in level for child in _list_children(node)]


def _list_children(node: exp.Expr) -> list[exp.Expr]:
    """List the nodes under a node; those of a chain of AND (or OR) all at once."""
    children: list[exp.Expr] = []
    waiting = list_children(node)
    while waiting:
        child = waiting.pop()
        if isinstance(child, (exp.And, exp.Or)) and type(child) is type(node):
            waiting += list_children(child)
        else:
            children.append(child)
    return children
