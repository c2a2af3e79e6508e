"""Columns as registered: to check them costs nothing, so a sum of one needs no clamp per row.

Registration has put every value inside its bounds. A sum does not trust that: a row whose value is outside is not
counted, in any column of the statement, so that each row counted has a value inside, which is what sensitivity used.
The engine checks such a condition once per block of rows, by the least and largest value that it keeps for each; on a
computed value it would check each row, and there a clamp is quicker.
"""

from __future__ import annotations

from dither.data.engines.duckdb import name
from dither.data.lower.columns import holds_null
from dither.data.lower.plan import Lowering
from dither.plan.algebra import Cells, Column, Filter, Plan, Project, Scan, Sum


def stored_sums(query: Cells, plan: Plan, at: Lowering) -> frozenset[str]:
    """The columns of a plan that a query sums and that stand in it as registered, never null."""
    columns = at.analysed(plan).columns
    summed = {each.column for each in query.columns if isinstance(each, Sum)}
    return frozenset(each for each in summed if not holds_null(columns[each]) and _is_stored(each, plan, at))


def _is_stored(column: str, plan: Plan, at: Lowering) -> bool:
    """Whether a column comes from a table as it is there; a WHERE that narrows its bounds clamps it."""
    match plan:
        case Scan():
            return True
        case Filter(source):
            same = at.analysed(plan).columns[column] == at.analysed(source).columns[column]
            return same and _is_stored(column, source, at)
        case Project(source, shown):
            of = next(each.of for each in shown if each.name == column)
            return isinstance(of, Column) and _is_stored(of.name, source, at)
    return False


def inside(columns: frozenset[str], plan: Plan, at: Lowering) -> str:
    """SQL: a WHERE for the rows whose values are inside their bounds: all rows."""
    known = at.analysed(plan).columns
    tests = [f"{name(each)} BETWEEN {known[each].low} AND {known[each].high}" for each in sorted(columns)]
    return f" WHERE {' AND '.join(tests)}" if tests else ""
