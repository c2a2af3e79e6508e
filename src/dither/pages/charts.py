"""Charts of answers as HTML with inline SVG, written by hand: no script, no font, nothing fetched.

Positions are percentages, so that text keeps its size at every width. A dot is an answer, the line
its interval, a small bar the exact answer where a dev lineage can show one. Every chart says its
numbers in words too, for those who listen to a page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dither.pages.html import Html, write_element


class ChartPoint(NamedTuple):
    """One answer: its label, value, interval (None where there is no bound) and exact answer.

    Only dev data has exact answers.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    truth: float | None = None


def format_number(value: float | None) -> str:
    """Format a number for people: four significant digits, thousands apart.

    >>> format_number(1234567.8), format_number(3.14159), format_number(0.0), format_number(None)
    ('1,234,568', '3.142', '0', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


@dataclass(frozen=True)
class _Scale:
    """A range of numbers, shown from 1 to 99 percent of a width."""

    low: float
    high: float

    def percent(self, value: float) -> float:
        """Where a value is drawn; values outside the range are drawn at its ends."""
        span = (self.high - self.low) or 1.0
        return 1 + 98 * (min(max(value, self.low), self.high) - self.low) / span

    def position(self, value: float) -> str:
        return f"{self.percent(value):.2f}%"


def draw_dots(points: Sequence[ChartPoint], name: str) -> Html:
    """Draw one row for each answer, on a common axis that includes zero."""
    points = [point for point in points if not math.isnan(point.value)]
    if not points:
        return write_element("p", "no answer to show", class_="quiet")
    scale = _choose_scale(points)
    rows = []
    for point in points:
        rows.append(write_element("span", point.label, class_="label"))
        rows.append(_draw_row(point, scale))
        rows.append(write_element("span", format_number(point.value), class_="value"))
    axis = write_element("span", *_draw_ticks(scale), class_="axis")
    rows += [write_element("span"), axis, write_element("span")]
    words = _say_points(points, name)
    return write_element("div", *rows, class_="chart", role="img", aria_label=words)


def _choose_scale(points: Sequence[ChartPoint]) -> _Scale:
    """Choose the axis by the values first: a whisker far longer than all answers is cut at the
    edge."""
    values = [x for point in points for x in (point.value, point.truth) if x is not None]
    ends = [x for point in points for x in (point.low, point.high) if x is not None]
    whiskers = [end for end in ends if math.isfinite(end)]
    reach = 2.5 * max(map(abs, values), default=1.0) or 1.0
    low = min(0.0, *values, *whiskers)
    high = max(0.0, *values, *whiskers)
    return _Scale(max(low, -reach), min(high, reach))


def _draw_ticks(scale: _Scale) -> list[Html]:
    """Write the labels of the axis: 0 and both ends, without an end too close to 0."""
    zero = scale.percent(0.0)
    marks = [scale.low, 0.0, scale.high]
    if scale.percent(scale.high) - zero < 12:
        marks = [scale.low, 0.0]
    elif zero - scale.percent(scale.low) < 12:
        marks = [0.0, scale.high]
    return [
        write_element("i", format_number(mark), style=f"left:{scale.position(mark)}")
        for mark in marks
    ]


def _draw_row(point: ChartPoint, scale: _Scale) -> Html:
    """Draw one estimate: its interval as a whisker, the true value if given, and a dot."""
    shapes = [_draw_upright("zero", scale.position(0.0), 0, 24)]
    if point.low is not None or point.high is not None:
        left = scale.position(-math.inf if point.low is None else point.low)
        right = scale.position(math.inf if point.high is None else point.high)
        shapes.append(write_element("line", class_="whisker", x1=left, x2=right, y1="12", y2="12"))
        ends = ((point.low, left), (point.high, right))
        shapes += [_draw_upright("whisker", x, 7, 17) for end, x in ends if end is not None]
    if point.truth is not None and not math.isnan(point.truth):
        shapes.append(_draw_upright("truth", scale.position(point.truth), 3, 21))
    shapes.append(write_element("circle", cx=scale.position(point.value), cy="12", r="4"))
    return write_element("svg", *shapes, class_="row", height="24", aria_hidden="true")


def _draw_upright(kind: str, x: str, top: int, bottom: int) -> Html:
    return write_element("line", class_=kind, x1=x, x2=x, y1=str(top), y2=str(bottom))


def _say_points(points: Sequence[ChartPoint], name: str) -> str:
    """Say the first twelve points as text, for readers who do not see the chart."""
    words = []
    for point in points[:12]:
        value, low, high = map(format_number, (point.value, point.low, point.high))
        words.append(f"{point.label} {value} ({low} to {high})")
    return f"{name}: {'; '.join(words)}" + ("; ..." if len(points) > 12 else "")


def draw_signed_bar(share: float) -> Html:
    """Draw a bar to the left or right of the middle, for a number that stands beside it.

    `share` lies in [-1, 1] of half the width.
    """
    size = min(abs(share), 1.0) * 50
    start = 50 - size if share < 0 else 50
    direction = "less" if share < 0 else "more"
    bar = write_element(
        "rect", class_=direction, x=f"{start:.2f}%", width=f"{size:.2f}%", height="8"
    )
    return write_element(
        "svg",
        bar,
        _draw_upright("zero", "50%", 0, 8),
        class_="signed",
        height="8",
        aria_hidden="true",
    )


def draw_meter(
    amounts: Sequence[tuple[str, float]], cap: float, ceiling: float, words: str
) -> Html:
    """Draw what was spent, piece by piece, up to the cap and the ceiling; `words` say the same."""
    whole = ceiling or 1.0
    pieces = [
        write_element("span", style=f"width:{100 * amount / whole:.3f}%", title=label)
        for label, amount in amounts
    ]
    if cap < ceiling:
        pieces.append(write_element("b", "cap", style=f"left:{100 * cap / whole:.2f}%"))
    return write_element("div", *pieces, class_="meter", role="img", aria_label=words)
