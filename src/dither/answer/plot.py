"""A chart of a result: one bar per row, its interval as an error bar."""

from __future__ import annotations

import math
from typing import Any

from dither.answer.result import Result, find_column, list_names
from dither.errors import DitherError
from dither.surfaces import PLOT_TEXT, escape_label


def plot(result: Result, column: str | None = None, ax: Any = None) -> Any:
    """Bars of one value column (the first, unless named) with intervals.

    Returns the matplotlib axes.

    A row without a value has no bar, an interval without an end no whisker on that side.
    """
    try:
        from matplotlib import pyplot
    except ImportError:
        raise DitherError("plot() needs matplotlib: pip install 'dither[plot]'") from None
    chosen = find_column(result, column)
    name, low, high = list_names(result, chosen)
    table = result.to_dict()
    keys = [result_column.name for result_column in result.columns if result_column.role == "key"]
    labels = [
        ", ".join(str(table[key][row]) for key in keys) or name
        for row in range(result.table.num_rows)
    ]
    values = [math.nan if value is None else float(value) for value in table[name]]
    below, above = (
        [
            0.0 if end is None or math.isnan(value) else max(0.0, sign * (float(end) - value))
            for value, end in pairs
        ]
        for sign, pairs in (
            (-1, list(zip(values, table[low], strict=True))),
            (1, list(zip(values, table[high], strict=True))),
        )
    )
    if ax is None:
        _, ax = pyplot.subplots(
            figsize=(7, max(1.5, 0.3 * len(labels) + 0.8)), layout="constrained"
        )
    bar_positions = range(len(labels))
    ax.barh(
        bar_positions, values, xerr=[below, above], color="#9ab7d3", ecolor="#333333", capsize=2
    )
    ax.set_yticks(list(bar_positions), list(map(escape_label, labels)), **PLOT_TEXT)
    ax.invert_yaxis()
    level = (
        f"{float(chosen.confidence) * 100:.4g}% intervals" if chosen.confidence is not None else ""
    )
    ax.set_xlabel(escape_label(f"{name} ({level})"), **PLOT_TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    return ax
