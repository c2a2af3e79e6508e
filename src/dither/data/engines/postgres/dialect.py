"""PostgreSQL's words where they differ from DuckDB's; each difference has a test of its name.

Texts are compared by their bytes (collation "C"), whatever the database's own collation is. A
number that does not fit 64 bits is a NUMERIC, which is exact. Dates never pass through a time with
a zone.
"""

from __future__ import annotations

from dither.data.lower.dialect import WIDE, Dialect
from dither.data.lower.functions.sql import FunctionSql, SqlArguments
from dither.data.quoting import text
from dither.plan.domain import Domain

_FIELDS = {"dayofyear": "DOY"}
_WHOLE = "^[+-]?[0-9]{1,18}$"


class PostgresDialect(Dialect):
    """What PostgreSQL writes differently."""

    engine = "postgres"
    wide_type = "NUMERIC"
    flag_type = "SMALLINT"
    float_type = "DOUBLE PRECISION"
    has_narrow_codes = False
    counts_outside = False
    reduces_groups = False

    def text(self, value: str) -> str:
        """Write a text constant, compared by its bytes."""
        return f'({text(value)} COLLATE "C")'

    def truth(self, condition: str, kind: str = "BIGINT") -> str:
        """Write 1 or 0; a truth value becomes a 32-bit integer and no other."""
        return f"CAST(CAST({condition} AS INTEGER) AS {kind})"

    def divide(self, top: str, bottom: str, largest: int) -> str:
        """Write a quotient cut towards zero: `/` does so for integers, not for NUMERIC."""
        return f"{top} / {bottom}" if largest < WIDE else f"div({top}, {bottom})"

    def sign(self, value: str) -> str:
        """Write the sign; `sign` of a 64-bit integer is a float here."""
        return f"CASE WHEN {value} > 0 THEN 1 WHEN {value} < 0 THEN -1 WHEN {value} = 0 THEN 0 END"

    def date_part(self, field: str, date: str) -> str:
        """Write a field of a date; EXTRACT gives a NUMERIC."""
        return f"CAST(EXTRACT({_FIELDS.get(field, field)} FROM {date}) AS BIGINT)"

    def truncate_date(self, field: str, date: str) -> str:
        """Write the first day of a period; of a date itself it would be a time with a zone."""
        return f"CAST(date_trunc('{field}', CAST({date} AS TIMESTAMP)) AS DATE)"

    def last_day(self, date: str) -> str:
        """Write the last day of a month: the day before the next month."""
        first = f"date_trunc('month', CAST({date} AS TIMESTAMP))"
        return f"(CAST({first} + INTERVAL '1 month' AS DATE) - 1)"

    def add_months(self, date: str, months: int) -> str:
        """Write a date so many months later."""
        return f"CAST({date} + make_interval(months => {months}) AS DATE)"


def _truth(template: str) -> FunctionSql:
    return lambda a, result: POSTGRES.truth(template.format(*a.sql))


def _label_sql(a: SqlArguments, result: Domain) -> str:
    labels = ", ".join(map(text, a.domains[0].labels))
    return f'((ARRAY[{labels}])[CAST({a.sql[0]} AS INTEGER) + 1] COLLATE "C")'


def _index_sql(a: SqlArguments, result: Domain) -> str:
    listed = ", ".join(a.sql[1:])
    return f"CAST(array_position(CAST(ARRAY[{listed}] AS TEXT[]), {a.sql[0]}) - 1 AS BIGINT)"


def _parse_sql(a: SqlArguments, result: Domain) -> str:
    """Write the whole number that a text shows: there is no TRY_CAST, so what is none is read as
    0 and left out by the CASE around it."""
    is_whole = f"{a.sql[0]} ~ {text(_WHOLE)}"
    value = f"CAST(CASE WHEN {is_whole} THEN {a.sql[0]} ELSE '0' END AS BIGINT)"
    return f"CASE WHEN {is_whole} THEN greatest({result.low}, least({result.high}, {value})) END"


POSTGRES = PostgresDialect()
PostgresDialect.functions = {
    "trim": lambda a, result: f"btrim({a.sql[0]}, ' ')",
    "byte_length": lambda a, result: f"CAST(octet_length({a.sql[0]}) AS BIGINT)",
    "ends_with": _truth("(right({0}, char_length({1})) = {1})"),
    "contains": _truth("(strpos({}, {}) > 0)"),
    "label": _label_sql,
    "index_in": _index_sql,
    "parse_integer": _parse_sql,
}
LOOKUPS = PostgresDialect()
LOOKUPS.looks_up_groups = True
"""The same dialect, but a join with groups of an owner computes for each left row only the group
that it meets. That is quicker where left rows are few."""
