"""`COUNT(*) AS n, n / 2 AS half`: a later column, or WHERE, may use the name of an output."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.sources import TableSource, list_selects, list_sources
from dither.sql.tree_nodes import find_nodes

_MOST_NODES = 2_000


def rewrite_lateral_aliases(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Put the expression of an earlier output in the place of its name, and of any in WHERE.

    A column of a table goes before an output of the same name. Where a source is a subquery its
    columns are not known yet: nothing is changed. A text that grows too long is left as it is.
    """
    for select in list_selects(query):
        sources = list_sources(select, catalog)
        if not sources or any(source.columns is None for source in sources):
            continue
        _replace_names(select, sources)
    return query


def _replace_names(select: exp.Select, sources: list[TableSource]) -> None:
    """Replace names of earlier outputs in a SELECT by what they stand for, in place."""
    meanings: dict[str, exp.Expr] = {}
    size = 0
    for output in list(select.expressions):
        for column in find_nodes(output, exp.Column) if meanings else ():
            meaning = meanings.get(column.name.lower())
            is_free = not column.table and column.parent_select is select
            if meaning is None or not is_free:
                continue
            size += sum(1 for _ in meaning.walk())
            if size > _MOST_NODES:
                return
            column.replace(exp.Paren(this=meaning.copy()))
        name = output.alias.lower()
        is_column = any(name in (source.columns or ()) for source in sources)
        if name and not is_column:
            meanings[name] = output.this
    where = select.args.get("where")
    for column in find_nodes(where, exp.Column) if where else []:
        meaning = meanings.get(column.name.lower())
        is_free = not column.table and column.parent_select is select
        if meaning is None or not is_free:
            continue
        size += sum(1 for _ in meaning.walk())
        if size > _MOST_NODES:
            return
        column.replace(exp.Paren(this=meaning.copy()))
