"""Columns as registered: to check them costs nothing, so a sum of one needs no clamp per row.

Registration has put every value inside its bounds. A sum does not trust that: a row whose value is
outside is not counted, in any column of the statement, so that each row counted has a value inside,
which is what sensitivity used. The engine checks such a condition once per block of rows, by the
least and largest value that it keeps for each; on a computed value it would check each row, and
there a clamp is quicker.
"""

from __future__ import annotations

from dither.data.lower.columns import holds_null
from dither.data.quoting import name
from dither.plan.algebra import Cells, Column, Filter, Project, Scan, Sum
from dither.plan.analyse import Analysed


def stored_sums(query: Cells, rows: Analysed) -> frozenset[str]:
    """Collect the columns that a query sums and that stand in its rows as registered, never
    null."""
    summed = {column.column for column in query.columns if isinstance(column, Sum)}
    return frozenset(
        name for name in summed if not holds_null(rows.columns[name]) and _is_stored(name, rows)
    )


def _is_stored(column: str, rows: Analysed) -> bool:
    """Whether a column comes from a table as it is there.

    A WHERE that narrows its bounds clamps it.
    """
    match rows.plan:
        case Scan():
            return True
        case Filter():
            (source,) = rows.sources
            return rows.columns[column] == source.columns[column] and _is_stored(column, source)
        case Project(_, shown):
            expression = next(named.of for named in shown if named.name == column)
            return isinstance(expression, Column) and _is_stored(expression.name, rows.sources[0])
    return False


def inside(columns: frozenset[str], rows: Analysed) -> str:
    """Write a WHERE for the rows whose values are inside their bounds, which all rows are."""
    domains = rows.columns
    tests = [
        f"{name(column)} BETWEEN {domains[column].low} AND {domains[column].high}"
        for column in sorted(columns)
    ]
    return f" WHERE {' AND '.join(tests)}" if tests else ""
