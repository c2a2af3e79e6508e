"""The page about a synthetic table: what was measured, how far off it is, what it may be used for.

Everything on it follows from released numbers and the catalog; nothing is compared with the source,
which would have to be paid for.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import log10, sqrt
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from dither.pages.charts import ChartPoint, draw_dots, format_number
from dither.pages.html import Html, join, write_details, write_element, write_list
from dither.pages.page import PageSection, write_card, write_page
from dither.pages.tables import write_facts, write_table
from dither.synth.columns import SynthColumn
from dither.synth.dependency_map import draw_dependency_map
from dither.synth.linked import SyntheticPair
from dither.synth.steps import ReleasedStep
from dither.synth.synthetic import NOISE_WARNING, Synthetic

DrawnTable: TypeAlias = tuple[Synthetic, pa.Table]
"""A synthetic table with the rows that were drawn from it."""
MOST_SHOWN = 24
"""Values of a column that a chart shows; numbers and dates are put into so many ranges."""
SMALL = 0.05
"""Counts are called good if noise puts at most this share of rows into a wrong cell."""
_PRIVACY = (
    "The promise is differential privacy of what was measured, for one unit as the catalog says. "
    "It holds for every table drawn from this model, however many there are.",
    "The distance of a synthetic row to the closest real one is no guarantee and is not computed: "
    "a table can be far from every record and still tell who is in the data, and a row can equal "
    "a real one by chance. Computing it would itself be a release.",
    "A row stands for nobody. That a rare combination appears says nothing about whether a person "
    "has it.",
)
_NEIGHBOURS = {
    "add_remove": "with all rows of it or without them (add_remove)",
    "replace": "with its rows or with any others in their place (replace)",
}
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
    """Write the page of one table."""
    rows = synthetic.sample()
    return write_page(
        f"Synthetic {synthetic.facts['table']}",
        [
            PageSection("What it is", _write_summary(synthetic, rows), "about"),
            *_write_promises([(synthetic, rows)]),
            *_write_sections(synthetic, rows, ""),
        ],
    )


def write_pair_report(pair: SyntheticPair) -> str:
    """Write the page of two linked tables."""
    parent = str(pair.parent.facts["table"])
    child = str(pair.child.facts["table"])
    parents, children = pair.sample()
    sections = [
        PageSection("What it is", _write_pair_summary(pair, (parents, children)), "about"),
        *_write_promises([(pair.parent, parents), (pair.child, children)]),
        *_write_sections(pair.parent, parents, f"{parent}: "),
        PageSection(
            f"{child} of one {_find_unit(pair.parent)}", _draw_rows_of_parents(pair), "rows"
        ),
        *_write_sections(pair.child, children, f"{child}: "),
    ]
    return write_page(f"Synthetic {parent} and {child}", sections)


def _write_promises(tables: Sequence[DrawnTable]) -> list[PageSection]:
    """Write what tables may be used for, and what is private about them."""
    return [
        PageSection("What it may be used for", _write_uses(tables), "uses"),
        PageSection("What is private about it", write_list(_PRIVACY), "privacy"),
    ]


def _write_sections(synthetic: Synthetic, rows: pa.Table, prefix: str) -> list[PageSection]:
    """Write the sections about one table; `prefix` goes before their titles."""
    name = str(synthetic.facts["table"])
    return [
        PageSection(f"{prefix}Columns", _write_columns(synthetic, rows), f"{name}-columns"),
        PageSection(f"{prefix}Expected error", _write_errors(synthetic), f"{name}-errors"),
        PageSection(
            f"{prefix}Checked against the data", _write_quality(synthetic), f"{name}-check"
        ),
        PageSection(f"{prefix}What depends on what", draw_dependency_map(synthetic), f"{name}-map"),
        PageSection(f"{prefix}What was released", _write_steps(synthetic), f"{name}-steps"),
    ]


def _find_unit(synthetic: Synthetic) -> str:
    return str(synthetic.facts.get("unit", "parent"))


def _write_pair_summary(pair: SyntheticPair, tables: tuple[pa.Table, pa.Table]) -> Html:
    """Write the facts of both tables, which were paid together."""
    parent = pair.parent
    child = pair.child
    lines = _list_facts(parent)
    names = f"{parent.facts['table']} and {child.facts['table']}"
    counts = f"{tables[0].num_rows:,} and {tables[1].num_rows:,} rows"
    lines["left out"] = "; ".join(
        f"{table.facts['table']}: {', '.join(table.facts['left_out'])}"
        for table in (parent, child)
        if table.facts.get("left_out")
    )
    lines["tables"] = f"{names}: {counts}, estimated from noisy counts"
    lines["keys"] = (
        f"fresh numbers; every row of {child.facts['table']} has the key of its row of "
        f"{parent.facts['table']}"
    )
    noisy = [t.facts["table"] for t in (parent, child) if t.is_mostly_noise]
    lines["beware"] = f"{' and '.join(noisy)}: {NOISE_WARNING}" if noisy else ""
    for synthetic, rows in ((parent, tables[0]), (child, tables[1])):
        if synthetic.constraints:
            lines[f"rules of {synthetic.facts['table']}"] = _write_rules(synthetic, rows)
        lines[f"bins of {synthetic.facts['table']}"] = _write_bins(synthetic)
    return write_facts([line for line in lines.items() if line[1]])


def _write_rules(synthetic: Synthetic, rows: pa.Table) -> str:
    """Write the rules that every row meets, and how many rows were drawn again for them."""
    counts = json.loads(rows.schema.metadata[b"dither"])
    words = "; ".join(f"{c.text} ({c.provenance})" for c in synthetic.constraints)
    sentence = f"{words}. {counts['rejected']:,} drawn rows broke them and were drawn again"
    return sentence + (f"; {counts['missing']:,} are missing" if counts["missing"] else "")


def _write_bins(synthetic: Synthetic) -> str:
    """Write the edges of bins, if any; of bought ones also the price and the error."""
    bought = {step.columns[0]: step for step in synthetic.released if step.kind == "edges"}
    measure = _find_measure(synthetic)
    sentences = []
    for column in synthetic.columns:
        if not column.edges:
            continue
        sentences.append(column.write_edges())
        if column.name in bought:
            step = bought[column.name]
            sentences[-1] += (
                f" at {measure} {_write_price(step.price)} of the lease, with 95% confidence each "
                f"off by at most {step.write_rank_error()}"
            )
    return "; ".join(sentences)


def _find_measure(synthetic: Synthetic) -> str:
    """Find the measure of the lease: "rho" or "epsilon"."""
    return str(synthetic.facts.get("lease", "")).split(" ")[0]


def _write_summary(synthetic: Synthetic, rows: pa.Table) -> Html:
    lines = _list_facts(synthetic)
    lines["rows"] = f"{synthetic.rows:,}, estimated from noisy counts"
    lines["beware"] = NOISE_WARNING if synthetic.is_mostly_noise else ""
    if synthetic.constraints:
        lines["rules"] = _write_rules(synthetic, rows)
    lines["bins"] = _write_bins(synthetic)
    return write_facts([line for line in lines.items() if line[1]])


def _list_facts(synthetic: Synthetic) -> dict[str, str]:
    facts = synthetic.facts
    return {
        "made of": f"dataset {facts.get('dataset')}, version {facts.get('version')}",
        "protected": (
            f"one {facts.get('unit')}: what these rows tell about any one of them is limited by "
            f"what was paid, {_NEIGHBOURS.get(str(facts.get('neighbours')), '')}"
        ),
        "paid": str(facts.get("price")),
        "method": str(facts.get("method")),
        "left out": ", ".join(facts.get("left_out", ())),
        "started from": str(facts.get("started_from", "")),
    }


def _write_columns(synthetic: Synthetic, rows: pa.Table) -> Html:
    """Draw a chart for every column: noisy counts with intervals, and counts of drawn rows."""
    errors = {
        step.columns[0]: step.error
        for step in synthetic.released
        if step.kind == "counts" and len(step.columns) == 1
    }
    cards = [
        write_card(
            column.name,
            draw_dots(_list_points(synthetic, position, rows, errors), column.name),
        )
        for position, column in enumerate(synthetic.columns)
        if column.name in rows.column_names
    ]
    note = (
        "Blue dots are noisy counts of the real table as measured, lines their 95% intervals, "
        "orange bars the counts of the synthetic rows. A bar far from its dot is a value that the "
        "model moved to fit the others."
    )
    return join([write_element("p", note, class_="quiet"), *cards])


def _list_points(
    synthetic: Synthetic, position: int, rows: pa.Table, errors: dict[str, float]
) -> list[ChartPoint]:
    """List the points of a column's chart: values or ranges, with measured and drawn counts."""
    column = synthetic.columns[position]
    measured = synthetic.fitted.singles[position]
    drawn = np.bincount(column.encode(rows[column.name]), minlength=column.size)
    points = []
    for codes in _list_ranges(column, measured):
        count = float(measured[codes].sum())
        reach = 1.96 * errors.get(column.name, 0.0) * sqrt(len(codes))
        low, high = (max(0.0, count - reach), count + reach) if reach else (None, None)
        label = _name_codes(column, codes)
        points.append(ChartPoint(label, round(count, 1), low, high, float(drawn[codes].sum())))
    return points


