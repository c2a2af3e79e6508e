"""The registered code of a value that a person wrote: for rules between columns.

>>> from dither.catalog.columns import Nulls
>>> sex = Category("sex", Nulls("keep"), ("f", "m"), other="keep")
>>> find_code(sex, "m", None), find_code(sex, "x", None)
(1, None)
"""

from __future__ import annotations

from dither.catalog.columns import Boolean, Category, Column, FromPublic, Integer, Undeclared


def find_code(column: Column, value: str, labels: tuple[str, ...] | None) -> int | None:
    """The registered code of a written value of a category, boolean or integer; None if it is none.

    Labels of a public table are known at registration alone; before that every text may be one.
    """
    if isinstance(column, Category):
        listed = column.values if labels is None else labels
        if isinstance(listed, Undeclared):
            return None
        if isinstance(listed, FromPublic):
            return 0
        return listed.index(value) if value in listed else None
    if isinstance(column, Integer):
        is_number = value.isascii() and len(value) < 20 and value.removeprefix("-").isdigit()
        inside = is_number and column.lower_grid <= int(value) <= column.upper_grid
        return int(value) if inside else None
    if isinstance(column, Boolean):
        return {"false": 0, "true": 1}.get(value)
    return None
