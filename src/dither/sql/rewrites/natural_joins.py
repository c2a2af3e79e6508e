"""NATURAL JOIN is JOIN ... USING the columns that both sides have."""

from __future__ import annotations

from collections import Counter

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.sources import is_in_list, list_selects, read_source


def rewrite_natural_joins(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Name the columns of NATURAL joins between tables of the catalog.

    A column that USING joined is one column from there on; after a comma joins begin anew. Where a
    subquery is on either side its columns are not known yet, and a column that several tables
    before it have is ambiguous: the join stays, and is refused.
    """
    for select in list_selects(query):
        joins = select.args.get("joins") or []
        clause = select.args.get("from_")
        if clause is None:
            continue
        first = read_source(clause.this, catalog).columns
        earlier = None if first is None else Counter(first)
        for join in joins:
            columns = read_source(join.this, catalog).columns
            if is_in_list(join):
                earlier = None if columns is None else Counter(columns)
                continue
            if earlier is None or columns is None:
                break
            shared = sorted(columns & set(earlier))
            is_natural = str(join.args.get("method") or "").upper() == "NATURAL"
            if is_natural and shared and all(earlier[name] == 1 for name in shared):
                join.set("method", None)
                join.set("using", [exp.to_identifier(name) for name in shared])
            using = {name.name.lower() for name in join.args.get("using") or ()}
            earlier.update(columns - using)
    return query
