"""`main.orders` and `"shop"."orders"` are the table `orders`."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.rewrites.sources import is_named_by_with
from dither.sql.tree_nodes import list_nodes


def rewrite_schema_names(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Take the name of the schema or dataset off the names of tables and columns.

    Only `main` and the dataset's own name are known, and only before a table of the catalog: any
    other name stays, and is refused. So does that of a table whose name WITH gave to another.
    """
    names = {"main", catalog.dataset.lower()}
    tables = {table.name.lower() for table in catalog.tables}
    for node in list_nodes(query):
        if not isinstance(node, (exp.Table, exp.Column)):
            continue
        if isinstance(node, exp.Table) and "." in node.name and not node.text("db"):
            _split_path(node)
        if not (node.args.get("db") or node.args.get("catalog")):
            continue
        table = node.name if isinstance(node, exp.Table) else node.text("table")
        schemas = {part.lower() for part in (node.text("db"), node.text("catalog")) if part}
        is_hidden = isinstance(node, exp.Table) and is_named_by_with(node)
        if schemas and schemas <= names and table.lower() in tables and not is_hidden:
            node.set("db", None)
            node.set("catalog", None)
    return query


def _split_path(node: exp.Table) -> None:
    """Read a quoted path, as in `shop.orders` between backticks, as names with dots between."""
    *schemas, table = node.name.split(".")
    if isinstance(node.this, exp.Identifier) and len(schemas) <= 2 and all((*schemas, table)):
        for part, name in zip(("db", "catalog"), reversed(schemas), strict=False):
            node.set(part, exp.to_identifier(name, quoted=True))
        node.this.set("this", table)
