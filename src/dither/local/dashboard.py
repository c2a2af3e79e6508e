"""A dashboard of estimates as one self-contained page: no script, no network, intervals always shown.

>>> from dither import local
>>> page = render("Themes", {"theme": local.Direct(2, 2).estimate(np.array([60, 40]), 100).named(["dark", "light"])})
>>> "dark" in page and "<script" not in page
True
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dither.local.estimate import Estimate
from dither.local.protocol import UNPROTECTED
from dither.surfaces import escape_html

_STYLE = (
    "body{font:16px system-ui,sans-serif;margin:2rem auto;max-width:52rem;color:#222}"
    "td{padding:.2rem .6rem}td.n{text-align:right;font-variant-numeric:tabular-nums}"
    "svg{display:block}small{color:#555}"
)


def render(title: str, panels: Mapping[str, Estimate], *, level: float = 0.95, top: int = 20, promise: str = "") -> str:
    """HTML of bars with intervals, one panel an estimate; `promise` is the collector's statement."""
    parts = [_panel(name, estimate, level, top) for name, estimate in panels.items()]
    told = promise or "Not protected: " + "; ".join(UNPROTECTED) + "."
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape_html(title)}</title><style>{_STYLE}</style>"
        f"<h1>{escape_html(title)}</h1>{''.join(parts)}<p><small>{escape_html(told)}</small></p></html>"
    )


def _panel(name: str, estimate: Estimate, level: float, top: int) -> str:
    values = estimate.values.ravel()
    low, high = (end.ravel() for end in estimate.interval(level))
    names = estimate.labels or tuple(str(i) for i in range(values.size))
    order = np.argsort(values)[::-1][:top]
    start, end = min(0.0, float(low[order].min())), max(1.0, float(high[order].max()))
    rows = "".join(_row(names[i], values[i], low[i], high[i], start, end) for i in order)
    head = f"<h2>{escape_html(name)}</h2><p>{estimate.reports:,} reports, intervals at {level:.0%}</p>"
    return f"{head}<table>{rows}</table>"


def _row(name: str, value: float, low: float, high: float, start: float, end: float) -> str:
    def across(x: float) -> float:
        return round(300 * (x - start) / (end - start), 1)

    zero, tip = across(0), across(value)
    bar = f'<rect x="{min(zero, tip)}" y="4" width="{abs(tip - zero):.1f}" height="12" fill="#4c72b0"/>'
    line = f'<line x1="{across(low)}" x2="{across(high)}" y1="10" y2="10" stroke="#222" stroke-width="2"/>'
    chart = f'<svg width="300" height="20" role="img">{bar}{line}</svg>'
    return (
        f'<tr><td>{escape_html(name)}<td>{chart}<td class="n">{value:,.0f}'
        f'<td class="n"><small>{low:,.0f} to {high:,.0f}</small></tr>'
    )
