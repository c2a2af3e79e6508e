"""Charts of the console: SVG without styles, scripts or links, each with its text in words.

Colours come from the classes of the style sheet, in light and dark. A strict security policy allows
no `style` attribute, so positions are attributes of SVG.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dither.pages.charts import ChartPoint, format_number
from dither.pages.html import EMPTY, Html, write_element

WIDTH = 640
_LABEL = 150
_VALUE = 90
_ROW = 26
_MOST_WORDS = 12


def _number(value: float) -> str:
    return f"{value:.1f}"


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Html:
    ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
    return write_element("line", class_=kind, **{name: _number(end) for name, end in ends.items()})


def _text(text: str, x: float, y: float, anchor: str = "start", kind: str | None = None) -> Html:
    return write_element("text", text, x=_number(x), y=_number(y), text_anchor=anchor, class_=kind)


def _figure(height: float, shapes: Sequence[Html], words: str) -> Html:
    """Shapes with a description that a screen reader speaks in their place."""
    field = f"0 0 {WIDTH} {height:.0f}"
    return write_element(
        "svg", *shapes, class_="chart", viewBox=field, role="img", aria_label=words
    )


def _cut(text: str, length: int = 20) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"


def draw_answer(points: Sequence[ChartPoint], name: str, level: str) -> Html:
    """An answer: a dot for each row, a line for its interval, on an axis with zero."""
    points = [point for point in points if not math.isnan(point.value)]
    if not points:
        return EMPTY
    low, high = _find_range(points)
    span = (high - low) or 1.0
    across = WIDTH - _LABEL - _VALUE

    def find_x(value: float) -> float:
        return _LABEL + across * (min(max(value, low), high) - low) / span

    bottom = 10.0 + _ROW * len(points)
    shapes = [_line("zero", find_x(0), 4, find_x(0), bottom)]
    for row, point in enumerate(points):
        y = 10 + _ROW * (row + 0.5)
        shapes.append(_text(_cut(point.label), _LABEL - 10, y + 5, "end"))
        if point.low is not None or point.high is not None:
            start = find_x(low if point.low is None else point.low)
            end = find_x(high if point.high is None else point.high)
            shapes.append(_line("whisker", start, y, end, y))
            ends = ((point.low, start), (point.high, end))
            shapes += [_line("whisker", x, y - 5, x, y + 5) for end, x in ends if end is not None]
        shapes.append(
            write_element("circle", cx=_number(find_x(point.value)), cy=_number(y), r="4.5")
        )
        shapes.append(_text(format_number(point.value), WIDTH, y + 5, "end", "figure"))
    shapes += _draw_ends(low, high, find_x, bottom)
    return _figure(bottom + 24, shapes, _say(points, name, level))


def _find_range(points: Sequence[ChartPoint]) -> tuple[float, float]:
    """Both ends of the axis; an interval far wider than all answers is cut there."""
    values = [point.value for point in points]
    ends = [end for point in points for end in (point.low, point.high) if end is not None]
    finite = [end for end in ends if math.isfinite(end)]
    reach = 2.5 * max(map(abs, values)) or 1.0
    if finite and not max(map(abs, values)):
        reach = max(map(abs, finite)) or 1.0
    low = max(min(0.0, *values, *finite), -reach)
    high = min(max(0.0, *values, *finite), reach)
    return low, high if high > low else low + 1.0


def _draw_ends(
    low: float, high: float, find_x: Callable[[float], float], bottom: float
) -> list[Html]:
    """The axis below a chart with the numbers at its ends, and 0 where it is apart from both."""
    shapes = [_line("axis", find_x(low), bottom, find_x(high), bottom)]
    shapes.append(_text(format_number(low), find_x(low), bottom + 18, "start", "quiet"))
    shapes.append(_text(format_number(high), find_x(high), bottom + 18, "end", "quiet"))
    room = 60
    if find_x(0) - find_x(low) > room and find_x(high) - find_x(0) > room:
        shapes.append(_text("0", find_x(0), bottom + 18, "middle", "quiet"))
    return shapes


def _say(points: Sequence[ChartPoint], name: str, level: str) -> str:
    words = []
    for point in points[:_MOST_WORDS]:
        value, low, high = map(format_number, (point.value, point.low, point.high))
        words.append(f"{point.label} {value} ({low} to {high})")
    rest = len(points) - _MOST_WORDS
    more = f"; and {rest} more in the table" if rest > 0 else ""
    return f"{name} with its {level} interval: {'; '.join(words)}{more}"


def draw_half_width(half_width: float, standard_error: float | None, level: str) -> Html:
    """Where an answer will likely fall around the exact one, which nobody knows."""
    middle = WIDTH / 2
    reach = WIDTH / 2 - 70
    y = 34.0
    shapes = [
        write_element(
            "rect",
            class_="likely",
            x=_number(middle - reach),
            y=_number(y - 11),
            width=_number(2 * reach),
            height="22",
            rx="4",
        )
    ]
    if standard_error is not None and 0 < standard_error < half_width:
        inner = reach * standard_error / half_width
        shapes.append(
            write_element(
                "rect",
                class_="likelier",
                x=_number(middle - inner),
                y=_number(y - 11),
                width=_number(2 * inner),
                height="22",
                rx="4",
            )
        )
    shapes.append(_line("exact", middle, y - 17, middle, y + 17))
    width = format_number(half_width)
    shapes.append(_text("exact answer", middle, 12, "middle", "quiet"))
    shapes.append(_text(f"−{width}", middle - reach, y + 30, "middle"))
    shapes.append(_text(f"+{width}", middle + reach, y + 30, "middle"))
    words = f"{level} of answers fall within plus or minus {width} of the exact answer"
    if standard_error is not None:
        words += f"; a typical answer is off by {format_number(standard_error)}"
    return _figure(y + 38, shapes, words)


@dataclass(frozen=True)
class SpentPoint:
    """What a pot had spent at a time; `share` of the time axis runs from 0 to 1."""

    share: float
    spent: float


def draw_burn_down(points: Sequence[SpentPoint], cap: float, words: str) -> Html:
    """What a pot still has after each answer, down from its cap, which is a dashed line."""
    whole = cap or 1.0
    top = 24.0
    bottom = 130.0
    start = 12.0
    end = WIDTH - 12.0

    def place_amount(amount: float) -> float:
        return bottom - (bottom - top) * max(0.0, min(amount, whole)) / whole

    steps = [f"{start:.1f},{place_amount(cap):.1f}"]
    remaining = cap
    for point in points:
        x = start + (end - start) * point.share
        steps.append(f"{x:.1f},{place_amount(remaining):.1f}")
        remaining = cap - point.spent
        steps.append(f"{x:.1f},{place_amount(remaining):.1f}")
    steps.append(f"{end:.1f},{place_amount(remaining):.1f}")
    area = " ".join([f"{start:.1f},{bottom:.1f}", *steps, f"{end:.1f},{bottom:.1f}"])
    shapes = [
        _line("axis", start, bottom, end, bottom),
        write_element("polyline", class_="area", points=area),
        write_element("polyline", class_="burn", points=" ".join(steps)),
        _line("cap", start, place_amount(cap), end, place_amount(cap)),
        _text("cap", end, place_amount(cap) - 4, "end", "quiet"),
    ]
    return _figure(bottom + 8, shapes, words)


def draw_people(total: int, marked: int, words: str) -> Html:
    """A hundred dots or fewer, some of them marked: a share that can be counted."""
    across = 25
    step = 22.0
    shapes = []
    for index in range(total):
        x = 14 + step * (index % across)
        y = 14 + step * (index // across)
        kind = "marked" if index < marked else "unmarked"
        shapes.append(write_element("circle", class_=kind, cx=_number(x), cy=_number(y), r="7"))
    rows = (total + across - 1) // across
    return _figure(14 + step * rows, shapes, words)


def draw_share(share: float, words: str) -> Html:
    """A bar of which a share is filled."""
    filled = WIDTH * max(0.0, min(share, 1.0))
    shapes = [
        write_element("rect", class_="whole", width=str(WIDTH), height="14", rx="4"),
        write_element("rect", class_="filled", width=_number(filled), height="14", rx="4"),
    ]
    return _figure(14, shapes, words)


@dataclass(frozen=True)
class LimitBar:
    """A limit: rows that it leaves out, and the half-width of the noise that it needs."""

    label: str
    left_out: float
    half_width: float


def draw_limits(bars: Sequence[LimitBar], best: str) -> Html:
    """A bar for each limit: rows left out, then noise; the shortest bar errs least."""
    longest = max(bar.left_out + bar.half_width for bar in bars) or 1.0
    across = WIDTH - _LABEL - _VALUE
    shapes = []
    for row, bar in enumerate(bars):
        y = 4.0 + _ROW * row
        cut = across * bar.left_out / longest
        noise = across * bar.half_width / longest
        name = f"{bar.label} (least)" if bar.label == best else bar.label
        shapes.append(_text(name, _LABEL - 10, y + 17, "end"))
        shapes.append(_bar("cut", _LABEL, y + 4, cut))
        shapes.append(_bar("noise", _LABEL + cut, y + 4, noise))
        total = format_number(bar.left_out + bar.half_width)
        shapes.append(_text(total, WIDTH, y + 17, "end", "figure"))
    words = "; ".join(
        f"limit {bar.label}: {format_number(bar.left_out)} rows left out, noise "
        f"{format_number(bar.half_width)}"
        for bar in bars
    )
    return _figure(8 + _ROW * len(bars), shapes, words)


def _bar(kind: str, x: float, y: float, width: float) -> Html:
    ends = {"x": _number(x), "y": _number(y), "width": _number(width), "height": "18"}
    return write_element("rect", class_=kind, **ends)
