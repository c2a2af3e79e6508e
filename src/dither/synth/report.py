"""The page about a synthetic table: what was measured, how far off it is, what it may be used for.

Everything on it follows from released numbers and the catalog; nothing is compared with the source,
which would have to be paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from math import log10

import numpy as np

from dither.pages.charts import ChartPoint, draw_dots, format_number
from dither.pages.html import Html, join, write_details, write_element, write_list
from dither.pages.page import PageSection, write_card, write_page
from dither.pages.plots import draw_figure
from dither.pages.tables import write_facts, write_table
from dither.synth.columns import SynthColumn
from dither.synth.linked import SyntheticPair
from dither.synth.synthetic import Synthetic

MOST_SHOWN = 24
"""Values of a column that a chart shows; the rest are in one line."""
_PRIVACY = (
    "The promise is differential privacy of what was measured, for one unit as the catalog says. "
    "It holds for every table drawn from this model, however many there are.",
    "The distance of a synthetic row to the closest real one is no guarantee and is not computed: "
    "a table can be far from every record and still tell who is in the data, and a row can equal "
    "a real one by chance. Computing it would itself be a release.",
    "A row stands for nobody. That a rare combination appears says nothing about whether a person "
    "has it.",
)
_USES = (
    "Counts of one column and of pairs of columns: this is what the model was tuned for.",
    "Trying out programs, charts and models before asking the real data.",
)
_NOT_USES = (
    "Counts of three or more columns together, unless they were measured: the model assumes that "
    "nothing more depends on each other than it must.",
    "Rare values and single rows: they are noise.",
    "A final analysis. Ask the real data for what matters, or buy a check of it.",
)


def write_report(synthetic: Synthetic) -> str:
    """The page of one table."""
    return write_page(f"Synthetic {synthetic.facts['table']}", _write_sections(synthetic, ""))


def write_pair_report(pair: SyntheticPair) -> str:
    """The page of two linked tables."""
    parent = str(pair.parent.facts["table"])
    child = str(pair.child.facts["table"])
    sections = [
        *_write_sections(pair.parent, f"{parent}: "),
        PageSection("Rows of one parent", _draw_rows_of_parents(pair, child), "rows"),
        *_write_sections(pair.child, f"{child}: ")[:-2],
    ]
    return write_page(f"Synthetic {parent} and {child}", sections)


def _write_sections(synthetic: Synthetic, prefix: str) -> list[PageSection]:
    name = str(synthetic.facts["table"])
    return [
        PageSection(f"{prefix}What it is", _write_summary(synthetic), f"{name}-about"),
        PageSection(f"{prefix}Columns", _write_columns(synthetic), f"{name}-columns"),
        PageSection(f"{prefix}Expected error", _write_errors(synthetic), f"{name}-errors"),
        PageSection(f"{prefix}What depends on what", _draw_map(synthetic), f"{name}-map"),
        PageSection(f"{prefix}What was released", _write_steps(synthetic), f"{name}-steps"),
        PageSection("What it may be used for", _write_uses(), "uses"),
        PageSection("What is private about it", write_list(_PRIVACY), "privacy"),
    ]


def _write_summary(synthetic: Synthetic) -> Html:
    facts = synthetic.facts
    lines = [
        ("dataset", f"{facts.get('dataset')}, version {facts.get('version')}"),
        ("protected", f"one {facts.get('unit')}, neighbours {facts.get('neighbours')}"),
        ("paid", str(facts.get("price"))),
        ("method", str(facts.get("method"))),
        ("rows", f"{synthetic.rows:,}, estimated from noisy counts"),
        ("constraints", "; ".join(f"{c.text} ({c.provenance})" for c in synthetic.constraints)),
    ]
    return write_facts([line for line in lines if line[1]])


def _write_columns(synthetic: Synthetic) -> Html:
    """A chart for every column: expected counts, with the interval of the noise."""
    errors = {step.columns[0]: step.error for step in synthetic.released if len(step.columns) == 1}
    cards = [
        write_card(
            column.name,
            draw_dots(
                _list_points(column, synthetic.find_marginal(column.name), errors), column.name
            ),
        )
        for column in synthetic.columns
    ]
    note = "Dots are expected counts; lines are 95% intervals of the noise of measured counts."
    return join([write_element("p", note, class_="quiet"), *cards])


def _list_points(
    column: SynthColumn, counts: np.ndarray, errors: dict[str, float]
) -> list[ChartPoint]:
    reach = 1.96 * errors[column.name] if column.name in errors else None
    largest_codes = sorted(np.argsort(-counts)[:MOST_SHOWN].tolist())
    points = []
    for code in largest_codes:
        count = float(counts[code])
        low = None if reach is None else max(0.0, count - reach)
        high = None if reach is None else count + reach
        points.append(ChartPoint(column.write_code(code), count, low, high))
    rest = float(counts.sum() - counts[largest_codes].sum())
    if len(largest_codes) < len(counts):
        points.append(ChartPoint(f"{len(counts) - len(largest_codes)} more", rest))
    return points


def _write_errors(synthetic: Synthetic) -> Html:
    """The predicted error of every marginal of one and two columns."""
    rows = []
    unknown = []
    for predicted in synthetic.predict_errors():
        name = ", ".join(predicted.columns)
        if predicted.distance is None:
            unknown.append(name)
        else:
            rows.append((name, f"{100 * predicted.distance:.2g}%"))
    note = (
        "The largest share of rows that noise is expected to put into a wrong cell, before the "
        "model evens it out."
    )
    table = write_table(("counts of", "by noise, at most about"), rows)
    blind = write_details(
        f"{len(unknown)} pairs were not measured: the model says what they are, and how far off "
        f"that is, is unknown",
        write_list(unknown),
    )
    return join([write_element("p", note), table, *([blind] if unknown else [])])


def _draw_map(synthetic: Synthetic) -> Html:
    """A square for every pair: how far the model is from independent columns."""
    columns = synthetic.columns
    model = synthetic.fitted.model
    if len(columns) < 2:
        return write_element("p", "one column: nothing to compare", class_="quiet")
    singles = [model.find_marginal((a,)) / model.total for a in range(len(columns))]
    pairs = model.find_pairs()
    width_of_square = 300 / len(columns)
    shapes = []
    strongest: list[tuple[float, str]] = []
    for first, second in combinations(range(len(columns)), 2):
        joint = pairs[first, second] / model.total
        gap = 0.5 * float(np.abs(joint - np.multiply.outer(singles[first], singles[second])).sum())
        strongest.append((gap, f"{columns[first].name} and {columns[second].name}"))
        shapes += [
            _draw_square(across, down, width_of_square, gap)
            for across, down in ((first, second), (second, first))
        ]
    shapes += [
        write_element(
            "text",
            column.name,
            x="96",
            y=f"{10 + width_of_square * (position + 0.7):.1f}",
            text_anchor="end",
            font_size=f"{min(12.0, width_of_square):.1f}",
        )
        for position, column in enumerate(columns)
    ]
    words = [f"{name}: {gap:.2f}" for gap, name in sorted(strongest, reverse=True)[:5]]
    note = f"Distance of each pair from independence, by the model. Strongest: {'; '.join(words)}"
    return draw_figure(int(20 + width_of_square * len(columns)), shapes, note)


def _draw_square(across: int, down: int, width_of_square: float, gap: float) -> Html:
    return write_element(
        "rect",
        x=f"{100 + width_of_square * across:.1f}",
        y=f"{10 + width_of_square * down:.1f}",
        width=f"{width_of_square - 1:.1f}",
        height=f"{width_of_square - 1:.1f}",
        fill="currentColor",
        fill_opacity=f"{min(1.0, 0.05 + 1.6 * gap):.2f}",
    )


def _write_steps(synthetic: Synthetic) -> Html:
    rows = [
        (
            step.kind,
            ", ".join(step.columns),
            f"{step.cells:,}",
            _write_price(step.price),
            format_number(step.error) if step.error else "a choice",
        )
        for step in synthetic.released
    ]
    return write_table(("step", "columns", "cells", "price", "standard error"), rows)


def _write_price(price: float) -> str:
    digits = max(2, 2 - int(log10(price))) if price > 0 else 2
    return f"{price:.{digits}f}"


def _write_uses() -> Html:
    return join(
        [
            write_card("It is good for", write_list(_USES)),
            write_card("It is not good for", write_list(_NOT_USES)),
        ]
    )


def _draw_rows_of_parents(pair: SyntheticPair, child: str) -> Html:
    error = pair.child.released[0].error
    points: Sequence[ChartPoint] = [
        ChartPoint(f"{rows} {child}", count, max(0.0, count - 1.96 * error), count + 1.96 * error)
        for rows, count in enumerate(pair.rows_of_parents)
    ]
    note = (
        f"Rows follow the parent's {', '.join(pair.links)}; how many there are is drawn for each "
        f"parent alike. Keys are fresh numbers."
    )
    return join([draw_dots(points, f"parents by number of {child}"), write_element("p", note)])
