"""The sum of x - c is the sum of x less c times the number of rows: no row needs a subtraction.

AVG and SUM are asked for as sums around the middle of a column, which one person moves least. The engine checks every
subtraction for overflow, which took a quarter of such a statement. The integer is the same: x - c never is null here,
and x is clamped to the bounds of x - c moved by c.
"""

from __future__ import annotations

from dither.data.lower.plan import Lowering
from dither.plan.algebra import Call, Cells, Expression, Named, Plan, Project, Sum, Value

_LARGEST = 2**62


def unshifted(query: Cells, at: Lowering) -> tuple[Plan, dict[str, int]]:
    """A plan with x in place of x - c, and c in grid integers by column, for columns that are only summed."""
    if not isinstance(query.plan, Project):
        return query.plan, {}
    bases = {each.name: base for each in query.plan.columns if (base := _base(each)) and _is_summed(each, query)}
    if not bases:
        return query.plan, {}
    columns = (Named(each.name, bases.get(each.name, each.of)) for each in query.plan.columns)
    plan = Project(query.plan.source, tuple(columns))
    before, after = at.analysed(query.plan).columns, at.analysed(plan).columns
    shifts = {name: after[name].low - before[name].low for name in bases}
    for name, by in shifts.items():
        mine, theirs = before[name], after[name]
        moved = (mine.kind, mine.step, mine.nullable, mine.high + by)
        if moved != (theirs.kind, theirs.step, False, theirs.high) or theirs.largest >= _LARGEST:
            return query.plan, {}
    return plan, shifts


def _base(named: Named) -> Expression | None:
    """x, where a column is x less a constant."""
    of = named.of
    shifts = isinstance(of, Call) and of.function == "subtract" and isinstance(of.arguments[1], Value)
    return of.arguments[0] if isinstance(of, Call) and shifts else None


def _is_summed(named: Named, query: Cells) -> bool:
    """Whether a column is read by sums alone."""
    read = [each for each in query.columns if getattr(each, "column", None) == named.name]
    return named.name not in query.keys and bool(read) and all(isinstance(each, Sum) for each in read)
