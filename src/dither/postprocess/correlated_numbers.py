"""A noisy number for each row of a public table, in a condition on rows.

    SELECT SUM(price) FROM lines, part WHERE part = part_id AND brand = 'a'
        AND quantity < (SELECT 0.2 * AVG(quantity) FROM lines WHERE part = part_id)

The inner question is asked by the public column that it is tied to, for those of its values that
the conditions on the public table leave: a list that everybody knows. The condition of the outer
question then compares with one number for each of these values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sqlglot
from sqlglot import exp

from dither.postprocess.allowed_functions import is_allowed
from dither.postprocess.query_tree import CannotSplit, list_sources
from dither.sql.resolve import flatten_chain

MOST_VALUES = 50
"""How many numbers a condition may compare with: as many as a CASE has cases."""
CODE = "code_of_row"
ListValues: TypeAlias = Callable[[str, str, str], list[str]]
"""Public table, column and condition in, the different values as SQL out."""


@dataclass(frozen=True)
class CaseOfNumbers:
    """The outer column that decides which of the numbers is meant, and its values."""

    column: str
    values: tuple[str, ...]

    def write(self, numbers: Mapping[int, str], undefined: str) -> str:
        """CASE of the column: the number of its value, by the position of the value."""
        cases = " ".join(
            f"WHEN {value} THEN {numbers.get(position, undefined)}"
            for position, value in enumerate(self.values)
        )
        return f"CASE {self.column} {cases} END"


def reads_public_alone(body: exp.Expr, public_tables: Collection[str]) -> bool:
    """Whether a subquery reads public tables alone."""
    tables = {table.name.lower() for table in body.find_all(exp.Table)}
    return bool(tables) and tables <= set(public_tables)


def uses_outer_row(body: exp.Expr, table_columns: Mapping[str, Collection[str]]) -> bool:
    """Whether a subquery names a column that the catalog has, and none of its own tables."""
    tables = {table.name.lower() for table in body.find_all(exp.Table)}
    own = {column for table in tables for column in table_columns.get(table, ())}
    named = {column.name.lower() for column in body.find_all(exp.Column) if not column.table}
    catalog_columns = {column for columns in table_columns.values() for column in columns}
    return bool((named & catalog_columns) - own) and tables <= table_columns.keys()


def ask_by_outer_column(
    body: exp.Expr,
    outer: exp.Select,
    table_columns: Mapping[str, Collection[str]],
    public_tables: Collection[str],
    list_values: ListValues,
) -> tuple[exp.Select, CaseOfNumbers]:
    """The inner question grouped by the values of the outer column that it is tied to, and these.

    Raises CannotSplit unless one equality ties it to a column of a public table.
    """
    if not isinstance(body, exp.Select):
        raise CannotSplit
    where = body.args.get("where")
    conditions = [] if where is None else flatten_chain(where.this, exp.And)
    inner_columns = {
        column
        for table in body.find_all(exp.Table)
        for column in table_columns.get(table.name.lower(), ())
    }
    ties = [condition for condition in conditions if _has_outer(condition, inner_columns)]
    outputs = [output for output in body.expressions if _has_outer(output, inner_columns)]
    if len(ties) != 1 or outputs or _has_outer_join(body, inner_columns):
        raise CannotSplit
    inner, outer_column = _read_tie(ties[0], inner_columns)
    table = _find_public(outer_column, outer, table_columns, public_tables)
    left = write_conditions(list_public_conditions(outer, table, table_columns))
    values = list_values(table, outer_column.name.lower(), left)
    if not 1 <= len(values) <= MOST_VALUES:
        raise CannotSplit
    rest = [condition for condition in conditions if condition is not ties[0]]
    allowed = ", ".join(values)
    cases = " ".join(f"WHEN {value} THEN {code}" for code, value in enumerate(values))
    column = inner.sql(dialect="duckdb")
    grouped = body.copy()
    grouped.set("where", None)
    grouped = grouped.where(
        *(condition.copy() for condition in rest), f"{column} IN ({allowed})", dialect="duckdb"
    )
    code: exp.Expr = sqlglot.parse_one(f"CASE {column} {cases} END", read="duckdb")
    grouped.set("expressions", [exp.alias_(code.copy(), CODE), *body.copy().expressions])
    grouped.set("group", exp.Group(expressions=[code.copy()]))
    return grouped, CaseOfNumbers(outer_column.sql(dialect="duckdb"), tuple(values))


def _has_outer(node: exp.Expr, inner_columns: Collection[str]) -> bool:
    """Whether an expression names a column that the inner tables do not have."""
    return any(column.name.lower() not in inner_columns for column in node.find_all(exp.Column))


def _has_outer_join(body: exp.Select, inner_columns: Collection[str]) -> bool:
    conditions = [join.args.get("on") for join in body.args.get("joins") or ()]
    return any(
        condition is not None and _has_outer(condition, inner_columns) for condition in conditions
    )


def _read_tie(condition: exp.Expr, inner_columns: Collection[str]) -> tuple[exp.Column, exp.Column]:
    """The inner and the outer column of an equality. Raises CannotSplit for any other condition."""
    condition = condition.unnest()
    sides = [condition.this, condition.args.get("expression")]
    columns = [side for side in sides if isinstance(side, exp.Column)]
    if not isinstance(condition, exp.EQ) or len(columns) != 2:
        raise CannotSplit
    columns.sort(key=lambda column: column.name.lower() not in inner_columns)
    inner, outer = columns
    if inner.name.lower() not in inner_columns or outer.name.lower() in inner_columns:
        raise CannotSplit
    return inner, outer


def _find_public(
    column: exp.Expr,
    outer: exp.Select,
    table_columns: Mapping[str, Collection[str]],
    public_tables: Collection[str],
) -> str:
    """The public table that a column of the outer question is of. Raises CannotSplit if none."""
    tables = [
        source.name.lower()
        for source in list_sources(outer)
        if isinstance(source, exp.Table)
        and column.name.lower() in table_columns.get(source.name.lower(), ())
        and column.text("table").lower() in ("", source.alias_or_name.lower())
    ]
    if len(tables) != 1 or tables[0] not in public_tables:
        raise CannotSplit
    return tables[0]


def list_public_conditions(
    outer: exp.Select, table: str, table_columns: Mapping[str, Collection[str]]
) -> list[exp.Expr]:
    """The conditions of a question, all of which must hold, that read this public table alone.

    There are none where the question reads the table twice.
    """
    others = {
        column
        for source in list_sources(outer)
        if isinstance(source, exp.Table) and source.name.lower() != table
        for column in table_columns.get(source.name.lower(), ())
    }
    own = set(table_columns[table]) - others
    count = sum(
        isinstance(source, exp.Table) and source.name.lower() == table
        for source in list_sources(outer)
    )
    where = outer.args.get("where")
    if where is None or count != 1:
        return []
    return [
        condition
        for condition in flatten_chain(where.this, exp.And)
        if all(map(is_allowed, condition.walk()))
        and not any(condition.find_all(exp.Query, exp.Parameter, exp.Placeholder))
        and any(condition.find_all(exp.Column))
        and all(column.name.lower() in own for column in condition.find_all(exp.Column))
    ]


def write_conditions(conditions: list[exp.Expr]) -> str:
    """Conditions on one table, all of which must hold, as SQL over it alone."""
    written = []
    for condition in conditions:
        own = condition.copy()
        for column in own.find_all(exp.Column):
            column.set("table", None)
        written.append(f"({own.sql(dialect='duckdb')})")
    return " AND ".join(written) or "TRUE"
