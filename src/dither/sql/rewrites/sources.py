"""What a SELECT reads, as far as the catalog tells it without binding."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.tree_nodes import find_nodes


@dataclass(frozen=True)
class TableSource:
    """A table in FROM or JOIN: the name it goes by, and its columns; None where none is known."""

    name: str
    columns: frozenset[str] | None


def list_selects(query: exp.Expr) -> list[exp.Select]:
    """Every SELECT of a query, the innermost last."""
    return find_nodes(query, exp.Select)


def read_source(node: exp.Expr, catalog: Catalog) -> TableSource:
    """Read the source at a node of FROM or JOIN: its name, and its columns where they are known."""
    name = node.alias_or_name.lower()
    if isinstance(node, exp.Subquery):
        return TableSource(name, _list_outputs(node.this, node.args.get("alias")))
    definition = find_definition(node) if isinstance(node, exp.Table) else None
    if definition is not None:
        return TableSource(name, _list_outputs(definition.this, definition.args.get("alias")))
    try:
        columns = catalog.table(node.name).columns if isinstance(node, exp.Table) else None
    except KeyError:
        columns = None
    return TableSource(
        name, None if columns is None else frozenset(column.name.lower() for column in columns)
    )


def _list_outputs(query: exp.Expr, alias: exp.Expr | None) -> frozenset[str] | None:
    """The names of a subquery's columns; None where some have none, or are not written out."""
    while isinstance(query, exp.Subquery):
        query = query.this
    if not isinstance(query, exp.Select):
        return None
    named = [column.name for column in (alias.args.get("columns") if alias else None) or ()]
    names = [*named, *(output.alias_or_name for output in query.expressions[len(named) :])]
    is_listed = all(names) and not any(map(_is_star, query.expressions))
    return frozenset(name.lower() for name in names) if is_listed else None


def _is_star(output: exp.Expr) -> bool:
    return isinstance(output, exp.Star) or isinstance(output.this, exp.Star)


def list_sources(select: exp.Select, catalog: Catalog) -> list[TableSource]:
    """The sources of a SELECT: FROM, then each JOIN."""
    clause = select.args.get("from_")
    first = [] if clause is None else [clause.this]
    nodes = [*first, *(join.this for join in select.args.get("joins") or [])]
    return [read_source(node, catalog) for node in nodes]


def is_in_list(join: exp.Join) -> bool:
    """Whether a table stands after a comma: neither a word nor a condition joins it."""
    clauses = ("on", "using", "side", "kind", "method")
    return not any(join.args.get(clause) for clause in clauses)


def find_source(column: exp.Column, sources: list[TableSource]) -> str | None:
    """Name the one source that a column is of; None where that is not known."""
    if column.table:
        name = column.table.lower()
        return name if any(source.name == name for source in sources) else None
    if any(source.columns is None for source in sources):
        return None
    owners = [source.name for source in sources if column.name.lower() in (source.columns or ())]
    return owners[0] if len(owners) == 1 else None


def is_named_by_with(node: exp.Table) -> bool:
    """Whether WITH gives a name of a table another meaning here."""
    return find_definition(node) is not None


def find_definition(node: exp.Table) -> exp.CTE | None:
    """The definition of WITH that a name of a table means here, if any.

    A definition is known to those after it in its list, and to the query that the list is before.
    """
    name = node.name.lower()
    below: exp.Expr = node
    above: exp.Expr | None = node.parent
    while above is not None:
        clause = above if isinstance(above, exp.With) else above.args.get("with_")
        if clause is not None and clause is not below:
            definitions = list(clause.expressions)
            if clause is above and not clause.args.get("recursive"):
                definitions = definitions[: _find_position(below, definitions)]
            for cte in reversed(definitions):
                if cte.alias.lower() == name:
                    assert isinstance(cte, exp.CTE)
                    return cte
        below, above = above, above.parent
    return None


def _find_position(definition: exp.Expr, definitions: list[exp.Expr]) -> int:
    return next(index for index, known in enumerate(definitions) if known is definition)