def _list_ranges(column: SynthColumn, measured: np.ndarray) -> list[list[int]]:
    """List the codes of every point of a chart.

    A point is one value where there are few. Otherwise ordered values are put into ranges; of
    unordered ones the most frequent have points of their own, and the rest shares one.
    """
    if len(measured) <= MOST_SHOWN:
        return [[code] for code in range(len(measured))]
    if column.is_ordered:
        values = len(measured) - column.has_null
        width = -(-values // MOST_SHOWN)
        ranges = [
            list(range(start, min(start + width, values))) for start in range(0, values, width)
        ]
        return [*ranges, [values]] if column.has_null else ranges
    largest = sorted(np.argsort(-measured)[:MOST_SHOWN].tolist())
    return [*([code] for code in largest), [c for c in range(len(measured)) if c not in largest]]


def _name_codes(column: SynthColumn, codes: list[int]) -> str:
    """Name the point of a chart: its value, its range, or how many rarer values it has."""
    if len(codes) == 1:
        return column.write_code(codes[0])
    if column.is_ordered:
        first = column.write_code(codes[0]).split(" to ")[0]
        return f"{first} to {column.write_code(codes[-1]).split(' to ')[-1]}"
    return f"{len(codes)} rarer ones"


def _write_quality(synthetic: Synthetic) -> Html:
    """Write what a paid check found; nothing where there was none."""
    if not synthetic.quality:
        return join([])
    rows = [
        (", ".join(check.columns), f"{100 * check.estimate:.2g}%", f"{100 * check.upper:.2g}%")
        for check in synthetic.quality
    ]
    note = (
        "Pairs that were counted anew in the real table, paid apart: the share of rows that the "
        "model puts into a wrong cell, and a bound that holds with 95% confidence."
    )
    head = ("counts of", "about", "at most")
    return join([write_element("p", note), write_table(head, rows)])


def _write_errors(synthetic: Synthetic) -> Html:
    """Write the predicted error of every marginal of one and two columns."""
    rows = []
    unmeasured = []
    for predicted in synthetic.predict_errors():
        name = ", ".join(predicted.columns)
        if predicted.distance is None:
            unmeasured.append((name, _write_bound(predicted.at_most)))
        else:
            rows.append((name, f"{100 * predicted.distance:.2g}%"))
    note = (
        "The largest share of rows that noise is expected to put into a wrong cell, before the "
        "model evens it out."
    )
    table = write_table(("counts of", "by noise, at most about"), rows)
    if not unmeasured:
        return join([write_element("p", note), table])
    of_model = (
        "Counts of pairs that were not measured are guesses of the model. The share of rows that "
        "it puts into a wrong cell is bounded, noise and model together, by how badly the last "
        "measured pair had fitted, with 95% confidence; true shares are mostly far below. For "
        "any other columns, count(where) gives the least and the most rows that the measured "
        "counts allow."
    )
    details = write_details(
        f"{len(unmeasured)} pairs were not measured",
        join(
            [
                write_element("p", of_model),
                write_table(("counts of", "model and noise, at most"), unmeasured),
            ]
        ),
    )
    return join([write_element("p", note), table, details])


def _write_bound(share: float | None) -> str:
    return "not known" if share is None else f"{100 * share:.2g}%"


def _write_steps(synthetic: Synthetic) -> Html:
    """Write the table of all released steps."""
    rows = [
        (
            step.kind,
            ", ".join(step.columns),
            f"{step.cells:,}",
            _write_price(step.price),
            _write_step_error(step),
        )
        for step in synthetic.released
    ]
    measure = _find_measure(synthetic)
    head = ("step", "columns", "cells", f"price in {measure}".strip(), "standard error in rows")
    words = "every step of the lease, with its price and its noise"
    return write_details(f"{len(rows)} steps: {words}", write_table(head, rows))


def _write_step_error(step: ReleasedStep) -> str:
    """Write the standard error of counts, or how far the ranks of edges may be off."""
    if step.kind == "edges":
        return f"ranks within {format_number(step.error)}"
    return format_number(step.error) if step.error else "a choice"


def _write_price(price: float) -> str:
    digits = max(2, 2 - int(log10(price))) if price > 0 else 2
    return f"{price:.{digits}f}"


def _write_uses(tables: Sequence[DrawnTable]) -> Html:
    """Write what tables are good for and what not, by their predicted errors."""
    good = [sentence for drawn in tables for sentence in _describe_good_counts(*drawn)]
    poor = [sentence for drawn in tables for sentence in _describe_poor_counts(*drawn)]
    return join(
        [
            write_card("It is good for", write_list([*_USES, *good])),
            write_card("It is not good for", write_list([*_NOT_USES, *poor])),
        ]
    )


def _describe_good_counts(synthetic: Synthetic, rows: pa.Table) -> list[str]:
    """Describe the columns and pairs whose counts have a small predicted error."""
    small = [
        p
        for p in synthetic.predict_errors()
        if {*p.columns} <= {*rows.column_names} and p.distance is not None and p.distance <= SMALL
    ]
    names = {
        "columns": [p.columns[0] for p in small if len(p.columns) == 1],
        "pairs of columns": [" with ".join(p.columns) for p in small if len(p.columns) == 2],
    }
    return [
        f"{synthetic.facts['table']}: counts of the {kind} {', '.join(listed)}. Noise alone puts "
        f"at most about {100 * SMALL:.0f}% of the rows into a wrong cell"
        for kind, listed in names.items()
        if listed
    ]


def _describe_poor_counts(synthetic: Synthetic, rows: pa.Table) -> list[str]:
    """Describe the columns whose counts have a large predicted error; empty if there are none."""
    large = [
        f"{p.columns[0]} ({100 * p.distance:.2g}%)"
        for p in synthetic.predict_errors()
        if len(p.columns) == 1
        and p.columns[0] in rows.column_names
        and p.distance is not None
        and p.distance > SMALL
    ]
    words = (
        f"{synthetic.facts['table']}: counts of single values of {', '.join(large)}, where noise "
        f"puts so many rows into a wrong cell; their shape over wide ranges is better"
    )
    return [words] if large else []


def _draw_rows_of_parents(pair: SyntheticPair) -> Html:
    """Draw how many rows of the child the parents have, by noisy counts."""
    child = pair.child.facts["table"]
    unit = _find_unit(pair.parent)
    error = pair.child.released[0].error
    points: Sequence[ChartPoint] = [
        ChartPoint(
            f"{rows} {child}",
            round(count, 1),
            max(0.0, count - 1.96 * error),
            count + 1.96 * error,
        )
        for rows, count in enumerate(pair.rows_of_parents)
    ]
    links = [
        name if column.width == 1 else f"{name} (in {column.size - column.has_null} ranges)"
        for name, column in zip(pair.links, pair.child.columns, strict=False)
    ]
    limit = len(pair.rows_of_parents) - 1
    note = (
        f"Values of {child} follow {', '.join(links)} of their {unit} and nothing else of it. "
        f"How many {child} there are is drawn for each {unit} alike. The catalog allows one {unit} "
        f"at most {limit} {child}: of those with more, {limit} were counted."
    )
    return join([draw_dots(points, f"{unit}s by number of {child}"), write_element("p", note)])
