"""Draw the map of a synthetic table's page that shows which columns depend on each other."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from dither.pages.html import Html, write_element
from dither.pages.plots import draw_figure
from dither.synth.synthetic import Synthetic

STRONG = 0.5
"""Pairs at least this far from independence are drawn in the darkest colour."""


def draw_dependency_map(synthetic: Synthetic) -> Html:
    """Draw a square for every pair of columns: how far they are from independent in the model."""
    columns = synthetic.columns
    model = synthetic.fitted.model
    if len(columns) < 2:
        return write_element("p", "one column: nothing to compare", class_="quiet")
    singles = [model.find_marginal((a,)) / model.total for a in range(len(columns))]
    pairs = model.find_pairs()
    side = min(48.0, 290 / len(columns))
    measured = [{*step.columns} for step in synthetic.released if step.kind == "counts"]
    shapes = []
    gaps: list[tuple[float, str]] = []
    for first, second in combinations(range(len(columns)), 2):
        joint = pairs[first, second] / model.total
        gap = 0.5 * float(np.abs(joint - np.multiply.outer(singles[first], singles[second])).sum())
        gaps.append((gap, f"{columns[first].name} and {columns[second].name}"))
        names = {columns[first].name, columns[second].name}
        is_measured = any(names <= columns_of_step for columns_of_step in measured)
        shapes += _draw_square(first, second, side, gap, is_measured)
    for position, column in enumerate(columns):
        shapes += _write_axis(position, column.name, side)
    words = [f"{name}: {gap:.2f}" for gap, name in sorted(gaps, reverse=True)[:5]]
    note = (
        "How far each pair is from independent by the model: 0 means that one column says nothing "
        "about the other. Darker is stronger. A frame marks pairs that were measured; the others "
        f"follow from them. Strongest: {'; '.join(words)}"
    )
    return draw_figure(int(20 + side * len(columns)), shapes, note)


def _draw_square(across: int, down: int, side: float, gap: float, is_measured: bool) -> list[Html]:
    """Draw the square of a pair, below the diagonal, with its number where there is room."""
    x = 100 + side * across
    y = 10 + side * down
    square = write_element(
        "rect",
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        width=f"{side - 2:.1f}",
        height=f"{side - 2:.1f}",
        fill="#1f5fa8",
        fill_opacity=f"{min(1.0, 0.04 + gap / STRONG):.2f}",
        stroke="#b4690e" if is_measured else "none",
        stroke_width="2",
    )
    if side < 24:
        return [square]
    number = write_element(
        "text",
        f"{gap:.2f}",
        x=f"{x + side / 2 - 1:.1f}",
        y=f"{y + side / 2 + 3:.1f}",
        text_anchor="middle",
        font_size="9",
        style=f"fill:{'#fff' if gap > STRONG / 2 else '#222'}",
    )
    return [square, number]


def _write_axis(position: int, name: str, side: float) -> list[Html]:
    """Write the name of a column beside its row, and on the diagonal above its squares."""
    size = f"{min(10.0, side):.1f}"
    middle = 10 + side * (position + 0.5) + 3
    row = write_element("text", name, x="94", y=f"{middle:.1f}", text_anchor="end", font_size=size)
    x = 102 + side * position
    diagonal = write_element("text", name, x=f"{x:.1f}", y=f"{middle:.1f}", font_size=size)
    return [row, diagonal]
