"""UNION ALL of equal columns."""

from __future__ import annotations

from dither.data.lower.columns import holds_null, list_carried, null_code, recode_null
from dither.data.quoting import name
from dither.plan.analyse import Analysed


def union_sql(left: str, right: str, operands: tuple[Analysed, ...], here: Analysed) -> str:
    """Write the SELECT of UNION ALL; the owner is kept only where both inputs have one."""
    return " UNION ALL ".join(
        f"SELECT {_list_columns(operand, here)} FROM ({source})"
        for source, operand in zip((left, right), operands, strict=True)
    )


def _list_columns(operand: Analysed, here: Analysed) -> str:
    """Write the columns of one input, with null as the integer that stands for it in both."""
    outputs = []
    for column in list_carried(here.node, here.columns):
        domain = operand.columns.get(column)
        quoted = name(column)
        moved = (
            domain is not None
            and holds_null(domain)
            and null_code(domain) != null_code(here.columns[column])
        )
        value = (
            recode_null(quoted, domain, null_code(here.columns[column]))
            if domain and moved
            else quoted
        )
        outputs.append(f"{value} AS {quoted}")
    return ", ".join(outputs)
