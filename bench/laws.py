"""Noise of today's laws against those of release 0.1, for the same price.

ours: the newest family for a query; base: the one that release 0.1 had. No data is read: these are
figures of the calibrated mechanisms, at epsilon 1 and delta 1e-6 unless a line says otherwise.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from common import line, options, report

from dither.catalog import parse
from dither.laws import find_error_law
from dither.plan.algebra import Keys, LimitGroups, Query, Scan
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
    rows_per_unit: 100
    max_rows: 1000000
    columns:
      person: {type: id}
      code:   {type: category, values: undeclared, width: 12, nulls: drop}
"""
EPSILON = Fraction(1)
DELTA = Fraction(1, 10**6)


def build(query: Query, family: str, catalog: str = CATALOG) -> Any:
    """The mechanism that one family builds for a query at the whole price."""
    request = Request((Step(query, family, Fraction(1)),), Price(EPSILON), "total")
    (step,) = calibrate_request(request, Analyses(parse(catalog)), DELTA)
    return step.mechanism


def key_lines() -> list[dict[str, object]]:
    """Owners that an undeclared key needs to be shown every other time."""
    lines = []
    for catalog in (CATALOG, CATALOG.replace("add_remove", "replace")):
        neighbours = parse(catalog).neighbours
        for groups in (5, 10, 20):
            keys = Keys(LimitGroups(Scan("visits"), ("code",), groups), ("code",))
            owners = [
                find_error_law(build(keys, family, catalog)).size_shown(Fraction(1, 2))
                for family in ("threshold_keys", "geometric_keys")
            ]
            name = f"owners of a key shown every other time, {groups} keys each, {neighbours}"
            lines.append(line(name, *owners, 1.0, unit="owners"))
    return lines


def main() -> None:
    chosen = options(__doc__ or "")
    report("laws", key_lines(), (), as_json=chosen.json)


if __name__ == "__main__":
    main()
