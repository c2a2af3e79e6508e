"""What a preview says about limits and keys that cost accuracy, from catalog and question alone.

Which limit would err least depends on the rows, so nothing here says it: it can be bought.
"""

from __future__ import annotations

from collections.abc import Iterable

from dither.catalog import Catalog
from dither.question.recipe import Recipe
from dither.question.row_limits import list_limited_tables, name_unit

_WIDE_LIMIT = 10
"""Rows per unit from which on a smaller limit may pay for its price."""


def list_limit_notes(recipe: Recipe, catalog: Catalog, atoms: Iterable[int]) -> list[str]:
    """Say of a wide limit that the noise grows with it, and how a better one is bought."""
    queries = {grouping.positions[atom][0] for grouping in recipe.sets for atom in atoms}
    tables = dict.fromkeys(
        table
        for query in sorted(queries)
        for table in list_limited_tables(catalog, recipe.queries[query].plan)
        if (table.rows_per_unit or 0) >= _WIDE_LIMIT
    )
    return [
        f"its noise grows with the limit of {table.rows_per_unit} rows per {name_unit(catalog)}; "
        f'which limit errs least is unknown: buy it, as in con.suggest("rows_per_unit", '
        f'"{table.name}", epsilon=0.1), and register with it'
        for table in tables
    ]
