"""A chart of a result: one bar per row, its interval as an error bar, footnotes below.

Drawn with altair where it is installed, else with matplotlib, else as our own HTML with SVG.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dither.answer.average_bounds import clamp_interval, clamp_value
from dither.answer.column_info import ResultColumn
from dither.answer.result import Result, find_column, list_names
from dither.pages.charts import ChartPoint, draw_dots
from dither.pages.notebook import write_cell, write_notes
from dither.surfaces import PLOT_TEXT, escape_label

_LINE = 90
_BAR_COLOUR = "#9ab7d3"
_LINE_COLOUR = "#333333"


@dataclass(frozen=True)
class Bars:
    """What a chart shows: a point for each row, a title, and the sentences below.

    All texts are harmless. A row without a value is not a number; an end that is None is no bound.
    """

    name: str
    title: str
    points: tuple[ChartPoint, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class HtmlChart:
    """A chart that needs no library: it shows itself in a notebook, or is saved as a file."""

    html: str

    def _repr_html_(self) -> str:
        return self.html

    def save(self, file: str | Path) -> None:
        """Write the chart as an HTML file."""
        Path(file).write_text(f'<!doctype html><meta charset="utf-8">{self.html}', encoding="utf-8")


def plot(result: Result, column: str | None = None, ax: Any = None) -> Any:
    """Bars of one value column (the first, unless named) with intervals.

    Returns an altair chart, matplotlib axes or an `HtmlChart`, by what is installed. With `ax` it
    is matplotlib. A row without a value has no bar, an interval without an end no whisker there.
    """
    bars = make_bars(result, column)
    if ax is None and (chart := _draw_with_altair(bars)) is not None:
        return chart
    axes = _draw_with_matplotlib(bars, ax)
    return HtmlChart(_draw_html(bars)) if axes is None else axes


def make_bars(result: Result, column: str | None = None) -> Bars:
    """Take what a chart needs from a result: values as they are shown, within their bounds."""
    chosen = find_column(result, column)
    name, low, high = list_names(result, chosen)
    keys = [result_column.name for result_column in result.columns if result_column.role == "key"]
    points = []
    for row in result.table.to_pylist():
        label = ", ".join(str(row[key]) for key in keys) or name
        ends = clamp_interval(row[low], row[high], chosen.bounds)
        value = _to_float(clamp_value(row[name], chosen.bounds), math.nan)
        points.append(ChartPoint(escape_label(label), value, *map(_to_end, ends)))
    level = (
        f"{float(chosen.confidence) * 100:.4g}% intervals" if chosen.confidence is not None else ""
    )
    title = escape_label(f"{name} ({level})")
    notes = tuple(map(escape_label, _list_chart_notes(result, chosen)))
    return Bars(escape_label(name), title, tuple(points), notes)


def _list_chart_notes(result: Result, chosen: ResultColumn) -> list[str]:
    """List the footnotes of a chart: what the result says of itself, and what was limited."""
    notes = [*result.notes, *(["; ".join(chosen.limits)] if chosen.limits else [])]
    return [line for note in notes for line in textwrap.wrap(note, _LINE)]


def _draw_with_altair(bars: Bars) -> Any:
    """An altair chart; None where altair is not installed."""
    try:
        import altair
    except ImportError:
        return None
    return altair.Chart.from_dict(write_vega(bars))


def write_vega(bars: Bars) -> dict[str, Any]:
    """The chart as a Vega-Lite document: labels are data in it, never formulas or names of fields.

    An interval without an end has no line on that side.
    """
    rows = [
        {
            "label": label,
            "value": point.value,
            "low": point.value if point.low is None else point.low,
            "high": point.value if point.high is None else point.high,
        }
        for label, point in zip(_number_equal_labels(bars.points), bars.points, strict=True)
        if not math.isnan(point.value)
    ]
    label_axis = {"field": "label", "type": "nominal", "sort": None, "title": None}
    title = [bars.title, *bars.notes]
    value_axis = {"field": "value", "type": "quantitative", "title": title}
    bar = {
        "mark": {"type": "bar", "color": _BAR_COLOUR},
        "encoding": {"y": label_axis, "x": value_axis},
    }
    interval_axis = {"field": "low", "type": "quantitative", "title": title}
    whisker = {
        "mark": {"type": "rule", "color": _LINE_COLOUR},
        "encoding": {"y": label_axis, "x": interval_axis, "x2": {"field": "high"}},
    }
    return {"data": {"values": rows}, "layer": [bar, whisker]}


def _number_equal_labels(points: tuple[ChartPoint, ...]) -> list[str]:
    """The labels, made different where several rows have one: Vega-Lite would add these up."""
    counts: dict[str, int] = {}
    labels = []
    for point in points:
        counts[point.label] = counts.get(point.label, 0) + 1
        repeated = counts[point.label] > 1
        labels.append(f"{point.label} ({counts[point.label]})" if repeated else point.label)
    return labels


def _draw_with_matplotlib(bars: Bars, ax: Any) -> Any:
    """Axes with the bars; None where matplotlib is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        return None
    points = bars.points
    below = [_measure_whisker(point.low, point.value) for point in points]
    above = [_measure_whisker(point.value, point.high) for point in points]
    if ax is None:
        _, ax = pyplot.subplots(
            figsize=(7, max(1.5, 0.3 * len(points) + 0.8)), layout="constrained"
        )
    positions = range(len(points))
    values = [point.value for point in points]
    ax.barh(
        positions, values, xerr=[below, above], color=_BAR_COLOUR, ecolor=_LINE_COLOUR, capsize=2
    )
    ax.set_yticks(list(positions), [point.label for point in points], **PLOT_TEXT)
    ax.invert_yaxis()
    ax.set_xlabel("\n".join([bars.title, *bars.notes]), **PLOT_TEXT)
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def _draw_html(bars: Bars) -> str:
    """The chart as the output of a notebook's cell."""
    return write_cell(draw_dots(bars.points, bars.name), write_notes([bars.title, *bars.notes]))


def _to_float(value: Any, missing: float) -> float:
    return missing if value is None else float(value)


def _to_end(end: Any) -> float | None:
    return None if end is None else float(end)


def _measure_whisker(start: float | None, end: float | None) -> float:
    """The length of an error bar; 0 where there is no end, or a clamped value lies beyond it."""
    if start is None or end is None or math.isnan(start) or math.isnan(end):
        return 0.0
    return max(0.0, end - start)
