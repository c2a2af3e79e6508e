"""SQL that limits what one owner adds to a column in all rows together.

The rows of an owner are put in order. Each keeps its value as far as the rows before it left
anything of the total. Proof: docs/proofs/stability.md#limit-total.
"""

from __future__ import annotations

from dither.data.lower.columns import UNIT, list_carried, list_names
from dither.data.lower.functions.sql import cast, clamp_value
from dither.data.lower.limit_groups import write_order
from dither.data.quoting import name
from dither.plan.algebra import LimitTotal
from dither.plan.analyse import Analysed
from dither.plan.stability import Owned


def limit_total_sql(plan: LimitTotal, source: str, before: Analysed, here: Analysed) -> str:
    """Write the SQL that cuts a column towards 0: an owner's absolute values sum to at most the
    total.

    The order of an owner's rows has no ties, because no two of them share the values of the keys.
    """
    assert isinstance(here.node, Owned)
    domain = before.columns[plan.column]
    total = int(plan.total / domain.step)
    largest_sum = here.node.rows * domain.largest
    order, order_by = write_order(plan.keys, here)
    carried = list_carried(here.node, here.columns)
    value = cast(name(plan.column), largest_sum)
    with_order = f"SELECT {list_names(carried)}, {order} AS dither_order FROM ({source})"
    window = (
        f"(PARTITION BY {UNIT} ORDER BY {order_by} "
        "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)"
    )
    with_sums = f"SELECT *, {cast(f'sum(abs({value})) OVER {window}', largest_sum)} AS dither_upto"
    room = clamp_value(
        f"({cast(str(total), total, largest_sum)} - (dither_upto - abs({value})))", 0, total
    )
    with_room = f"SELECT *, {room} AS dither_room FROM ({with_sums} FROM ({with_order}))"
    cut = clamp_value(value, "-dither_room", "dither_room")
    outputs = [
        f"{cast(cut, total, largest_sum)} AS {name(column)}"
        if column == plan.column
        else name(column)
        for column in carried
    ]
    return f"SELECT {', '.join(outputs)} FROM ({with_room})"
