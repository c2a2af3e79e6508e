"""strftime: a text for each year, month, day, hour or minute, as a choice between listed labels."""

from __future__ import annotations

import re
from datetime import date
from itertools import product

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
_FORMAT = re.compile(r"(?:%[YmdHM%]|[^%])+")
_MINUTES = 24 * 60


def resolve_strftime(node: exp.Expr, scope: Scope) -> Expression:
    """Resolve `strftime(day, '%Y-%m')`: one label for each month that the bounds of the day allow.

    The format is made of %Y, %m, %d, of times also %H and %M, and plain letters; QueryError for
    others, or for too many labels.
    """
    source = node.this
    written = node.args.get("format")
    if isinstance(source, exp.Literal) and source.is_string:
        source = written
        written = node.this
    pattern = str(written.this) if isinstance(written, exp.Literal) else ""
    parts = tuple(part for part in "YmdHM" if f"%{part}" in pattern.replace("%%", ""))
    is_read = parts and len(pattern) <= _LONGEST_FORMAT and _FORMAT.fullmatch(pattern)
    if not isinstance(source, exp.Expr) or not is_read:
        raise scope.context.error(
            "strftime takes a day or a time and a constant format of %Y, %m, %d, %H and %M: for "
            f"others GROUP BY date_trunc or EXTRACT {PrivacyRule.LISTED_FUNCTIONS.label}",
            node,
        )
    day = resolve_expression(source, scope)
    time = day
    is_time = scope.domain(day, node).kind == "timestamp"
    if is_time:
        day = apply_function("date_of", (day,), node, scope)
    domain = scope.domain(day, node)
    if domain.kind != "date":
        raise scope.context.error(f"strftime needs a date, not a {domain.kind}", node)
    if not is_time and {"H", "M"} & set(parts):
        raise scope.context.error("%H and %M are of a time, and this is a day", node)
    labels = _list_labels(domain, pattern, parts)
    if labels is None:
        raise scope.context.error(
            f"strftime with this format has more than {MOST_LABELS} texts within the bounds of the "
            f"day, or years before {_FIRST_YEAR}: GROUP BY date_trunc or the day itself "
            f"{PrivacyRule.BOUNDED_WORK.label}",
            node,
        )
    code = _number_parts(day, time, parts)
    return _choose_label(code, labels, is_nullable=domain.nullable)


def _list_labels(domain: Domain, pattern: str, parts: tuple[str, ...]) -> dict[int, str] | None:
    """Map every number that the parts of a day can have to its text; None where there are too
    many."""
    first = date_of_days(domain.low)
    last = date_of_days(domain.high)
    years = range(first.year, last.year + 1) if "Y" in parts else range(1)
    months = range(1, 13) if "m" in parts else range(1)
    days = range(1, 32) if "d" in parts else range(1)
    hours = range(24) if "H" in parts else range(1)
    minutes = range(60) if "M" in parts else range(1)
    size = len(years) * len(months) * len(days) * len(hours) * len(minutes)
    has_time = bool({"H", "M"} & set(parts))
    if size > 10 * MOST_LABELS or ("Y" in parts and first.year < _FIRST_YEAR):
        return None
    labels: dict[int, str] = {}
    for year, month, day, hour, minute in product(years, months, days, hours, minutes):
        if not _is_within(year, month, day, first, last, parts):
            continue
        code = (year * 13 + month) * 32 + day
        if has_time:
            code = code * _MINUTES + hour * 60 + minute
        labels[code] = _write_label(pattern, year, month, day, hour, minute)
    return labels if len(labels) <= MOST_LABELS else None


def _write_label(pattern: str, year: int, month: int, day: int, hour: int, minute: int) -> str:
    """Write the text of a day or time in a format."""
    texts = {
        "%Y": f"{year:04}",
        "%m": f"{month:02}",
        "%d": f"{day:02}",
        "%H": f"{hour:02}",
        "%M": f"{minute:02}",
        "%%": "%",
    }
    return re.sub(r"%[YmdHM%]", lambda part: texts[part.group()], pattern)


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


def _number_parts(day: Expression, time: Expression, parts: tuple[str, ...]) -> Expression:
    """Compute one number for the parts of a day: (year * 13 + month) * 32 + day, 0 if left out.

    With an hour or a minute it is that times the minutes of a day, plus those that have passed.
    """
    terms: list[Expression] = [number(0)]
    for part, function, weight in (("Y", "year", 13 * 32), ("m", "month", 32), ("d", "day", 1)):
        if part in parts:
            terms.append(Call("multiply", (Call(function, (day,)), number(weight))))
    passed = [
        Call("multiply", (Call(function, (time,)), number(weight)))
        for part, function, weight in (("H", "hour", 60), ("M", "minute", 1))
        if part in parts
    ]
    if not passed:
        return Call("add", tuple(terms))
    if len(terms) == 1:
        return Call("add", (number(0), *passed))
    return Call("add", (Call("multiply", (Call("add", tuple(terms)), number(_MINUTES))), *passed))


def _choose_label(code: Expression, labels: dict[int, str], *, is_nullable: bool) -> Expression:
    """Build a CASE from codes to labels.

    Where it has too many branches, its ELSE is a CASE with the rest. The last label needs no
    condition where the code is never null; a single label keeps its own, since only a CASE has a
    list of labels that can be a key.
    """
    pairs = list(labels.items())
    choice: tuple[Expression, ...] = ()
    if not is_nullable:
        choice = (Value("text", pairs[-1][1]),)
        pairs = pairs[:-1] or pairs
    chunks = [
        pairs[start : start + _MOST_BRANCHES] for start in range(0, len(pairs), _MOST_BRANCHES)
    ]
    for chunk in reversed(chunks):
        arguments: list[Expression] = []
        for value, label in chunk:
            arguments += [Call("eq", (code, number(value))), Value("text", label)]
        choice = (Call("case", (*arguments, *choice)),)
    return choice[0]
