"""At most so much of a column per owner: rows in the order of their keys, each as far as the total
allows."""

from __future__ import annotations

from dither.data.lower.columns import UNIT, list_carried, list_names
from dither.data.lower.functions.sql import cast, clamp_value
from dither.data.lower.limit_groups import write_order
from dither.data.quoting import name
from dither.plan.algebra import LimitTotal
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned


def limit_total_sql(plan: LimitTotal, source: str, before: Analysed, here: Analysed) -> str:
    """Cut a column towards 0, so that its absolute values add up to at most the total.

    A row keeps of its value what the rows before it left of the total. Keys differ between the rows
    of an owner, so the order has no ties.
    """
    assert isinstance(here.node, Owned)
    domain = before.columns[plan.column]
    total = int(plan.total / domain.step)
    largest_sum = here.node.rows * domain.largest
    order, ordered_by = write_order(plan.keys, here)
    carried = list_carried(here.node, here.columns)
    value = cast(name(plan.column), largest_sum)
    placed = f"SELECT {list_names(carried)}, {order} AS dither_order FROM ({source})"
    window = (
        f"(PARTITION BY {UNIT} ORDER BY {ordered_by} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    added = f"SELECT *, {cast(f'sum(abs({value})) OVER {window}', largest_sum)} AS dither_upto"
    room = clamp_value(
        f"({cast(str(total), total, largest_sum)} - (dither_upto - abs({value})))", 0, total
    )
    left = f"SELECT *, {room} AS dither_room FROM ({added} FROM ({placed}))"
    cut = clamp_value(value, "-dither_room", "dither_room")
    outputs = [
        f"{cast(cut, total, largest_sum)} AS {name(column)}"
        if column == plan.column
        else name(column)
        for column in carried
    ]
    return f"SELECT {', '.join(outputs)} FROM ({left})"
