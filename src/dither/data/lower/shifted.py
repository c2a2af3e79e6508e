"""The sum of x - c is the sum of x less c times the number of rows: no row needs a subtraction.

AVG and SUM are asked for as sums around the middle of a column, which one person moves least. The
engine checks every subtraction for overflow, which took a quarter of such a statement. The integer
is the same: x - c never is null here, and x is clamped to the bounds of x - c moved by c.
"""

from __future__ import annotations

from dither.plan.algebra import Call, Cells, Expression, Named, Project, Sum, Value
from dither.plan.analyse import Analysed, analyse_projection

_LARGEST = 2**62


def remove_shifts(query: Cells, rows: Analysed) -> tuple[Analysed, dict[str, int]]:
    """Put x in place of x - c, for columns that are only summed; return c too, in grid steps.

    Returns the analysed rows and a dict from column to c. The other projection is analysed like
    any: a shift is used only where both have the same domains, moved by c.
    """
    plan = rows.plan
    if not isinstance(plan, Project):
        return rows, {}
    bases = {
        column.name: base
        for column in plan.columns
        if (base := _base(column)) and _is_summed(column, query)
    }
    if not bases:
        return rows, {}
    columns = (Named(column.name, bases.get(column.name, column.of)) for column in plan.columns)
    plain = analyse_projection(Project(plan.source, tuple(columns)), rows.sources[0])
    shifts = {name: plain.columns[name].low - rows.columns[name].low for name in bases}
    for name, by in shifts.items():
        shifted = rows.columns[name]
        domain = plain.columns[name]
        moved = (shifted.kind, shifted.step, shifted.nullable, shifted.high + by)
        if moved != (domain.kind, domain.step, False, domain.high) or domain.largest >= _LARGEST:
            return rows, {}
    return plain, shifts


def _base(named: Named) -> Expression | None:
    """Return x, where a column is x less a constant; else None."""
    expression = named.of
    shifts = (
        isinstance(expression, Call)
        and expression.function == "subtract"
        and isinstance(expression.arguments[1], Value)
    )
    return expression.arguments[0] if isinstance(expression, Call) and shifts else None


def _is_summed(named: Named, query: Cells) -> bool:
    """Whether a column is read by sums alone."""
    read = [
        aggregate for aggregate in query.columns if getattr(aggregate, "column", None) == named.name
    ]
    return (
        named.name not in query.keys
        and bool(read)
        and all(isinstance(aggregate, Sum) for aggregate in read)
    )
