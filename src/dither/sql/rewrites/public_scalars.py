"""`cost > (SELECT AVG(beds) FROM counties)`: a number of a public table is joined to every row."""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.per_unit import contains_aggregate, has_aggregates, is_aggregate
from dither.sql.resolve import flatten_chain
from dither.sql.rewrites.sources import TableSource, find_definition, find_source, list_sources
from dither.sql.tree_nodes import find_nodes

_OUTER_PLACES = (
    exp.From,
    exp.Join,
    exp.In,
    exp.Exists,
    exp.Any,
    exp.All,
    exp.CTE,
    exp.SetOperation,
)
_SINGLE_ROW_CLAUSES = {"expressions", "from_", "joins", "where", "with_"}
_COUNTS = (exp.Count, exp.CountIf)
_KEEPS_NULL = (exp.Paren, exp.Neg, exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Cast, exp.Round)
Tie = tuple[exp.Column, exp.Column]
"""A column of the subquery, and the column of the outer row that it equals."""


def rewrite_public_scalars(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Join a subquery over public tables that gives one value, and put its column in its place.

    A total is one row for all. Where the subquery is tied to the outer row by equalities it is one
    row for each value of them: an aggregate, or the row of a unique key. A subquery that can give
    several rows stays, and is refused; so does one beside noisy numbers.
    """
    if len(find_nodes(query, exp.Select)) == 1:
        return query
    _count_matches(query, catalog)
    names = {node.name.lower() for node in find_nodes(query, exp.Identifier)}
    joined: dict[tuple[int, exp.Expr], exp.Expr] = {}
    for subquery in find_nodes(query, exp.Subquery):
        select = subquery.parent_select
        if not isinstance(select, exp.Select) or not select.args.get("from_"):
            continue
        if not _is_value_of_rows(subquery, select) or not reads_only_public(subquery, catalog):
            continue
        written = (id(select), subquery.copy())
        if written not in joined:
            column = _join_value(subquery.this, select, catalog, names)
            if column is None:
                continue
            joined[written] = column
        subquery.replace(exp.Paren(this=joined[written].copy()))
    return query


def _count_matches(query: exp.Query, catalog: Catalog) -> None:
    """Write EXISTS over public tables that is not tied to the outer row as a count of rows."""
    for exists in find_nodes(query, exp.Exists):
        body = exists.this.this if isinstance(exists.this, exp.Subquery) else exists.this
        if not isinstance(body, exp.Select) or not reads_only_public(body, catalog):
            continue
        clauses = {clause for clause, argument in body.args.items() if argument}
        split = _split_ties(body, catalog) if clauses <= _SINGLE_ROW_CLAUSES else None
        if split is None or split[0] or has_aggregates(body):
            continue
        counted = body.copy()
        counted.set("expressions", [exp.Count(this=exp.Star())])
        number = exp.Subquery(this=counted)
        exists.replace(exp.Paren(this=exp.GT(this=number, expression=exp.Literal.number(0))))


def _is_value_of_rows(subquery: exp.Subquery, select: exp.Select) -> bool:
    """Whether a subquery stands for a value of each row: in WHERE, in an aggregate, in a key, or
    anywhere in a SELECT without aggregates."""
    if isinstance(subquery.parent, _OUTER_PLACES) or subquery.alias:
        return False
    node: exp.Expr = subquery
    while node.parent is not None and node.parent is not select:
        node = node.parent
        if isinstance(node, exp.Join):
            return False
        if is_aggregate(node) or isinstance(node, (exp.Where, exp.Group)):
            return True
    if not select.args.get("group"):
        return not has_aggregates(select) and select.parent is not None
    return _is_key(node, select)


def _is_key(output: exp.Expr, select: exp.Select) -> bool:
    """Whether GROUP BY names an output, by its alias or its position."""
    outputs = select.expressions
    if not any(output is column for column in outputs):
        return False
    position = next(index for index, column in enumerate(outputs, 1) if column is output)
    keys = [key.unnest() for key in select.args["group"].expressions]
    return any(
        (isinstance(key, exp.Column) and key.name.lower() == output.alias.lower() != "")
        or (isinstance(key, exp.Literal) and str(key.this) == str(position))
        for key in keys
    )


def reads_only_public(query: exp.Expr, catalog: Catalog) -> bool:
    """Whether a query reads tables, and all of them are public; names of WITH are looked up."""
    tables = find_nodes(query, exp.Table)
    return bool(tables) and all(_is_public(table, catalog) for table in tables)


def _is_public(table: exp.Table, catalog: Catalog) -> bool:
    definition = find_definition(table)
    if definition is not None:
        return reads_only_public(definition.this, catalog)
    try:
        return catalog.table(table.name).kind == "public"
    except KeyError:
        return False


def _join_value(
    body: exp.Expr, select: exp.Select, catalog: Catalog, names: set[str]
) -> exp.Expr | None:
    """Join one subquery to the rows of its SELECT, and return what stands for its value.

    None, and no change, where it may give several rows.
    """
    if not isinstance(body, exp.Select) or len(body.expressions) != 1:
        return None
    clauses = {clause for clause, argument in body.args.items() if argument}
    split = _split_ties(body, catalog) if clauses <= _SINGLE_ROW_CLAUSES else None
    if split is None:
        return None
    ties, own_terms = split
    output = _read_output(body, ties, own_terms, catalog)
    if output is None:
        return None
    source = _fresh("public", names)
    value = _fresh("public_value", names)
    keys = [_fresh("public_key", names) for _ in ties]
    columns = [exp.alias_(inner.copy(), key) for (inner, _), key in zip(ties, keys, strict=True)]
    rows = body.copy()
    rows.set("expressions", [*columns, exp.alias_(output.copy(), value)])
    rows.set("where", exp.Where(this=exp.and_(*own_terms)) if own_terms else None)
    if ties and contains_aggregate(output):
        rows.set("group", exp.Group(expressions=[inner.copy() for inner, _ in ties]))
    join = exp.Join(this=rows.subquery(source))
    if not ties:
        join.set("kind", "CROSS")
    else:
        pairs = zip(ties, keys, strict=True)
        equal = [
            exp.EQ(this=outer.copy(), expression=exp.column(key, table=source))
            for (_, outer), key in pairs
        ]
        join.set("on", exp.and_(*equal))
        join.set("side", "LEFT")
    select.append("joins", join)
    column = exp.column(value, table=source)
    if ties and isinstance(output, _COUNTS):
        return exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
    return column


def _read_output(
    body: exp.Select, ties: list[Tie], own_terms: list[exp.Expr], catalog: Catalog
) -> exp.Expr | None:
    """The value of a subquery as it is computed in a join; None where it may have several."""
    output: exp.Expr = body.expressions[0].unalias()
    if contains_aggregate(output):
        # Without a match the join gives null: a bare count is mended, other values must be null.
        is_right = not ties or isinstance(output, _COUNTS) or _is_null_over_no_row(output)
        return output if is_right else None
    equal = [inner.name.lower() for inner, _ in ties]
    constant = [
        term.this.name.lower()
        for term in own_terms
        if isinstance(term, exp.EQ)
        and isinstance(term.this, exp.Column)
        and isinstance(term.expression, (exp.Literal, exp.Boolean, exp.Cast))
        and not term.expression.find(exp.Column)
    ]
    if _is_unique(body, {*equal, *constant}, catalog):
        return output if ties else exp.Max(this=output.copy())  # of at most one row
    return output if not ties and _is_one_row(body) else None


def _is_null_over_no_row(node: exp.Expr) -> bool:
    """Whether a value is null where its aggregates are over no row: arithmetic of sums and the
    like, without counts and without functions that replace a null."""
    if is_aggregate(node):
        return not isinstance(node, _COUNTS)
    operands = [operand for operand in node.iter_expressions() if isinstance(operand, exp.Expr)]
    return isinstance(node, _KEEPS_NULL) and any(map(_is_null_over_no_row, operands))


def _split_ties(body: exp.Select, catalog: Catalog) -> tuple[list[Tie], list[exp.Expr]] | None:
    """Split WHERE into equalities with the outer row and conditions of the subquery's own.

    None where the outer row is used in any other way.
    """
    sources = list_sources(body, catalog)
    where = body.args.get("where")
    terms = flatten_chain(where.this, exp.And) if where else []
    ties: list[Tie] = []
    own_terms: list[exp.Expr] = []
    for term in terms:
        outside = [column for column in term.find_all(exp.Column) if _is_outer(column, sources)]
        if not outside:
            own_terms.append(term.copy())
            continue
        term = term.unnest()
        operands = [term.this, term.args.get("expression")] if isinstance(term, exp.EQ) else []
        inside = [operand for operand in operands if operand is not outside[0]]
        if len(inside) != 1 or len(outside) != 1 or not isinstance(inside[0], exp.Column):
            return None
        ties.append((inside[0], outside[0]))
    others = [body.expressions[0], *(body.args.get("joins") or ())]
    if any(_is_outer(column, sources) for node in others for column in node.find_all(exp.Column)):
        return None
    return ties, own_terms


def _is_outer(column: exp.Column, sources: list[TableSource]) -> bool:
    """Whether a column is of none of the subquery's own sources."""
    return find_source(column, sources) is None


def _is_one_row(body: exp.Select) -> bool:
    """Whether a SELECT without aggregates shows all rows of a total: of one row."""
    if body.args.get("where") or body.args.get("joins"):
        return False
    source = body.args["from_"].this
    definition = find_definition(source) if isinstance(source, exp.Table) else source
    if definition is None or not isinstance(definition.this, exp.Select):
        return False
    inner = definition.this
    clauses = {clause for clause, argument in inner.args.items() if argument}
    if not clauses <= _SINGLE_ROW_CLAUSES or not inner.args.get("from_"):
        return False
    return has_aggregates(inner) or _is_one_row(inner)


def _is_unique(body: exp.Select, equal: set[str], catalog: Catalog) -> bool:
    """Whether at most one row of the subquery's one table has some values of these columns."""
    table = body.args["from_"].this
    if body.args.get("joins") or not isinstance(table, exp.Table) or find_definition(table):
        return False
    unique = catalog.table(table.name).unique
    return any({name.lower() for name in key} <= equal for key in unique)


def _fresh(stem: str, names: set[str]) -> str:
    """A name that the question does not use."""
    number = 1
    while f"{stem}_{number}" in names:
        number += 1
    names.add(f"{stem}_{number}")
    return f"{stem}_{number}"
