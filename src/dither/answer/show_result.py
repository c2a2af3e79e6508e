"""How a result looks: in words, in a terminal and in a notebook.

Numbers are shown as they were released, with one exception: an average beyond its public bounds is
shown at the bound, with the released value beside it. Tables for programs keep released values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

from dither.answer.average_bounds import clamp_interval, clamp_value
from dither.answer.column_info import WITHOUT_INTERVAL, ResultColumn
from dither.answer.quantile_intervals import OF_QUANTILES
from dither.canonical import decimal_text
from dither.figures import write_figure
from dither.pages.charts import ChartPoint, draw_dots
from dither.pages.html import EMPTY, Html, write_element
from dither.pages.notebook import write_cell, write_notes
from dither.publish.shown_table import ShownTable
from dither.surfaces import escape_label, escape_lines

_COVERED = (
    "Intervals cover the exact answer on the registered table; what limits and clamps did to the "
    "data before is named above, not covered. An end that is NULL is no bound."
)
_NULL_VALUE = "a value NULL is undefined at the numbers released, as where a noisy count is 0"
_NULL_ENDS = "NULL … NULL is no interval"
_SMALL_GROUP = (
    "the noise is too large beside the size of the group; a larger group or a higher price has one"
)
_NULL_END = "an end NULL is no bound"
_MOST_BARS = 40
Row = dict[str, Any]


def explain_columns(
    info: dict[str, Any], columns: Sequence[ResultColumn], notes: Sequence[str]
) -> str:
    """Explain in words what each column holds, and what is unprotected.

    Says also what was done to the rows.
    """
    lines = [f"Question: {info['sql'].strip()}"]
    if "measure" in info:
        lines.append(f"Paid: {write_price(info)}; neighbours {info['neighbours']}")
    lines.append("")
    for column in columns:
        if column.role in ("low", "high"):
            continue
        content = "a key" if column.role == "key" else _describe_noise(column)
        lines.append(f"{column.name}: {content}")
        lines += [f"  {note}" for note in (*column.limits, *column.notes)]
    lines += ["", *notes, _COVERED]
    unprotected = "; ".join(info.get("unprotected", ()))
    return escape_lines("\n".join([*lines, f"Not protected: {unprotected}."]))


def write_price(info: dict[str, Any]) -> str:
    """The price with its delta and whom it protects: never an epsilon alone."""
    delta = info.get("charges", {}).get(info["pot"], ("0", "0"))[1]
    paid = f"{info['measure']} {_format_price(info['charged'])}, delta {_format_price(delta)}"
    return f"{paid}, for one {info['unit']}, from budget {info['pot']}"


def list_footnotes(
    columns: Sequence[ResultColumn], notes: Sequence[str], rows: Sequence[Row]
) -> list[str]:
    """List the notes of a result, its limits, and the notes of its value columns.

    Every NULL and every value beyond its bounds in the rows has a sentence here.
    """
    footnotes = list(notes)
    limits = dict.fromkeys(limit for column in columns for limit in column.limits)
    footnotes += ["; ".join(limits)] if limits else []
    for index, column in enumerate(columns):
        if column.role == "value":
            ends = _find_ends(columns, index)
            own = [*column.notes, *_explain_bounds(column, ends, rows)]
            own += _explain_nulls(column, ends, rows)
            footnotes += [f"{column.name}: {note}" for note in own if note not in notes]
    return footnotes


def _find_ends(columns: Sequence[ResultColumn], index: int) -> list[str]:
    """Find the names of the ends of a value's interval; none where it has no interval."""
    after = columns[index + 1 : index + 3]
    return [end.name for end in after if end.role in ("low", "high")]


def _explain_bounds(
    column: ResultColumn, ends: Sequence[str], rows: Sequence[Row]
) -> Iterator[str]:
    """Yield a footnote where noise moved an average or an end beyond the declared bounds.

    `ends` are the names of the columns of its interval.
    """
    if column.bounds is None:
        return
    low, high = map(float, column.bounds)
    numbers = (row[name] for row in rows for name in (column.name, *ends))
    if any(number is not None and not low <= number <= high for number in numbers):
        yield (
            f"an average of values in [{write_figure(low, 6)}, {write_figure(high, 6)}] lies there "
            "too; what the noise moved beyond is shown at the bound, with the raw value beside it, "
            "and sorted as shown; to_pandas() and to_arrow() keep raw values"
        )


