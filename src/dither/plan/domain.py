"""Domains: what a column of a plan can hold, from the catalog and public facts alone.

Numbers, days, seconds, truth values and labels are integers from `low` to `high`; a number is its
integer times `step`. Arithmetic on domains is interval arithmetic on those integers, so that no
value of a plan can leave them.

>>> Domain("number", False, 0, 500000, Fraction(1, 100)).largest
500000
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil, floor

from dither.catalog import (
    OTHER,
    Boolean,
    Bounded,
    Category,
    Date,
    FromPublic,
    Id,
    Table,
    Text,
    Timestamp,
    Undeclared,
    scalars,
)
from dither.catalog import Column as Declared
from dither.errors import RefusedError
from dither.plan.expressions import Kind
from dither.plan.facts import Facts
from dither.rules import PrivacyRule
from dither.stored import stored

LIMIT = 10**37
"""Every integer of a plan, intermediate ones included, stays below this: exact in HUGEINT and in
decimal(38)."""
INTEGERS: tuple[Kind, ...] = ("number", "date", "timestamp", "boolean", "category")
FIRST_DAY = -719162  # 0001-01-01
LAST_DAY = 2932896  # 9999-12-31


@stored(
    "domain",
    kind="kind",
    nullable="nullable",
    low="low",
    high="high",
    step="step",
    labels="labels",
    width="width",
    offset="offset",
    undeclared="undeclared",
    keys="keys",
)
@dataclass(frozen=True)
class Domain:
    """The values of one column. `keys` are the declared integers, which a WHERE narrows not: GROUP
    BY lists them all.

    `labels` belong to categories (`other` included), `width` to texts, `offset` (seconds east) to
    timestamps. `undeclared` texts carry the index of their key beside them in the registered copy.
    """

    kind: Kind
    nullable: bool
    low: int = 0
    high: int = 0
    step: Fraction = Fraction(1)
    labels: tuple[str, ...] = ()
    width: int = 0
    offset: int = 0
    undeclared: bool = False
    keys: tuple[int, int] | None = None

    @property
    def largest(self) -> int:
        return max(abs(self.low), abs(self.high))

    @property
    def listed(self) -> tuple[int, int]:
        """The first and last integer that a GROUP BY lists."""
        return self.keys or (self.low, self.high)


Columns = dict[str, Domain]


def declared_domain(column: Declared, table: Table, facts: Facts) -> Domain:
    """The domain of a registered column."""
    if isinstance(column, Id):
        return Domain("id", True)
    nullable = column.nulls.rule == "keep"
    if isinstance(column, Category):
        if isinstance(column.values, Undeclared):
            # a public table holds no index beside its labels: they are texts
            return Domain(
                "text", nullable, width=column.values.width, undeclared=table.kind == "private"
            )
        if isinstance(column.values, FromPublic) and not facts.has_labels(
            column.values.table, column.values.column
        ):
            return Domain(
                "text", nullable
            )  # no list is known here: neither a key nor a label to compare with
        labels = labels_of(column, facts)
        labels = (*labels, OTHER) if column.other == "keep" else labels
        return Domain(
            "category",
            nullable,
            0,
            max(0, len(labels) - 1),
            labels=labels,
            keys=(0, len(labels) - 1),
        )
    if isinstance(column, Text):
        listed = table.kind == "public" and facts.has_labels(table.name, column.name)
        return Domain(
            "text",
            nullable,
            width=column.width,
            labels=facts.labels(table.name, column.name) if listed else (),
        )
    assert isinstance(column, Bounded)
    low, high = column.lower_grid, column.upper_grid
    kind: Kind = "number"
    if isinstance(column, (Boolean, Date, Timestamp)):
        kind = (
            "boolean"
            if isinstance(column, Boolean)
            else "date"
            if isinstance(column, Date)
            else "timestamp"
        )
    offset = column.offset_seconds if isinstance(column, Timestamp) else 0
    domain = Domain(kind, nullable, low, high, column.step, offset=offset, keys=(low, high))
    least, largest = facts.find_range(table.name, column.name) or (low, high)
    return replace(domain, low=max(low, least), high=min(high, largest))


def labels_of(column: Category, facts: Facts) -> tuple[str, ...]:
    """List the labels of a category, without `other`.

    Raises RefusedError where nobody declared them.
    """
    if isinstance(column.values, FromPublic):
        return facts.labels(column.values.table, column.values.column)
    if isinstance(column.values, Undeclared):
        raise RefusedError(f"{column.name} has undeclared labels", rule=PrivacyRule.KEY_SELECTION)
    return column.values


def number(low: int, high: int, step: Fraction, nullable: bool) -> Domain:
    """Make the domain of a number, with bounds in grid steps.

    Raises RefusedError where a value could have more than 37 digits.
    """
    if max(abs(low), abs(high)) >= LIMIT:
        raise RefusedError(
            "a value could have more than 37 digits: round it, or narrow the bounds it is computed "
            "from",
            rule=PrivacyRule.WIDTHS,
        )
    return Domain("number", nullable, low, high, step)


def narrowed(domain: Domain, operator: str, constant: Fraction) -> Domain:
    """Narrow a domain to the rows where `column <operator> constant`.

    A contradiction narrows nothing.

    >>> narrowed(Domain("number", False, 0, 110), "<", Fraction(25)).high
    24
    """
    grid_value = constant / domain.step
    low = domain.low
    high = domain.high
    if operator in ("<", "<=", "="):
        high = min(high, ceil(grid_value) - 1 if operator == "<" else floor(grid_value))
    if operator in (">", ">=", "="):
        low = max(low, floor(grid_value) + 1 if operator == ">" else ceil(grid_value))
    return domain if low > high else replace(domain, low=low, high=high)


def check_name(name: str, taken: Columns) -> None:
    """Raise RefusedError unless `name` may be a new column's.

    It must be plain, none of ours, and differ from the `taken` columns in more than case, since
    engines ignore case.
    """
    if not isinstance(name, str) or not scalars.is_name(name):
        raise RefusedError(
            f"{str(name)[:40]!r} is no name for a column", rule=PrivacyRule.PLAIN_NAMES
        )
    if name.lower() in {column.lower() for column in taken}:
        raise RefusedError(f"two columns called {name}: rename one", rule=PrivacyRule.PLAIN_NAMES)


def is_stored(domain: Domain) -> bool:
    """Whether values are integers in the engine."""
    return domain.kind in INTEGERS


def hull(domains: tuple[Domain, ...], what: str) -> Domain:
    """Compute the smallest domain that holds all of them; `what` names them in messages.

    Raises RefusedError unless kind, step, labels and zone are the same. The list of a public text
    belongs to that column as it is stored, with the codes beside it: what is made of texts has
    none.
    """
    domains = tuple(
        replace(domain, labels=()) if domain.kind == "text" else domain for domain in domains
    )
    first = domains[0]
    for other in domains[1:]:
        if (first.kind, first.step, first.labels, first.offset) != (
            other.kind,
            other.step,
            other.labels,
            other.offset,
        ):
            raise RefusedError(
                f"{what}: the values are of different kinds, resolutions or labels",
                rule=PrivacyRule.TYPES,
            )
    keys = None
    if first.kind != "text":
        keys = (
            min(domain.listed[0] for domain in domains),
            max(domain.listed[1] for domain in domains),
        )
    return replace(
        first,
        nullable=any(domain.nullable for domain in domains),
        low=min(domain.low for domain in domains),
        high=max(domain.high for domain in domains),
        width=max(domain.width for domain in domains),
        undeclared=all(domain.undeclared for domain in domains),
        keys=keys,
    )
