"""A dashboard of estimates as one self-contained page: no script, no network, intervals always
shown.

>>> from dither import local
>>> page = render("Themes", {"theme": local.Direct(2, 2).estimate(np.array([60, 40]),
...     100).named(["dark", "light"])})
>>> "dark" in page and "<script" not in page
True
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dither.local.estimate import Estimate
from dither.local.protocol import UNPROTECTED
from dither.pages.charts import ChartPoint, draw_dots
from dither.pages.html import Html, join, write_details, write_element
from dither.pages.page import PageSection, write_page
from dither.pages.tables import write_table


def render(
    title: str,
    panels: Mapping[str, Estimate],
    *,
    level: float = 0.95,
    top: int = 20,
    promise: str = "",
) -> str:
    """Write the HTML of estimates with intervals, one section an estimate.

    `promise` is the collector's statement.
    """
    sections = [
        PageSection(name, _show_panel(name, estimate, level, top))
        for name, estimate in panels.items()
    ]
    lead = write_element(
        "p", promise or f"Not protected: {'; '.join(UNPROTECTED)}.", class_="quiet"
    )
    return write_page(title, sections, lead=lead)


def _show_panel(name: str, estimate: Estimate, level: float, top: int) -> Html:
    """Write one estimate as a card: a chart with intervals, and a table of the same numbers."""
    points = _list_points(estimate, level, top)
    rows = [
        (point.label, f"{point.value:,.0f}", f"{point.low:,.0f} to {point.high:,.0f}")
        for point in points
    ]
    return join(
        [
            write_element("p", f"{estimate.reports:,} reports, intervals at {level:.0%}"),
            draw_dots(points, name),
            write_details("table", write_table(("", "estimate", "interval"), rows)),
        ]
    )


def _list_points(estimate: Estimate, level: float, top: int) -> list[ChartPoint]:
    """List the points of a chart, the largest estimates first."""
    values = estimate.values.ravel()
    low, high = (end.ravel() for end in estimate.interval(level))
    names = estimate.labels or tuple(str(i) for i in range(values.size))
    order = np.argsort(values)[::-1][:top]
    return [ChartPoint(names[i], float(values[i]), float(low[i]), float(high[i])) for i in order]
