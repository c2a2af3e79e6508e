"""`report_format => JSON` in an aggregate, as GoogleSQL has it: the column is a report.

A report has the noisy value and the interval of its noise. Which column it is follows from the
position of the aggregate in the list of columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

REPORT_FORMAT = "REPORT_FORMAT"
FORMATS = ("JSON", "PROTO")
_ENDS_OF_COLUMN = (TokenType.COMMA, TokenType.ALIAS, TokenType.FROM, TokenType.VAR)
_DEPTHS = {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}


@dataclass(frozen=True)
class ReportColumn:
    """A column that is shown as a report: its position in the list, and the format."""

    position: int
    format: str


def read_format(token: Token) -> str | None:
    """The format that a token names; None where it names none.

    >>> from sqlglot.dialects import DuckDB
    >>> [read_format(token) for token in DuckDB().tokenize("'json' PROTO xml")]
    ['JSON', 'PROTO', None]
    """
    word = token.text.strip("'\"").upper()
    return word if word in FORMATS else None


def find_position(tokens: Sequence[Token], call: int, closing: int) -> int | None:
    """The position, from 0, of the column that a call is in the outermost list of columns.

    `call` is the index of the function's name, `closing` that of its last parenthesis. None where
    the call is only a part of a column, or stands in a subquery.
    """
    after = tokens[closing + 1].token_type if closing + 1 < len(tokens) else TokenType.FROM
    if after not in _ENDS_OF_COLUMN:
        return None
    position = 0
    depth = 0
    for index in range(call - 1, -1, -1):
        kind = tokens[index].token_type
        depth += _DEPTHS.get(kind, 0)
        if depth < 0:
            return None
        if depth == 0 and kind == TokenType.COMMA:
            position += 1
        if depth == 0 and kind == TokenType.SELECT:
            is_inside = any(token.token_type == TokenType.SELECT for token in tokens[:index])
            return None if is_inside or not _starts_column(tokens, index, call) else position
    return None


def _starts_column(tokens: Sequence[Token], select: int, call: int) -> bool:
    """Whether nothing but a comma, SELECT or the dialect's options stands before a call."""
    before = tokens[call - 1].token_type
    if before in (TokenType.COMMA, TokenType.SELECT):
        return True
    has_options = any(token.text.upper() == "OPTIONS" for token in tokens[select:call])
    return before == TokenType.R_PAREN and has_options
