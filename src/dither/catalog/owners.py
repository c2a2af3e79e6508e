"""Which columns of a table name the owner of its rows."""

from __future__ import annotations

from dither.catalog.model import Catalog, OwnerReference, Table


def owner_names(catalog: Catalog, table: Table) -> frozenset[str]:
    """Collect the columns of a table that name the owner of its rows.

    These are the owner column, and keys that refer to one.
    """
    owner = table.owner
    column = catalog.owner_column(table)
    names = {column} if column in table.column_names else set()
    if isinstance(owner, OwnerReference):
        above = owner_names(catalog, catalog.table(owner.references))
        names |= {own_column for own_column, parent_column in owner.by if parent_column in above}
    return frozenset(name for name in names if name is not None)
