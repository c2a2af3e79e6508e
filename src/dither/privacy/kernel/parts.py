"""Whether a request reads one part of a partition only (rule parts-follow-the-unit).

A part's pot pays for questions about the units whose value of one column is the part's. That needs
the column to be a function of the *unit*: one row per owner in that table, and the registered
version for which the partition was opened, since a later version may give an owner another value.
Every plan must hold the plain conjunct `column = value`.
"""

from __future__ import annotations

from itertools import chain, pairwise

from dither.catalog import Catalog
from dither.errors import RefusedError
from dither.plan.algebra import (
    And,
    Compare,
    Condition,
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
)
from dither.privacy.kernel.request import Request
from dither.privacy.ledger import Pot
from dither.rules import PrivacyRule


def check_parts(request: Request, path: tuple[Pot, ...], catalog: Catalog, version: int) -> None:
    """Refuses a request that could read rows of other parts than its pots are for.

    `path` are the pots that pay: the one that is asked first, then those around it.
    """
    for part, partition in pairwise(path):
        if part.kind != "part":
            continue
        check_blocks(partition, catalog, version)
        assert partition.column is not None and part.value is not None
        table, column = partition.column.split(".")
        for step in request.steps:
            if not _lies_within(step.query.plan, table, column, part.value):
                raise RefusedError(
                    f"budget {part.name!r} pays for questions about {table} WHERE {column} = "
                    f"{part.value!r} only: "
                    "add that condition, or ask from the budget above",
                    rule=PrivacyRule.PARTS,
                )


def check_blocks(partition: Pot, catalog: Catalog, version: int) -> None:
    """Raise RefusedError unless each privacy unit lies in one part of this partition.

    The partition's column must be in a private table with one row per unit, under its exact name,
    and the partition must have been opened for this registered version.
    """
    assert partition.column is not None
    name, _, column = partition.column.partition(".")
    try:
        table = catalog.table(name)
        declared = table.column(column)
    except KeyError:
        raise RefusedError(
            f"there is no column {partition.column}", rule=PrivacyRule.PARTS
        ) from None
    if (table.name, declared.name) != (name, column):
        raise RefusedError(
            f"write {table.name}.{declared.name}, not {partition.column}", rule=PrivacyRule.PARTS
        )
    if table.kind != "private" or table.rows_per_unit != 1:
        raise RefusedError(
            f"{name} may hold several rows of one {catalog.unit.label}, who would then lie in "
            f"several parts: "
            "a partition is a column of a table with one row per unit",
            rule=PrivacyRule.PARTS,
        )
    if partition.version != version:
        raise RefusedError(
            f"budget {partition.name!r} was opened for version {partition.version}; version "
            f"{version} may have moved "
            "people between parts. The steward opens a new partition",
            rule=PrivacyRule.PARTS,
        )


def _lies_within(plan: Plan, table: str, column: str, value: str) -> bool:
    """Whether every row of the plan belongs to a unit of the part: `table`.`column` = `value`.

    What is not recognised counts as outside. A scan of that table under a filter that asks for
    exactly this value holds rows of such units only; what is made from those rows alone, or by
    joining them with other rows of the *same owner*, does too. Conditions above a projection do not
    count: their column may be another.
    """
    match plan:
        case Join(left, right, _, kind):
            return _lies_within(left, table, column, value) or (
                kind == "inner" and _lies_within(right, table, column, value)
            )
        case UnionAll(left, right):
            return _lies_within(left, table, column, value) and _lies_within(
                right, table, column, value
            )
        case (
            Project(source)
            | LimitGroups(source)
            | LimitTotal(source)
            | PerUnit(source)
            | Distinct(source)
            | SampleUnits(source)
            | Group(source)
        ):
            return _lies_within(source, table, column, value)
    is_filtered = False
    while isinstance(plan, Filter):
        is_filtered = is_filtered or any(
            isinstance(condition, Compare)
            and (condition.column, condition.operator, condition.constant) == (column, "=", value)
            for condition in _conjuncts(plan.condition)
        )
        plan = plan.source
    if isinstance(plan, Scan):
        return is_filtered and plan.table == table
    return _lies_within(plan, table, column, value)


def _conjuncts(condition: Condition) -> tuple[Condition, ...]:
    """List the conditions that must all hold.

    Unlike `algebra.conjuncts` this takes no comparisons out of expressions.
    """
    if isinstance(condition, And):
        return tuple(chain.from_iterable(map(_conjuncts, condition.conditions)))
    return (condition,)
