"""Small charts as HTML with inline SVG, written by hand: no script, no font, no file from anywhere else.

Positions are percentages, so that text keeps its size at every width. A dot is an answer, the line its interval, a
small bar the exact answer where a dev lineage can show one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dither.surfaces import escape_html


class Point(NamedTuple):
    """One answer: its label, value, interval (None where there is no bound) and, on dev data, the exact answer."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    truth: float | None = None


def number(value: float | None) -> str:
    """A number for people: four significant digits, thousands apart.

    >>> number(1234567.8), number(3.14159), number(0.0), number(None)
    ('1,234,568', '3.142', '0', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000 or value == int(value):
        return f"{value:,.0f}".replace("-", "−")
    return f"{value:.4g}".replace("-", "−")


def dots(points: Sequence[Point], name: str) -> str:
    """One row for each answer, on a common axis that includes zero."""
    points = [point for point in points if not math.isnan(point.value)]
    if not points:
        return "<p class='quiet'>no answer to show</p>"
    ends = [x for p in points for x in (p.value, p.truth) if x is not None]
    whiskers = [x for p in points for x in (p.low, p.high) if x is not None and math.isfinite(x)]
    # the axis follows values first: one whisker that is far longer than all answers is cut at the edge
    reach = 2.5 * max(map(abs, ends), default=1.0) or 1.0
    low = max(min(0.0, *ends, *whiskers), -reach)
    high = min(max(0.0, *ends, *whiskers), reach)
    span = (high - low) or 1.0

    def at(x: float) -> float:
        return 1 + 98 * (min(max(x, low), high) - low) / span

    rows = [f"<div class='chart' role='img' aria-label='{escape_html(_said(points, name))}'>"]
    for point in points:
        rows.append(f"<span class='label'>{escape_html(point.label)}</span>{_row(point, at)}")
        rows.append(f"<span class='value'>{number(point.value)}</span>")
    marks = [0.0, high] if at(0.0) - at(low) < 12 else [low, 0.0, high]
    marks = [low, 0.0] if at(high) - at(0.0) < 12 else marks
    ticks = "".join(f"<i style='left:{at(x):.2f}%'>{number(x)}</i>" for x in marks)
    rows.append(f"<span></span><span class='axis'>{ticks}</span><span></span></div>")
    return "".join(rows)


def _row(point: Point, at: object) -> str:
    place = at
    assert callable(place)
    parts = [f"<line class='zero' x1='{place(0.0):.2f}%' x2='{place(0.0):.2f}%' y1='0' y2='24'/>"]
    if point.low is not None or point.high is not None:
        left = place(-math.inf if point.low is None else point.low)
        right = place(math.inf if point.high is None else point.high)
        parts.append(f"<line class='whisker' x1='{left:.2f}%' x2='{right:.2f}%' y1='12' y2='12'/>")
        for end, x in ((point.low, left), (point.high, right)):
            if end is not None:
                parts.append(f"<line class='whisker' x1='{x:.2f}%' x2='{x:.2f}%' y1='7' y2='17'/>")
    if point.truth is not None and not math.isnan(point.truth):
        x = place(point.truth)
        parts.append(f"<line class='truth' x1='{x:.2f}%' x2='{x:.2f}%' y1='3' y2='21'/>")
    parts.append(f"<circle cx='{place(point.value):.2f}%' cy='12' r='4'/>")
    return f"<svg class='row' height='24' aria-hidden='true'>{''.join(parts)}</svg>"


def _said(points: Sequence[Point], name: str) -> str:
    told = "; ".join(f"{p.label} {number(p.value)} ({number(p.low)} to {number(p.high)})" for p in points[:12])
    return f"{name}: {told}" + ("; ..." if len(points) > 12 else "")


def signed(share: float) -> str:
    """A bar to the left or right of the middle; `share` in [-1, 1] of half the width."""
    size = min(abs(share), 1.0) * 50
    start = 50 - size if share < 0 else 50
    side = "less" if share < 0 else "more"
    return (
        f"<svg class='signed' height='8' aria-hidden='true'><rect class='{side}' x='{start:.2f}%' width='{size:.2f}%' "
        "height='8'/><line class='zero' x1='50%' x2='50%' y1='0' y2='8'/></svg>"
    )


def meter(parts: Sequence[tuple[str, float]], cap: float, ceiling: float) -> str:
    """What was spent, piece by piece, up to the cap and the ceiling."""
    whole = ceiling or 1.0
    pieces = "".join(
        f"<span style='width:{100 * amount / whole:.3f}%' title='{escape_html(label)}'></span>"
        for label, amount in parts
    )
    mark = f"<b style='left:{100 * cap / whole:.2f}%'>cap</b>" if cap < ceiling else ""
    return f"<div class='meter'>{pieces}{mark}</div>"
