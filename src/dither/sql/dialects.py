"""The SQL people already know.

GoogleSQL's DIFFERENTIAL_PRIVACY clause, and Snowflake's interval functions.

A pass over tokens cuts what is not plain SQL and hands the rest to the stock parser; positions in
the text are kept. Options may tighten what the catalog and the pot allow, never loosen it.
Differences: docs/reference/dialects.md.

>>> options = "OPTIONS(epsilon=0.5, privacy_unit_column=p)"
>>> question = read_dialect(f"SELECT WITH DIFFERENTIAL_PRIVACY {options} 1 FROM t")
>>> question.sql.split(), float(question.epsilon), question.unit
(['SELECT', '1', 'FROM', 't'], 0.5, 'p')
>>> read_dialect("SELECT SUM(x, contribution_bounds_per_row => (0, 9)) FROM t").sql
'SELECT SUM(CLAMP(x, 0, 9)) FROM t'
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sqlglot.dialects import DuckDB
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from dither.catalog import Catalog
from dither.errors import QueryError
from dither.sql.dialect_bounds import (
    BOUNDED,
    UnitColumn,
    find_inner_unit,
    nest_per_person,
    require_units,
)
from dither.sql.dialect_options import NOT_OURS, OPTIONS, UNKNOWN_OPTIONS, read_number
from dither.sql.dialect_question import DialectQuestion, IntervalColumn
from dither.sql.dialect_reports import REPORT_FORMAT, ReportColumn, find_position, read_format
from dither.sql.parse import read_text
from dither.sql.refusals.refuse import refuse
from dither.sql.refusals.table import REFUSALS

_PER_GROUP = "CONTRIBUTION_BOUNDS_PER_GROUP"
_PER_ROW = "CONTRIBUTION_BOUNDS_PER_ROW"


def read_dialect(sql: str, catalog: Catalog | None = None) -> DialectQuestion:
    """Read the options that a dialect writes around a question, and leave plain SQL.

    Text without any of it comes back as it is. The catalog names the column of the privacy unit
    where the question does not.
    """
    low = read_text(sql).upper() if sql else ""
    if not any(
        word in low
        for word in (
            "DIFFERENTIAL_PRIVACY",
            "CONTRIBUTION_BOUNDS",
            REPORT_FORMAT,
            "DP_INTERVAL_",
            *NOT_OURS,
        )
    ):
        return DialectQuestion(sql, sql)
    try:
        tokens = DuckDB().tokenize(sql)
    except SqlglotError:
        return DialectQuestion(sql, sql)  # the parser says what is wrong
    try:
        return _Reader(sql, tokens, catalog).read()
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None


class _Reader:
    """One pass over the tokens, which collects edits (start, end, text) and options."""

    def __init__(self, sql: str, tokens: list[Token], catalog: Catalog | None) -> None:
        self.sql = sql
        self.catalog = catalog
        self.tokens = tokens
        self.edits: list[tuple[int, int, str]] = []
        self.options: dict[str, tuple[str | None, Token]] = {}
        self.intervals: list[IntervalColumn] = []
        self.reports: list[ReportColumn] = []
        self.clauses = 0
        self.per_group = False

    def read(self) -> DialectQuestion:
        """Read all clauses of the dialect, and apply the edits that turn the text into plain
        SQL."""
        for index, token in enumerate(self.tokens):
            word = token.text.upper()
            before = self.tokens[index - 1].token_type if index else None
            if (
                before == TokenType.WITH
                and index > 1
                and self.tokens[index - 2].token_type == TokenType.SELECT
            ):
                if word in NOT_OURS:
                    raise self._refuse(NOT_OURS[word], token)
                if word == "DIFFERENTIAL_PRIVACY":
                    self._read_clause(index)
            elif word in (_PER_GROUP, _PER_ROW) and self._token_type(index + 1) == TokenType.FARROW:
                self._read_bounds(index, word)
            elif word == REPORT_FORMAT and self._token_type(index + 1) == TokenType.FARROW:
                self._read_report(index)
            elif (
                word in ("DP_INTERVAL_LOW", "DP_INTERVAL_HIGH")
                and self._token_type(index + 1) == TokenType.L_PAREN
            ):
                self._read_interval(index)
        edits = tuple(sorted(self.edits))
        text = self.sql
        for start, end, new in reversed(edits):
            text = text[:start] + new + text[end:]
        question = DialectQuestion(
            self.sql,
            text,
            intervals=tuple(self.intervals),
            reports=tuple(self.reports),
            edits=edits,
            **self._read_options(),
        )
        return self._rewrite_for_units(question)

    def _rewrite_for_units(self, question: DialectQuestion) -> DialectQuestion:
        """Apply the bounds per group and the least number of units, which are no part of SQL."""
        unit = UnitColumn(question.unit, self.catalog, self.sql)
        if self.per_group and (nested := nest_per_person(question.sql, unit)) is not None:
            question = replace(question, sql=nested, rewritten=True)
            unit = replace(unit, name=find_inner_unit(nested))
        if question.least_units is not None:
            floored = require_units(question.sql, unit, question.least_units)
            if floored is not None:
                question = replace(question, sql=floored, rewritten=True)
        return question

    def _refuse(self, message: str, token: Token) -> QueryError:
        return refuse(message, self.sql, span=(token.start, token.end + 1))

    def _token_type(self, index: int) -> TokenType | None:
        return self.tokens[index].token_type if index < len(self.tokens) else None

    def _find_closing(self, opening: int) -> int:
        """Find the index of the parenthesis that closes the one at index `opening`."""
        if self._token_type(opening) != TokenType.L_PAREN:
            raise self._refuse("an opening parenthesis must follow", self.tokens[opening - 1])
        depth = 0
        for index in range(opening, len(self.tokens)):
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(
                self.tokens[index].token_type, 0
            )
            if depth == 0:
                return index
        raise self._refuse("this parenthesis is never closed", self.tokens[opening])

    def _blank_tokens(self, first: int, last: int) -> None:
        start = self.tokens[first].start
        end = self.tokens[last].end + 1
        self.edits.append((start, end, " " * (end - start)))

    def _read_clause(self, index: int) -> None:
        """Read one WITH DIFFERENTIAL_PRIVACY and its OPTIONS, and blank it in the text."""
        self.clauses += 1
        if self.clauses > 1:
            raise self._refuse(
                "one WITH DIFFERENTIAL_PRIVACY in a question: its price is for the whole",
                self.tokens[index],
            )
        last = index
        if (
            self._token_type(index + 1) is not None
            and self.tokens[index + 1].text.upper() == "OPTIONS"
        ):
            last = self._find_closing(index + 2)
            self._collect_options(index + 3, last)
        self._blank_tokens(index - 1, last)

    def _collect_options(self, first: int, last: int) -> None:
        """Read the options `name = value, ...` between two tokens into `self.options`.

        Raises QueryError for an option that is none, or given twice.
        """
        index = first
        while index < last:
            name = self.tokens[index].text.upper()
            if name not in OPTIONS:
                why = UNKNOWN_OPTIONS.get(name, f"the options are {', '.join(OPTIONS).lower()}")
                raise self._refuse(
                    f"no option {self.tokens[index].text} here: {why}", self.tokens[index]
                )
            end = index
            while end < last and self._token_type(end) != TokenType.COMMA:
                end += 1
            if self._token_type(index + 1) != TokenType.EQ or end < index + 3:
                raise self._refuse(f"write {name.lower()} = value", self.tokens[index])
            if name in self.options:
                raise self._refuse(
                    f"{name.lower()} is given twice: leave one out", self.tokens[index]
                )
            value = self.sql[self.tokens[index + 2].start : self.tokens[end - 1].end + 1]
            self.options[name] = (None if value.upper() == "NULL" else value, self.tokens[index])
            index = end + 1

    def _read_options(self) -> dict[str, Any]:
        """Check the values of the options, and name them as `DialectQuestion` does."""
        options: dict[str, Any] = {}
        for name, (value, token) in self.options.items():
            match name:
                case "EPSILON" | "DELTA":
                    number = read_number(value)
                    if name == "EPSILON" and (number is None or number <= 0):
                        raise self._refuse(
                            "epsilon must be set, finite and positive: choose e.g. epsilon=0.5",
                            token,
                        )
                    if name == "DELTA" and (number is None or not 0 <= number <= 1):
                        raise self._refuse(
                            "delta must lie in [0, 1]; it may be left out: the budget states it",
                            token,
                        )
                    options[name.lower()] = number
                case "MAX_GROUPS_CONTRIBUTED":
                    # NULL: no limit of the question's own, the catalog's rows per unit stand
                    options["max_groups"] = self._read_whole(name, value, token)
                case "MIN_PRIVACY_UNITS_PER_GROUP":
                    options["least_units"] = self._read_whole(name, value, token)
                case "PRIVACY_UNIT_COLUMN":
                    if value is None:
                        raise self._refuse(
                            "privacy_unit_column must name the owner's column", token
                        )
                    options["unit"] = value.split(".")[-1].strip('"`')
                case _:
                    strategy = (value or "").strip("'\"").upper()
                    if strategy not in ("PUBLIC_GROUPS", "LAPLACE_THRESHOLD"):
                        raise self._refuse(
                            "group_selection_strategy is PUBLIC_GROUPS or LAPLACE_THRESHOLD", token
                        )
                    options["public_groups"] = strategy == "PUBLIC_GROUPS"
        if self.clauses and "epsilon" not in options:
            options["epsilon"] = None
        if self.clauses and "max_groups" not in options and not options.get("public_groups"):
            options["max_groups"] = 1  # GoogleSQL's default
        return options

    def _read_whole(self, name: str, value: str | None, token: Token) -> int | None:
        """Read the whole number of an option; None for NULL."""
        if value is None:
            return None
        number = read_number(value)
        if number is None or number.denominator != 1 or number < 1:
            raise self._refuse(f"{name.lower()} must be a whole number from 1 on, or NULL", token)
        return int(number)

    def _read_bounds(self, index: int, word: str) -> None:
        """Turn `F(x, contribution_bounds_per_row => (lo, hi))` into F of the clamped argument.

        Bounds per group are only marked, for `nest_per_person`.
        """
        if (
            self._token_type(index + 2) != TokenType.L_PAREN
            or self._token_type(index - 1) != TokenType.COMMA
        ):
            raise self._refuse(
                f"write {word.lower()} => (lower, upper) after the other arguments",
                self.tokens[index],
            )
        inner_last = self._find_closing(index + 2)
        inside = self.sql[self.tokens[index + 2].end + 1 : self.tokens[inner_last].start]
        ends = [read_number(bound) for bound in inside.split(",")]
        if len(ends) != 2 or ends[0] is None or ends[1] is None or ends[0] > ends[1]:
            raise self._refuse(
                f"{word.lower()} takes two numbers, lower and upper", self.tokens[index]
            )
        opening = self._find_call(index)
        last = self._find_end_of_call(inner_last)
        bounds = ", ".join(bound.strip() for bound in inside.split(","))
        self.edits.append((self.tokens[index - 1].start, self.tokens[inner_last].end + 1, ""))
        first = self.tokens[opening + 1]
        if word == _PER_ROW:
            end = self._find_end_of_argument(opening + 1)
            self.edits.append((first.start, first.start, "CLAMP("))
            self.edits.append((self.tokens[end].end + 1, self.tokens[end].end + 1, f", {bounds})"))
            return
        self.per_group = True
        name = self.tokens[opening - 1]
        self.edits.append((name.start, name.start, f"{BOUNDED}("))
        self.edits.append((self.tokens[last].end + 1, self.tokens[last].end + 1, f", {bounds})"))

    def _read_report(self, index: int) -> None:
        """Take `, report_format => JSON` out of an aggregate, and note which column it is."""
        token = self.tokens[index]
        last = index + 2
        is_known = last < len(self.tokens) and read_format(self.tokens[last]) is not None
        if not is_known or self._token_type(index - 1) != TokenType.COMMA:
            raise self._refuse("write report_format => JSON or PROTO after the argument", token)
        opening = self._find_call(index)
        closing = self._find_closing(opening)
        position = find_position(self.tokens, opening - 1, closing)
        if position is None:
            raise self._refuse(
                "report_format belongs to an aggregate that is a column by itself, in the "
                "outermost SELECT",
                token,
            )
        written = read_format(self.tokens[last]) or ""
        if any(report.position == position - len(self.intervals) for report in self.reports):
            raise self._refuse("report_format is given twice: leave one out", token)
        self.reports.append(ReportColumn(position - len(self.intervals), written))
        self.edits.append((self.tokens[index - 1].start, self.tokens[last].end + 1, ""))

    def _find_call(self, argument: int) -> int:
        """Find the index of the parenthesis that opens the call of an argument."""
        depth = 0
        for index in range(argument - 1, 0, -1):
            depth += {TokenType.R_PAREN: 1, TokenType.L_PAREN: -1}.get(
                self.tokens[index].token_type, 0
            )
            if depth < 0:
                return index
        raise self._refuse(
            "bounds belong inside an aggregate, as in SUM(x, ...)", self.tokens[argument]
        )

    def _find_end_of_call(self, after: int) -> int:
        """Find the parenthesis that closes a call after its bounds, and perhaps its report."""
        following = self.tokens[after + 2 : after + 3]
        if following and following[0].text.upper() == REPORT_FORMAT:
            after += 4
        if self._token_type(after + 1) != TokenType.R_PAREN:
            raise self._refuse("contribution bounds are the last argument", self.tokens[after])
        return after + 1

    def _find_end_of_argument(self, first: int) -> int:
        """Find the index of the last token of the argument that starts at `first`."""
        depth = 0
        for index in range(first, len(self.tokens)):
            if depth == 0 and self.tokens[index].token_type in (TokenType.COMMA, TokenType.R_PAREN):
                return index - 1
            depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(
                self.tokens[index].token_type, 0
            )
        raise self._refuse("this call is never closed", self.tokens[first])

    def _read_interval(self, index: int) -> None:
        """Take `, DP_INTERVAL_LOW(alias) [AS name]` out of the list of columns.

        The interval is in the result already.
        """
        token = self.tokens[index]
        last = self._find_closing(index + 1)
        is_named = self._token_type(last + 1) == TokenType.ALIAS
        lacks_name = is_named and self._token_type(last + 2) is None
        if last != index + 3 or self._token_type(index - 1) != TokenType.COMMA or lacks_name:
            raise self._refuse(
                f"write {token.text}(alias) [AS name] as a column of its own, after the column it "
                f"belongs to",
                token,
            )
        column = self.tokens[index + 2].text
        end = "low" if token.text.upper().endswith("LOW") else "high"
        name, last = (
            (self.tokens[last + 2].text, last + 2) if is_named else (f"{column}_{end}", last)
        )
        self.intervals.append(IntervalColumn(column, end, name))
        self._blank_tokens(index - 1, last)
