"""How many rows of one unit a plan can read, in words: what registration left out of the copy."""

from __future__ import annotations

from dither.catalog import Catalog, Table
from dither.plan.algebra import Plan, Scan, nodes_of


def list_limited_tables(catalog: Catalog, plan: Plan) -> list[Table]:
    """List the private tables that a plan reads, in the order of its text.

    None has a limit where each row is a unit of its own.
    """
    if catalog.unit.kind == "row":
        return []
    names = dict.fromkeys(node.table for node in nodes_of(plan) if isinstance(node, Scan))
    tables = [catalog.table(name) for name in names]
    return [table for table in tables if table.kind == "private"]


def name_unit(catalog: Catalog) -> str:
    """The unit in a sentence, as in "person and month"."""
    return catalog.unit.label.replace("_", " and ")


def list_row_limits(catalog: Catalog, plan: Plan) -> list[str]:
    """List what registration limits per unit, in words: "at most 20 rows per person"."""
    tables = list_limited_tables(catalog, plan)
    unit = name_unit(catalog)
    return [
        f"at most {table.rows_per_unit} rows{'' if len(tables) == 1 else f' of {table.name}'} per "
        f"{unit}"
        for table in tables
    ]
