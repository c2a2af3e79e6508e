"""A wider question: the same without its condition on a public table.

    SELECT SUM(price) FROM lines, parts WHERE part = part_id AND brand = 'a' AND quantity < 5

asks about few people where few parts are of the brand. What one of them adds is better known from

    SELECT part, SUM(price) FROM lines, parts WHERE part = part_id AND quantity < 5 GROUP BY part

which has a group for every part, whatever its brand. How many of the parts are of the brand can be
read off the public table. The wider question is used where limits are bought, and never answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction

import pyarrow as pa
from sqlglot import exp

from dither.catalog import Catalog, Table
from dither.errors import QueryError
from dither.postprocess.correlated_numbers import list_public_conditions, write_conditions
from dither.postprocess.locked_engine import run_statement
from dither.postprocess.query_tree import PUBLIC_PREFIX, CannotSplit, list_sources
from dither.sql.parse import parse
from dither.sql.per_unit import contains_aggregate
from dither.sql.resolve import flatten_chain

LARGEST_SHARE = Fraction(1, 20)
"""A condition that leaves more of a public table's rows leaves enough people."""
_DROPPED = ("having", "qualify", "order", "limit", "offset")


def widen_question(
    sql: str, catalog: Catalog, read_public: Callable[[str], pa.Table]
) -> tuple[str, Fraction] | None:
    """The wider question, and which part of the public rows the condition leaves.

    The table is the one of which the condition leaves the smallest part; None where there is no
    such table that each row joins by its unique key, or the part is not small.
    """
    try:
        query = parse(sql).copy()
        if not isinstance(query, exp.Select):
            return None
        widened = _widen(query, catalog, read_public)
    except (CannotSplit, QueryError):
        return None
    if widened is None:
        return None
    key, share = widened
    for clause in _DROPPED:
        query.set(clause, None)
    query.select(key.copy(), copy=False)
    query.group_by(key.copy(), copy=False)
    return query.sql(dialect="duckdb"), share


def _widen(
    query: exp.Select, catalog: Catalog, read_public: Callable[[str], pa.Table]
) -> tuple[exp.Column, Fraction] | None:
    """Take the condition out of a query, or out of the rows that it reads; the column that joins
    the public table, and its share."""
    if query.args.get("with_") or query.args.get("distinct"):
        return None
    sources = list_sources(query)
    if len(sources) == 1 and isinstance(sources[0], exp.Subquery):
        inner = sources[0].this
        if not isinstance(inner, exp.Select) or inner.args.get("group"):
            return None
        if any(map(contains_aggregate, inner.expressions)):
            return None
        widened = _widen(inner, catalog, read_public)
        if widened is None:
            return None
        inner.select(widened[0].copy(), copy=False)
        return exp.column(widened[0].name), widened[1]
    columns = {
        table.name.lower(): frozenset(column.name.lower() for column in table.columns)
        for table in catalog.tables
    }
    candidates: list[tuple[Fraction, int, exp.Column, list[exp.Expr]]] = []
    for table in catalog.tables:
        if table.kind != "public" or not any(_names(source, table) for source in sources):
            continue
        conditions = list_public_conditions(query, table.name.lower(), columns)
        key = _find_joined_column(query, table, catalog)
        if conditions and key is not None:
            share = _find_share(read_public(table.name.lower()), conditions)
            candidates.append((share, len(candidates), key, conditions))
    if not candidates:
        return None
    share, _, key, conditions = min(candidates)
    if not 0 < share <= LARGEST_SHARE:
        return None
    rest = [
        condition
        for condition in flatten_chain(query.args["where"].this, exp.And)
        if not any(condition is dropped for dropped in conditions)
    ]
    query.set("where", None)
    query.where(*(condition.copy() for condition in rest), copy=False)
    return key, share


def _names(source: exp.Expr, table: Table) -> bool:
    return isinstance(source, exp.Table) and source.name.lower() == table.name.lower()


def _find_joined_column(query: exp.Select, table: Table, catalog: Catalog) -> exp.Column | None:
    """The column of people's rows that an equality ties to a unique key of a public table."""
    unique = {key[0].lower() for key in table.unique if len(key) == 1}
    private = {
        column.name.lower()
        for owned in catalog.tables
        if owned.kind == "private"
        for column in owned.columns
    }
    for condition in _list_conditions(query):
        sides = [condition.this, condition.args.get("expression")]
        names = [side.name.lower() if isinstance(side, exp.Column) else "" for side in sides]
        if not isinstance(condition, exp.EQ):
            continue
        for public_side, name in ((0, names[1]), (1, names[0])):
            if names[public_side] in unique and name in private and name not in unique:
                column = sides[1 - public_side]
                assert isinstance(column, exp.Column)
                return column
    return None


def _list_conditions(query: exp.Select) -> Iterator[exp.Expr]:
    """The conditions on joined rows, all of which must hold."""
    where = query.args.get("where")
    clauses = [] if where is None else [where.this]
    clauses += [join.args["on"] for join in query.args.get("joins") or () if join.args.get("on")]
    for clause in clauses:
        yield from (condition.unnest() for condition in flatten_chain(clause, exp.And))


def _find_share(rows: pa.Table, conditions: list[exp.Expr]) -> Fraction:
    """Which part of public rows meets all conditions."""
    name = f"{PUBLIC_PREFIX}widened"
    condition = write_conditions(conditions)
    needed = {column.name.lower() for node in conditions for column in node.find_all(exp.Column)}
    read = rows.select([column for column in rows.column_names if column.lower() in needed])
    counted = run_statement(f"SELECT COUNT(*) FILTER ({condition}) FROM {name}", {name: read})
    return Fraction(counted.column(0)[0].as_py(), max(1, rows.num_rows))
