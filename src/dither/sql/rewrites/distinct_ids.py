"""`COUNT(DISTINCT id)` of a table whose ids are unique is `COUNT(id)`."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog, OwnerReference
from dither.catalog.owners import owner_names
from dither.sql.rewrites.sources import find_definition, list_selects, read_source


def rewrite_distinct_ids(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Count rows in the place of their ids, where each row of a person has an id of its own.

    Registration makes a key unique for each owner. So this holds in groups by the owner of one
    table, and for keys of one column; rows of several people may share an id. A key that another
    table refers to has one owner: it holds for all rows.
    """
    for select in list_selects(query):
        clause = select.args.get("from_")
        group = select.args.get("group")
        if clause is None or select.args.get("joins"):
            continue
        is_table = isinstance(clause.this, exp.Table) and find_definition(clause.this) is None
        if not is_table or read_source(clause.this, catalog).columns is None:
            continue
        if clause.this.args.get("joins"):
            continue
        table = catalog.table(clause.this.name)
        if table.kind != "private":
            continue
        owners = {name.lower() for name in owner_names(catalog, table)}
        grouped = group.expressions if group is not None else []
        keys = {key.name.lower() for key in grouped if isinstance(key, exp.Column)}
        ids = {key[0].lower() for key in table.unique if len(key) == 1} - owners
        _count_rows(select, ids if owners & keys else ids & list_referenced(table.name, catalog))
    return query


def list_referenced(table: str, catalog: Catalog) -> set[str]:
    """The columns of a table that are, each by itself, the key that another table refers to."""
    if catalog.unit.column is not None:
        return set()  # in another window the same id may be somebody else's
    owners = [child.owner for child in catalog.private_tables]
    return {
        owner.by[0][1].lower()
        for owner in owners
        if isinstance(owner, OwnerReference) and owner.references == table and len(owner.by) == 1
    }


def _count_rows(select: exp.Select, ids: set[str]) -> None:
    """Rewrite COUNT(DISTINCT id) as COUNT(id), in place, for ids of which a person has each
    once."""
    for count in list(select.find_all(exp.Count)):
        counted = count.this.expressions if isinstance(count.this, exp.Distinct) else []
        is_id = len(counted) == 1 and isinstance(counted[0], exp.Column)
        if is_id and counted[0].name.lower() in ids and count.parent_select is select:
            count.set("this", counted[0].copy())