def _explain_nulls(column: ResultColumn, ends: Sequence[str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield a footnote for each kind of null in a column: value, both ends, or one end."""
    if any(row[column.name] is None for row in rows):
        yield _NULL_VALUE
    missing = [
        sum(row[end] is None for end in ends) for row in rows if row[column.name] is not None
    ]
    if 2 in missing:
        yield _NULL_ENDS if _has_reason(column) else f"{_NULL_ENDS}: {_SMALL_GROUP}"
    if 1 in missing:
        yield _NULL_END


def _has_reason(column: ResultColumn) -> bool:
    """Whether the notes of a column say already why it has no interval."""
    return any(note in WITHOUT_INTERVAL or note.startswith(OF_QUANTILES) for note in column.notes)


def make_shown_table(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> ShownTable:
    """Make the table for a terminal: the interval of a value is one column, from end to end."""
    visible = [column for column in columns if column.role != "high"]
    heads = [_write_level(column) if column.role == "low" else column.name for column in visible]
    figures = frozenset(i for i, column in enumerate(visible) if column.role != "key")
    return ShownTable(
        tuple(heads), tuple(tuple(_list_cells(columns, row)) for row in rows), figures
    )


def _list_cells(columns: Sequence[ResultColumn], row: Row) -> Iterator[str]:
    """Yield the texts of one row: keys, values, and one text for the two ends of an interval."""
    for index, column in enumerate(columns):
        if column.role == "low":
            yield _write_interval(column, row, [column.name, columns[index + 1].name])
        elif column.role != "high":
            yield _write_value(column, row)


def _write_value(column: ResultColumn, row: Row) -> str:
    """A value, at its bound where it lies beyond; the raw value is then beside it."""
    value = row[column.name]
    shown = clamp_value(value, column.bounds)
    return _format_value(value) if shown == value else _write_raw(shown, value)


def _write_raw(shown: float, value: float) -> str:
    return f"{_format_value(shown)} (raw {_format_value(value)})"


def _write_interval(column: ResultColumn, row: Row, ends: Sequence[str]) -> str:
    """An interval, cut at the public bounds of the exact answer."""
    low, high = clamp_interval(row[ends[0]], row[ends[1]], column.bounds)
    return f"{_format_value(low)} … {_format_value(high)}"


def write_html_table(
    columns: Sequence[ResultColumn], rows: Sequence[Row], notes: Sequence[str]
) -> Html:
    """Write the table for notebooks: intervals in small type below their values, then a chart."""
    names = [column for column in columns if column.role in ("key", "value")]
    head = write_element("tr", *map(_write_head, names))
    body = [write_element("tr", *_list_html_cells(columns, row)) for row in rows]
    table = write_element("table", write_element("thead", head), write_element("tbody", *body))
    level = next((_write_level(column) for column in columns if column.role == "low"), "")
    small = [f"small: {level}"] if level else []
    footnotes = write_notes([*small, *list_footnotes(columns, notes, rows)])
    return write_cell(table, draw_chart(columns, rows), footnotes)


def _write_head(column: ResultColumn) -> Html:
    kind = "figure" if column.role == "value" else None
    return write_element("th", _format_label(column.name), class_=kind)


def _list_html_cells(columns: Sequence[ResultColumn], row: Row) -> Iterator[Html]:
    """Yield the HTML cells of one row: keys, and values with their intervals below."""
    for index, column in enumerate(columns):
        if column.role == "key":
            yield write_element("td", _format_label(row[column.name]))
        elif column.role == "value":
            ends = _find_ends(columns, index)
            more = []
            if len(ends) == 2:
                interval = escape_label(_write_interval(column, row, ends))
                more = [write_element("br"), write_element("small", interval, class_="quiet")]
            value = escape_label(_write_value(column, row))
            yield write_element("td", value, *more, class_="figure")


def draw_chart(columns: Sequence[ResultColumn], rows: Sequence[Row]) -> Html:
    """Draw the first value column of a grouped answer, with intervals.

    Nothing is drawn for a single row, or for more rows than fit a screen.
    """
    has_keys = any(column.role == "key" for column in columns)
    chart = list_chart_points(columns, rows) if has_keys and len(rows) > 1 else None
    return EMPTY if chart is None else draw_dots(chart[1], chart[0])


def list_chart_points(
    columns: Sequence[ResultColumn], rows: Sequence[Row]
) -> tuple[str, list[ChartPoint]] | None:
    """The name of the first value column with intervals, and a point for each row.

    None where no column has intervals, or there are more rows than fit a screen.
    """
    keys = [column.name for column in columns if column.role == "key"]
    index = next(
        (i for i, column in enumerate(columns) if column.role == "value" and column.confidence),
        None,
    )
    if index is None or not 0 < len(rows) <= _MOST_BARS:
        return None
    ends = _find_ends(columns, index)
    if len(ends) != 2 or not all(_is_number(row[columns[index].name]) for row in rows):
        return None
    name = columns[index].name
    return name, [_make_point(columns[index], keys, ends, row) for row in rows]


def _make_point(
    column: ResultColumn, keys: Sequence[str], end_names: Sequence[str], row: Row
) -> ChartPoint:
    """Make the point of a chart for one row: label from its keys, clamped value and interval."""
    label = ", ".join(_format_label(row[key]) for key in keys)
    low, high = clamp_interval(row[end_names[0]], row[end_names[1]], column.bounds)
    value = clamp_value(row[column.name], column.bounds)
    return ChartPoint(
        label,
        float("nan") if value is None else float(value),
        None if low is None else float(low),
        None if high is None else float(high),
    )


def _is_number(value: Any) -> bool:
    return value is None or (
        isinstance(value, (int, float, Decimal)) and not isinstance(value, bool)
    )


def _write_level(column: ResultColumn) -> str:
    assert column.confidence is not None
    return f"{float(column.confidence) * 100:.6g}% interval"


def _describe_noise(column: ResultColumn) -> str:
    """Describe a column in words: its aggregate, mechanism, noise scale and interval."""
    noise = (
        f", {column.mechanism} with scale {write_figure(float(column.scale), 6)}"
        if column.scale is not None
        else ""
    )
    interval = "" if column.confidence is None else f", {_write_level(column)} beside it"
    return f"{column.aggregate}{noise}{interval}"


def _format_price(text: str) -> str:
    return decimal_text(Fraction(text), up=True)


def _format_value(value: Any) -> str:
    """Format a value for people: thousands with commas, floats with two decimals or four digits."""
    if value is None:
        return "NULL"
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        return str(value)
    if isinstance(value, float):
        return f"{value:,.2f}" if abs(value) >= 10 or value == 0 else f"{value:,.4g}"
    return f"{value:,}"


def _format_label(value: Any) -> str:
    """A value on one line."""
    return escape_label(_format_value(value))
