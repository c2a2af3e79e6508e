"""NATURAL JOIN is JOIN ... USING the columns that both sides have."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.sources import list_selects, read_source


def rewrite_natural_joins(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Name the columns of NATURAL joins between tables of the catalog.

    Where a subquery is on either side its columns are not known yet: the join stays, and is
    refused.
    """
    for select in list_selects(query):
        joins = select.args.get("joins") or []
        clause = select.args.get("from_")
        if clause is None:
            continue
        before = [read_source(clause.this, catalog).columns]
        for join in joins:
            columns = read_source(join.this, catalog).columns
            is_natural = str(join.args.get("method") or "").upper() == "NATURAL"
            if is_natural and columns is not None and None not in before:
                earlier = [name for known in before for name in known or ()]
                shared = sorted(name for name in columns if earlier.count(name) == 1)
                if shared:
                    join.set("method", None)
                    join.set("using", [exp.to_identifier(name) for name in shared])
            before.append(columns)
    return query
