"""Plots as inline SVG, each with a sentence below it that is also its text alternative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from dither.pages.html import Html, write_element

LineKind = Literal["claim", "shown", "guess", "top"]
_WIDTH = 400
_HEIGHT = 290
_LEFT = 58
_BOTTOM = _HEIGHT - 44
_EDGE = 14
_ACROSS = _WIDTH - _LEFT - _EDGE
_UP = _BOTTOM - _EDGE


@dataclass(frozen=True)
class Axis:
    """A name, and the number at its end; it starts at 0."""

    name: str
    end: float


@dataclass(frozen=True)
class ChartLine:
    """Points in the unit square, joined."""

    points: Sequence[tuple[float, float]]
    kind: LineKind


def draw_curves(lines: Sequence[ChartLine], across: Axis, up: Axis, note: str) -> Html:
    """Draw lines over a grid of four by four."""
    shapes = [shape for step in range(5) for shape in _draw_grid(step / 4, across, up)]
    middle = _BOTTOM / 2
    shapes.append(_write_label(across.name, _LEFT + _ACROSS / 2, _HEIGHT - 8, "middle", "named"))
    turn = f"rotate(-90 12 {middle})"
    shapes.append(_write_label(up.name, 12, middle, "middle", "named", turn))
    return draw_figure(_HEIGHT, [*shapes, *map(_draw_line, lines)], note)


def _draw_grid(share: float, across: Axis, up: Axis) -> list[Html]:
    """Draw one vertical and one horizontal line at this share of both axes, with their numbers."""
    x = _LEFT + _ACROSS * share
    y = _BOTTOM - _UP * share
    return [
        _draw_segment("axis", x, _EDGE, x, _BOTTOM),
        _draw_segment("axis", _LEFT, y, _WIDTH - _EDGE, y),
        _write_label(f"{across.end * share:.3g}", x, _BOTTOM + 16, "middle"),
        _write_label(f"{up.end * share:.3g}", _LEFT - 6, y + 4, "end"),
    ]


def _draw_line(line: ChartLine) -> Html:
    points = " ".join(f"{_LEFT + x * _ACROSS:.1f},{_BOTTOM - y * _UP:.1f}" for x, y in line.points)
    return write_element("polyline", class_=line.kind, fill="none", points=points)


def draw_lengths(lengths: Sequence[tuple[str, float, LineKind]], end: float, note: str) -> Html:
    """Draw numbers as horizontal lines from 0 to `end`, one below the other."""
    bottom = 14 + 26 * len(lengths)
    shapes = [_draw_segment("axis", 110, 14, 110, bottom + 12)]
    for index, (name, value, kind) in enumerate(lengths):
        y = 40 + 26 * index
        x = 110 + 250 * value / end
        shapes.append(_write_label(name, 102, y + 4, "end"))
        shapes.append(_draw_segment(kind, 110, y, x, y))
        shapes.append(_write_label(f"{value:.3g}", x + 6, y + 4, "start", "named"))
    return draw_figure(bottom + 26, shapes, note)


def draw_figure(height: int, shapes: Sequence[Html], note: str) -> Html:
    """Shapes on a field of 400 by `height`, with their caption."""
    title = write_element("title", note)
    field = f"0 0 {_WIDTH} {height}"
    svg = write_element("svg", title, *shapes, role="img", class_="plot", viewBox=field)
    return write_element("figure", svg, write_element("figcaption", note))


def _draw_segment(kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return write_element("line", class_=kind, **{name: f"{end:.1f}" for name, end in ends.items()})


def _write_label(
    text: str,
    x: float,
    y: float,
    anchor: str,
    kind: str | None = None,
    transform: str | None = None,
) -> Html:
    """Write an SVG text at (x, y); `anchor` says which end of the text is there."""
    return write_element(
        "text",
        text,
        class_=kind,
        x=f"{x:.1f}",
        y=f"{y:.1f}",
        text_anchor=anchor,
        transform=transform,
    )
