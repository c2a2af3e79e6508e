"""Noise of today's laws against those of release 0.1, for the same price.

ours: the newest family for a query; base: the one that release 0.1 had. No data is read: these are
figures of the calibrated mechanisms, at epsilon 1 and delta 1e-6 unless a line says otherwise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from common import line, options, report

from dither.catalog import Catalog, parse
from dither.laws import find_error_law
from dither.plan.algebra import (
    Cells,
    Count,
    CountUnits,
    Keys,
    LimitGroups,
    Quantiles,
    Query,
    Scan,
    Sum,
)
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.calibrate import calibrate_request
from dither.privacy.kernel.request import Price, Request, Step

CATALOG = """\
dither: 1
dataset: bench
lineage: bench
population: nobody
neighbours: add_remove
unit: {kind: person}
people: {person: {protected: true}}
source: {engine: csv, location: .}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: person}
    unique: []
    rows_per_unit: {rows}
    max_rows: 1000000
    columns:
      person: {type: id}
      code:   {type: category, values: undeclared, width: 12, nulls: drop}
      ward:   {type: category, values: [a, b, c], other: drop, nulls: drop}
      cost:   {type: integer, bounds: [0, 100], nulls: drop, provenance: invented}
"""
EPSILON = Fraction(1)
DELTA = Fraction(1, 10**6)
QUARTILES = (Fraction(1, 4), Fraction(1, 2), Fraction(3, 4))


def make_catalog(neighbours: str, rows: int) -> Catalog:
    """The catalog with these neighbours and so many rows of one person."""
    text = CATALOG.replace("add_remove", neighbours).replace("{rows}", str(rows))
    return parse(text)


def build(query: Query, family: str, catalog: Catalog) -> list[Any]:
    """The mechanism of each number that one family builds for a query at the whole price."""
    steps = (Step(query, family, Fraction(1)),)
    if family == "laplace":
        numbers = range(len(query.columns)) if isinstance(query, Cells) else ()
        steps = tuple(Step(query, family, Fraction(1), (number,)) for number in numbers)
    request = Request(steps, Price(EPSILON), "total")
    return [step.mechanism for step in calibrate_request(request, Analyses(catalog), DELTA)]


def key_lines() -> list[dict[str, object]]:
    """Owners that an undeclared key needs to be shown every other time."""
    lines = []
    for neighbours in ("add_remove", "replace"):
        for groups in (5, 10, 20):
            keys = Keys(LimitGroups(Scan("visits"), ("code",), groups), ("code",))
            owners = [
                find_error_law(build(keys, family, make_catalog(neighbours, 100))[0]).size_shown(
                    Fraction(1, 2)
                )
                for family in ("threshold_keys", "geometric_keys")
            ]
            name = f"owners of a key shown every other time, {groups} keys each, {neighbours}"
            lines.append(line(name, *owners, 1.0, unit="owners"))
    return lines


def box_lines() -> list[dict[str, object]]:
    """95% half-widths of numbers that share a noise."""
    people = Cells(Scan("visits"), (), (CountUnits(), Count()))
    costs = Cells(Scan("visits"), (), (Count(), Sum("cost")))
    level = Fraction(95, 100)
    lines = []
    for number, name in enumerate(("people", "rows")):
        catalog = make_catalog("add_remove", 3)
        (box,) = build(people, "unit_box", catalog)
        laplace = build(people, "laplace", catalog)[number]
        widths = [
            find_error_law(box, number).interval(level),
            find_error_law(laplace).interval(level),
        ]
        lines.append(line(f"+- of {name}, people beside their 3 rows", *widths, 0.7, unit=""))
    catalog = make_catalog("replace", 1)
    variances = [
        find_error_law(build(costs, family, catalog)[0]).variance for family in ("unit_box", "box")
    ]
    lines.append(line("variance of a count beside a sum, replace", *variances, 0.26, unit=""))
    return lines


def quantile_lines() -> list[dict[str, object]]:
    """Scales of ranks by group, in rows, where one person is replaced."""
    catalog = make_catalog("replace", 10)
    cases = {"the median": (Fraction(1, 2),), "three quartiles": QUARTILES}
    lines = []
    for name, shares in cases.items():
        query = Quantiles(Scan("visits"), ("ward",), "cost", shares)
        scales = [
            float(find_error_law(build(query, family, catalog)[0]).row_scale)
            for family in ("exponential_by_rows", "exponential")
        ]
        lines.append(line(f"scale of ranks of {name} by group, replace", *scales, 0.5, unit="rows"))
    return lines


def main() -> None:
    chosen = options(__doc__ or "")
    lines = key_lines() + box_lines() + quantile_lines()
    report("laws", lines, (), as_json=chosen.json)


if __name__ == "__main__":
    main()
