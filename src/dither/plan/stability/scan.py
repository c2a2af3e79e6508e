"""A registered table. Proof: docs/proofs/stability.md#scan."""

from __future__ import annotations

from dither.catalog import Table
from dither.errors import RefusedError
from dither.plan.domain import Columns, declared_domain
from dither.plan.facts import Facts
from dither.plan.stability.owned import Node, Owned, Public
from dither.rules import PrivacyRule


def scan_rows(table: Table) -> Node:
    """Bound the rows of one unit in a table by its declared `rows_per_unit`.

    Registration left the others out. Public rows belong to nobody. Raises RefusedError where a
    private table declares no limit.
    """
    if table.kind == "public":
        return Public(table.name)
    if table.rows_per_unit is None or table.max_rows is None:
        raise RefusedError(
            f"{table.name} has no limit of rows per unit", rule=PrivacyRule.LIMITED_ROWS
        )
    return Owned(table.rows_per_unit, most=table.max_rows)


def scan_columns(table: Table, facts: Facts, owner: str | None) -> Columns:
    """Return the declared columns. The owner's own column is no column of the registered table."""
    return {
        column.name: declared_domain(column, table, facts)
        for column in table.columns
        if column.name != owner
    }
