"""Budgets per window, for units (person, window) (rule every-window-pays).

Which windows there are, and which of them a plan could touch.

The owner of a registered row is the pair (window, person), so a unit lies in one window whatever
the rest of the data says. Every operator that keeps owners works inside one pair; hence a plan
whose rows were all kept by a condition on the window's own column is a function of the units in
those windows alone, and only they pay: docs/proofs/filters.md, theorem 7. Where that cannot be read
off the plan, all windows pay.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import dataclass

from dither.catalog import Catalog, Date, Timestamp, Unit
from dither.errors import RefusedError
from dither.plan.algebra import (
    Column,
    Compare,
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    LimitTotal,
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
    conjuncts,
)
from dither.plan.domain import Columns, Domain, declared_domain, hull, narrowed
from dither.plan.facts import NO_FACTS
from dither.privacy.kernel.request import Request
from dither.privacy.ledger import Pot
from dither.rules import PrivacyRule

MOST = 2000
_DAY = datetime.timedelta(days=1)
_EPOCH = datetime.date(1970, 1, 1)
Span = tuple[int, int]


@dataclass(frozen=True)
class Windows:
    """The windows that a catalog declares, by their labels in order.

    `column` is the column whose time tells the window of a row.
    """

    column: str
    labels: tuple[str, ...]
    first: int

    def between(self, span: Span) -> tuple[str, ...]:
        """List the labels of a span of windows, given by its first and last number."""
        return self.labels[max(0, span[0] - self.first) : max(0, span[1] - self.first + 1)]


def windows_of(catalog: Catalog) -> Windows | None:
    """List the windows in which a registered row can lie; None where the unit is no window.

    They follow from the bounds of the window's column, in every private table. Raises RefusedError
    where there are more than MOST.
    """
    unit = catalog.unit
    if unit.column is None:
        return None
    low, high = _registered_span(catalog)
    if high - low >= MOST:
        raise RefusedError(
            f"{high - low + 1} windows of a {unit.every}: at most {MOST} have budgets of their "
            f"own. Take longer windows, "
            f"narrow the bounds of {unit.column}, or keep one total for all",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    labels = tuple(_label(number, unit) for number in range(low, high + 1))
    return Windows(
        f"*.{unit.column} every {unit.every} {unit.offset_seconds or 0:+d}s", labels, low
    )


def _registered_span(catalog: Catalog) -> Span:
    """Find the numbers of the first and the last window in which any registered row can lie."""
    return _hull(
        _window_span(_domain(catalog, table.name), catalog.unit) for table in catalog.private_tables
    )


def paying(
    opened: tuple[Pot, tuple[Pot, ...]] | None, catalog: Catalog, pot: str, request: Request | None
) -> tuple[str, ...]:
    """Name the pots that pay for a question: the one that is asked, and the windows beside it.

    For a lease (`request` is None), whose queries come later, all windows pay. Windows are those of
    the opening. If the registered catalog has others by now, a unit may have changed its window
    since, and all of them pay: what was charged before stays where it was, and what comes counts
    everywhere.
    """
    if opened is None:
        return (pot,)
    partition, pots = opened
    pot_names = {window.value: window.name for window in pots}
    current = windows_of(catalog)
    plans = [] if request is None else [getattr(step.query, "plan", None) for step in request.steps]
    is_known = current is not None and None not in plans and bool(plans)
    opening = (partition.column, tuple(pot_names))
    if current is None or not is_known or (current.column, current.labels) != opening:
        return (pot, *pot_names.values())
    return (pot, *(pot_names[label] for label in touched(plans, catalog, current)))


def touched(plans: Iterable[Plan | None], catalog: Catalog, among: Windows) -> tuple[str, ...]:
    """List the labels of the windows whose rows the plans could touch.

    These are all of them, where a plan contradicts itself.
    """
    spans = [_walk(plan, catalog)[0] for plan in plans if plan is not None]
    known_spans = [span for span in spans if span is not None]
    if not known_spans or any(low > high for low, high in known_spans):
        return among.labels
    return among.between(_hull(known_spans))


def _walk(plan: Plan, catalog: Catalog) -> tuple[Span | None, Columns]:
    """The windows of the rows under a node, and its columns that are the window's own.

    Rows of a public table lie in no window.
    """
    match plan:
        case Scan():
            if catalog.table(plan.table).kind == "public":
                return None, {}
            domain = _domain(catalog, plan.table)
            return _window_span(domain, catalog.unit), {catalog.unit.column or "": domain}
        case Filter():
            span, own = _walk(plan.source, catalog)
            for test in conjuncts(plan.condition):
                if (
                    isinstance(test, Compare)
                    and test.column in own
                    and not isinstance(test.constant, str)
                ):
                    domain = narrowed(own[test.column], test.operator, test.constant)
                    own = own | {test.column: domain}
                    span = _meet(span, _window_span(domain, catalog.unit))
            return span, own
        case Project():
            span, own = _walk(plan.source, catalog)
            kept = {new.name: new.of.name for new in plan.columns if isinstance(new.of, Column)}
            return span, {name: own[source] for name, source in kept.items() if source in own}
        case Join() | UnionAll():
            left_span, left = _walk(plan.left, catalog)
            right_span, right = _walk(plan.right, catalog)
            spans = [span for span in (left_span, right_span) if span is not None]
            span = _hull(spans) if spans else None
            if isinstance(plan, UnionAll):
                names = left.keys() & right.keys()
                return span, {name: hull((left[name], right[name]), name) for name in names}
            paired = {name for name, match in plan.on if name == match}
            return span, {n: d for n, d in right.items() if n not in paired} | left
        case PerUnit():
            span, own = _walk(plan.source, catalog)
            return span, {name: domain for name, domain in own.items() if name in plan.keys}
        case Distinct() if plan.per_unit:
            return _walk(plan.source, catalog)
        case SampleUnits() | LimitGroups():
            return _walk(plan.source, catalog)
        case LimitTotal():
            span, own = _walk(plan.source, catalog)
            return span, {name: domain for name, domain in own.items() if name != plan.column}
        case Distinct() | Group():
            # no row has an owner any more: nothing above says more about windows
            return _walk(plan.source, catalog)[0], {}
    raise RefusedError(f"no rule for {type(plan).__name__}", rule=PrivacyRule.NO_RULE)


def _meet(first: Span | None, second: Span) -> Span:
    return second if first is None else (max(first[0], second[0]), min(first[1], second[1]))


def _hull(spans: Iterable[Span]) -> Span:
    lows, highs = zip(*spans, strict=True)
    return min(lows), max(highs)


def _domain(catalog: Catalog, table: str) -> Domain:
    """Return the declared domain of the window's column in a table."""
    declared = catalog.table(table)
    column = declared.column(catalog.unit.column or "")
    assert isinstance(column, (Date, Timestamp))
    return declared_domain(column, declared, NO_FACTS)


def _window_span(domain: Domain, unit: Unit) -> Span:
    return _number(domain.low, domain, unit), _number(domain.high, domain, unit)


def _number(value: int, domain: Domain, unit: Unit) -> int:
    """Compute the number of the window that a time lies in, as `data.owners.window_sql` counts.

    It never falls when time goes on.
    """
    days = (value + (unit.offset_seconds or 0)) // 86_400 if domain.kind == "timestamp" else value
    day = _EPOCH + days * _DAY
    months = day.year * 12 + day.month - 1
    return {"day": days, "week": (days + 3) // 7, "month": months, "year": day.year}[
        unit.every or "day"
    ]


def _label(number: int, unit: Unit) -> str:
    """Write the name of a window: its first day, cut to the month or year where that is enough.

    >>> _label(2026 * 12 + 2, Unit("person_window", "date", "month", 0)), _label(0, Unit("x",
    ...     "date", "week", 0))
    ('2026-03', '1969-12-29')
    """
    match unit.every:
        case "year":
            return f"{number:04d}"
        case "month":
            return f"{number // 12:04d}-{number % 12 + 1:02d}"
        case "week":
            return (_EPOCH + (7 * number - 3) * _DAY).isoformat()
    return (_EPOCH + number * _DAY).isoformat()
