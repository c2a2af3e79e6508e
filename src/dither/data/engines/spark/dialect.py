"""Spark's words where they differ from DuckDB's; each difference has a test of its name.

Spark runs in ANSI mode, so what does not fit raises: never does a sum wrap or become null. A sum
has a decimal of ten digits more than its argument, or a long where that is proved to hold it. What
needs more than 38 digits is refused before anything is read.
"""

from __future__ import annotations

from dither.data.lower.dialect import WIDE, Dialect
from dither.data.lower.functions.sql import FunctionSql, SqlArguments
from dither.errors import RefusedError
from dither.plan.domain import Domain
from dither.rules import PrivacyRule

_MOST_DIGITS = 38
_DIGITS_OF_ROWS = 10
_LARGEST_QUOTIENT = 10**31
"""A quotient of decimals keeps six digits behind the point, of 38."""
_SMALL = 1 << 20
"""A long holds 2**43 values up to this one."""
_FIELDS = {"week": "weekofyear"}
_START = r"\A"
_END = r"\z"
_WHOLE = "[+-]?[0-9]{1,18}"
_TYPES = {"VARCHAR": "STRING", "HUGEINT": "DECIMAL(38, 0)", "INTEGER": "INT"}


class SparkDialect(Dialect):
    """What Spark writes differently."""

    engine = "spark"
    wide_type = f"DECIMAL({_MOST_DIGITS}, 0)"
    has_narrow_codes = False
    counts_outside = False
    reduces_groups = False

    def text(self, value: str) -> str:
        """Write a text constant by its bytes: in quotes Spark would read backslashes."""
        return f"CAST(X'{value.encode().hex()}' AS STRING)"

    def type_name(self, kind: str) -> str:
        """Name the type of a stored column."""
        return _TYPES.get(kind, kind)

    def full_match(self, value: str, pattern: str) -> str:
        """Write whether all of a text matches; `$` would match before a line's end."""
        return f"({value} RLIKE {self.text(f'{_START}(?:{pattern}){_END}')})"

    def divide(self, top: str, bottom: str, largest: int) -> str:
        """Write a quotient cut towards zero; `div` of decimals is a long, so it is not used."""
        if largest < WIDE:
            return f"{top} div {bottom}"
        if largest >= _LARGEST_QUOTIENT:
            raise RefusedError(
                "a division could need more than 38 digits in Spark: narrow the bounds of its "
                "arguments",
                rule=PrivacyRule.WIDTHS,
            )
        wide = f"CAST({top} AS {self.wide_type})"
        return f"CAST(({wide} - {wide} % {bottom}) / {bottom} AS {self.wide_type})"

    def sign(self, value: str) -> str:
        """Write the sign; `sign` is a float here."""
        return f"CASE WHEN {value} > 0 THEN 1 WHEN {value} < 0 THEN -1 WHEN {value} = 0 THEN 0 END"

    def sum(self, value: str, largest: int) -> str:
        """Write an exact sum, in a long or in a decimal with room for 10**10 rows."""
        if largest <= _SMALL:
            return f"sum(CAST({value} AS BIGINT))"
        digits = len(str(largest))
        if digits + _DIGITS_OF_ROWS > _MOST_DIGITS:
            raise RefusedError(
                f"a sum of values of {digits} digits could need more than 38 digits in Spark: "
                "narrow the bounds of the column",
                rule=PrivacyRule.WIDTHS,
            )
        return f"sum(CAST({value} AS DECIMAL({digits}, 0)))"

    def to_date(self, days: str) -> str:
        """Write the date so many days after 1970-01-01."""
        return f"date_add(DATE'1970-01-01', CAST({days} AS INT))"

    def count_days(self, date: str) -> str:
        """Write the days from 1970-01-01; a difference of dates would be an interval."""
        return f"datediff({date}, DATE'1970-01-01')"

    def date_part(self, field: str, date: str) -> str:
        """Write a field of a date."""
        return f"{_FIELDS.get(field, field)}({date})"

    def truncate_date(self, field: str, date: str) -> str:
        """Write the first day of a period."""
        return f"trunc({date}, '{field}')"

    def add_months(self, date: str, months: int) -> str:
        """Write a date so many months later."""
        return f"add_months({date}, {months})"


def _sql(template: str) -> FunctionSql:
    return lambda a, result: template.format(*a.sql)


def _truth(template: str) -> FunctionSql:
    return lambda a, result: SPARK.truth(template.format(*a.sql))


def _label_sql(a: SqlArguments, result: Domain) -> str:
    labels = ", ".join(map(SPARK.text, a.domains[0].labels))
    return f"try_element_at(array({labels}), CAST({a.sql[0]} AS INT) + 1)"


def _index_sql(a: SqlArguments, result: Domain) -> str:
    """Write the index of a text in a list; `array_position` counts from 1 and gives 0 for none."""
    return f"(NULLIF(array_position(array({', '.join(a.sql[1:])}), {a.sql[0]}), 0) - 1)"


def _parse_sql(a: SqlArguments, result: Domain) -> str:
    """Write the whole number that a text shows; what is none is read as 0 and left out."""
    is_whole = SPARK.full_match(a.sql[0], _WHOLE)
    value = f"CAST(CASE WHEN {is_whole} THEN {a.sql[0]} ELSE '0' END AS BIGINT)"
    return f"CASE WHEN {is_whole} THEN greatest({result.low}, least({result.high}, {value})) END"


SPARK = SparkDialect()
SparkDialect.functions = {
    "trim": _sql("trim(BOTH ' ' FROM {})"),
    "ltrim": _sql("trim(LEADING ' ' FROM {})"),
    "rtrim": _sql("trim(TRAILING ' ' FROM {})"),
    "byte_length": _sql("CAST(octet_length({}) AS BIGINT)"),
    "starts_with": _truth("startswith({}, {})"),
    "ends_with": _truth("endswith({}, {})"),
    "position": _sql("CAST(instr({}, {}) AS BIGINT)"),
    "label": _label_sql,
    "index_in": _index_sql,
    "parse_integer": _parse_sql,
}
