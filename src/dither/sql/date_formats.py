"""strftime of days: a text for each year, month or day, as a choice between listed labels."""

from __future__ import annotations

import re
from datetime import date

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.functions.calendar import date_of_days
from dither.rules import PrivacyRule
from dither.sql.constants import number
from dither.sql.resolve import apply_function, resolve_expression
from dither.sql.scope import Scope

MOST_LABELS = 400
_MOST_BRANCHES = 40
_LONGEST_FORMAT = 40
_FIRST_YEAR = 1000
_LEAP_YEAR = 2024
_FORMAT = re.compile(r"(?:%[Ymd%]|[^%])+")


def resolve_strftime(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve `strftime(day, '%Y-%m')`: one label for each month that the bounds of the day allow.

    The format is made of %Y, %m, %d and plain letters; QueryError for others, or for too many
    labels.
    """
    source = node.this
    written = node.args.get("format")
    if isinstance(source, exp.Literal) and source.is_string:
        source = written
        written = node.this
    pattern = str(written.this) if isinstance(written, exp.Literal) else ""
    is_read = len(pattern) <= _LONGEST_FORMAT and _FORMAT.fullmatch(pattern)
    if not isinstance(source, exp.Expr) or not is_read:
        raise scope.context.error(
            "strftime takes a day and a constant format of %Y, %m and %d: for others GROUP BY "
            f"date_trunc or EXTRACT {PrivacyRule.LISTED_FUNCTIONS.label}",
            node,
        )
    day = resolve_expression(source, scope)
    if scope.domain(day, node).kind == "timestamp":
        day = apply_function("date_of", (day,), node, scope)
    domain = scope.domain(day, node)
    if domain.kind != "date":
        raise scope.context.error(f"strftime needs a date, not a {domain.kind}", node)
    parts = tuple(part for part in "Ymd" if f"%{part}" in pattern.replace("%%", ""))
    labels = _list_labels(domain, pattern, parts)
    if labels is None:
        raise scope.context.error(
            f"strftime with this format has more than {MOST_LABELS} texts within the bounds of the "
            f"day, or years before {_FIRST_YEAR}: GROUP BY date_trunc or the day itself "
            f"{PrivacyRule.BOUNDED_WORK.label}",
            node,
        )
    return _choose_label(_number_parts(day, parts), labels)


def _list_labels(domain: Domain, pattern: str, parts: tuple[str, ...]) -> dict[int, str] | None:
    """Map every number that the parts of a day can have to its text; None where there are too
    many."""
    first = date_of_days(domain.low)
    last = date_of_days(domain.high)
    years = range(first.year, last.year + 1) if "Y" in parts else range(1)
    months = range(1, 13) if "m" in parts else range(1)
    days = range(1, 32) if "d" in parts else range(1)
    is_long = len(years) * len(months) * len(days) > 10 * MOST_LABELS
    if is_long or ("Y" in parts and first.year < _FIRST_YEAR):
        return None
    labels: dict[int, str] = {}
    for year in years:
        for month in months:
            for day in days:
                if not _is_within(year, month, day, first, last, parts):
                    continue
                labels[(year * 13 + month) * 32 + day] = _write_label(pattern, year, month, day)
    return labels if len(labels) <= MOST_LABELS else None


def _write_label(pattern: str, year: int, month: int, day: int) -> str:
    texts = {"%Y": f"{year:04}", "%m": f"{month:02}", "%d": f"{day:02}", "%%": "%"}
    return re.sub(r"%[Ymd%]", lambda part: texts[part.group()], pattern)


def _is_within(
    year: int, month: int, day: int, first: date, last: date, parts: tuple[str, ...]
) -> bool:
    """Whether a day of the calendar has these parts; between the bounds, where it has a year."""
    if "m" not in parts:
        return True
    try:
        written = date(year if "Y" in parts else _LEAP_YEAR, month, day or 1)
    except ValueError:
        return False
    if "Y" not in parts:
        return True
    if day:
        return first <= written <= last
    return (first.year, first.month) <= (year, month) <= (last.year, last.month)


def _number_parts(day: Expression, parts: tuple[str, ...]) -> Expression:
    """Compute one number for the parts of a day: (year * 13 + month) * 32 + day, 0 if left out."""
    terms: list[Expression] = [number(0)]
    for part, function, weight in (("Y", "year", 13 * 32), ("m", "month", 32), ("d", "day", 1)):
        if part in parts:
            terms.append(Call("multiply", (Call(function, (day,)), number(weight))))
    return Call("add", tuple(terms))


def _choose_label(code: Expression, labels: dict[int, str]) -> Expression:
    """Build a CASE from codes to labels.

    Where it has too many branches, its ELSE is a CASE with the rest.
    """
    pairs = list(labels.items())
    chunks = [
        pairs[start : start + _MOST_BRANCHES] for start in range(0, len(pairs), _MOST_BRANCHES)
    ]
    choice: tuple[Expression, ...] = ()
    for chunk in reversed(chunks):
        arguments: list[Expression] = []
        for value, label in chunk:
            arguments += [Call("eq", (code, number(value))), Value("text", label)]
        choice = (Call("case", (*arguments, *choice)),)
    return choice[0]
