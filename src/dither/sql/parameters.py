"""Values in the place of parameters: `?`, `$1`, `$name`, `:name` and `@name` become constants.

A question is priced, stored and certified as it stands, so its values are written out before it is
read. They are literals of SQL and nothing else: no value can change what the question says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TypeAlias

from sqlglot.dialects import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dither.canonical import is_unicode, shorten
from dither.errors import ParameterError
from dither.sql.parse import read_text

ParameterValue: TypeAlias = bool | int | float | Decimal | str | date | datetime
Parameters: TypeAlias = Sequence[ParameterValue] | Mapping[str, ParameterValue]
MOST_DIGITS = 60


def write_parameters(sql: str, params: Parameters | None) -> str:
    """Write the values of its parameters into the text of a question.

    Raises ParameterError where they do not fit.

    >>> write_parameters("SELECT COUNT(*) FROM t WHERE a > ? AND b = ?", [3, "it's"])
    "SELECT COUNT(*) FROM t WHERE a > 3 AND b = 'it''s'"
    >>> write_parameters("SELECT COUNT(*) FROM t WHERE a > :least", {"least": -1.5})
    'SELECT COUNT(*) FROM t WHERE a > (-1.5)'
    """
    if params is None:
        return sql
    if isinstance(params, (str, bytes)) or not isinstance(params, (Sequence, Mapping)):
        raise ParameterError("params= takes a list of values, or a dict of names and values")
    names = frozenset(map(str, params)) if isinstance(params, Mapping) else frozenset()
    spans = _find_parameters(read_text(sql), names)
    values = _match_values([name for _, _, name in spans], params)
    for (start, end, _), value in zip(reversed(spans), reversed(values), strict=True):
        sql = sql[:start] + value + sql[end:]
    return read_text(sql)


def list_parameter_names(sql: str) -> tuple[str, ...]:
    """The named parameters of a text, in the order of their first use; `?` and `$1` have no name.

    >>> list_parameter_names("SELECT COUNT(*) FROM t WHERE a > :least AND b < :most AND c > :least")
    ('least', 'most')
    """
    names = (name for _, _, name in _find_parameters(sql))
    return tuple(dict.fromkeys(name for name in names if not name.isdigit()))


def _find_parameters(sql: str, given: frozenset[str] = frozenset()) -> list[tuple[int, int, str]]:
    """Start, end and name of every parameter; those written as `?` are numbered from 1.

    `@name` is one where a value is `given` for it; else @ is the absolute value.
    """
    try:
        tokens = DuckDB().tokenize(sql)
    except SqlglotError:
        return []  # the parser says what is wrong
    spans: list[tuple[int, int, str]] = []
    count = 0
    for index, token in enumerate(tokens):
        if token.token_type == TokenType.PLACEHOLDER:
            count += 1
            spans.append((token.start, token.end + 1, str(count)))
            continue
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        if after is None:
            continue
        is_given = token.text == "@" and after.start == token.end + 1 and after.text in given
        if is_given or _begins_name(token, after, tokens[index - 1] if index else None):
            spans.append((token.start, after.end + 1, after.text))
    return spans


def _begins_name(token: Token, after: Token, before: Token | None) -> bool:
    """Whether `$` or `:` stands right before a name or number, and is no slice such as x[1:2]."""
    touches = after.start == token.end + 1 and after.text.isalnum() | after.text.isidentifier()
    if token.token_type == TokenType.PARAMETER:
        return touches and token.text == "$"
    is_apart = before is None or before.end + 1 < token.start or before.text in ("(", ",", "=")
    return touches and token.token_type == TokenType.COLON and is_apart


def _match_values(names: list[str], params: Parameters) -> list[str]:
    """List the literal of every parameter, in the order of the text.

    Raises ParameterError for a missing or unused value.
    """
    if isinstance(params, Mapping):
        given = {str(name): value for name, value in params.items()}
    else:
        given = {str(position): value for position, value in enumerate(params, 1)}
    missing = [name for name in names if name not in given]
    unused = [name for name in given if name not in names]
    if missing or unused:
        what = [f"no value for {shorten(name)}" for name in missing]
        what += [f"no parameter {shorten(name)} in the question" for name in unused]
        raise ParameterError(
            f"params= does not fit the question: {', '.join(what[:5])}. A list is for ?, or $1, "
            "$2; a dict is for :name, $name and @name"
        )
    literals = {name: _write_literal(name, value) for name, value in given.items()}
    return [literals[name] for name in names]


def _write_literal(name: str, value: object) -> str:
    """Write a value as a constant of SQL. Raises ParameterError for what is none."""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, (int, float, Decimal)):
        return _write_number(name, value)
    if isinstance(value, str):
        if not is_unicode(value) or "\x00" in value:
            raise ParameterError(f"the value of {shorten(name)} is no Unicode text")
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, datetime):
        if value.tzinfo is not None or value.microsecond:
            raise ParameterError(
                f"the value of {shorten(name)} has a time zone or parts of a second: give whole "
                "seconds at the zone of its column"
            )
        return f"TIMESTAMP '{value.isoformat(sep=' ', timespec='seconds')}'"
    if isinstance(value, date):
        return f"DATE '{value.isoformat()}'"
    raise ParameterError(
        f"the value of {shorten(name)} is no constant of SQL: give a number, text, truth value, "
        "date or datetime; for NULL write IS NULL"
    )


def _write_number(name: str, value: int | float | Decimal) -> str:
    """Write a number in plain digits; negative ones in parentheses, so that no comment begins."""
    number = Decimal(repr(float(value))) if isinstance(value, float) else value
    if isinstance(number, Decimal):
        if not number.is_finite() or (number and abs(number.adjusted()) > MOST_DIGITS):
            raise _refuse_size(name)
        text = f"{number:f}"
    else:
        if abs(number) >= 10**MOST_DIGITS:
            raise _refuse_size(name)
        text = str(int(number))
    return f"({text})" if text.startswith("-") else text


def _refuse_size(name: str) -> ParameterError:
    return ParameterError(
        f"the value of {shorten(name)} must be finite, with at most {MOST_DIGITS} digits before "
        "and after the point"
    )
