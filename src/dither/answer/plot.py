"""A chart of a result: one bar per row, its interval as an error bar, footnotes below."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from dither.answer.average_bounds import clamp_interval, clamp_value
from dither.answer.column_info import ResultColumn
from dither.answer.result import Result, find_column, list_names
from dither.errors import DitherError
from dither.surfaces import PLOT_TEXT, escape_label

_LINE = 90


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
    values = [_to_float(clamp_value(value, chosen.bounds), math.nan) for value in table[name]]
    ends = [
        clamp_interval(*pair, chosen.bounds) for pair in zip(table[low], table[high], strict=True)
    ]
    below = [
        _measure_whisker(value - _to_float(end[0], value))
        for value, end in zip(values, ends, strict=True)
    ]
    above = [
        _measure_whisker(_to_float(end[1], value) - value)
        for value, end in zip(values, ends, strict=True)
    ]
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
    lines = [f"{name} ({level})", *_list_chart_notes(result, chosen)]
    ax.set_xlabel("\n".join(map(escape_label, lines)), **PLOT_TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _list_chart_notes(result: Result, chosen: ResultColumn) -> list[str]:
    """List the footnotes of a chart: what the result says of itself, and what was limited."""
    notes = [*result.notes, *(["; ".join(chosen.limits)] if chosen.limits else [])]
    return [line for note in notes for line in textwrap.wrap(note, _LINE)]


def _to_float(value: Any, missing: float) -> float:
    return missing if value is None else float(value)


def _measure_whisker(length: float) -> float:
    return 0.0 if math.isnan(length) else max(0.0, length)
