"""What the oracle says of histograms and unlisted keys, and the engine's two ways of counting."""

from __future__ import annotations

import datetime
from collections import Counter
from fractions import Fraction as F

import numpy as np

from dither.audit import naive
from dither.audit.naive_vectors import add_vectors
from dither.data.lower import cells
from dither.plan import algebra as a
from dither.plan.analyse import analyse
from dither.plan.of_catalog import key_domains, open_keys, points_of
from tests.datasets import hospital


def histogram(both, query) -> Counter:
    """What a histogram must hold, by the oracle: (open keys, code) and point."""
    columns = analyse(query.plan, both.catalog, both.facts).columns
    points = points_of(query, both.catalog, both.facts)
    unlisted = open_keys(query, both.catalog, both.facts)
    domains = {d.column: d for d in key_domains(query, both.catalog, both.facts)}
    found: Counter = Counter()
    for _, row in naive.naive_rows(query.plan, both.oracle):
        if row[query.column] is None:
            continue
        code = 0
        for key, domain in domains.items():
            at = domain.size if row[key] is None else _grid(row[key], columns[key]) - domain.first
            assert 0 <= at < domain.codes
            code = code * domain.codes + at
        place = (_grid(row[query.column], columns[query.column]) - points.low) // points.step
        found[tuple(None if row[k] is None else str(row[k]) for k in unlisted), code, place] += 1
    return found


def _grid(value, domain) -> int:
    if domain.kind == "category":
        return domain.labels.index(str(value))
    value = hospital.plain(value)
    if isinstance(value, tuple):
        return value[1]
    if isinstance(value, datetime.date):
        return (value - datetime.date(1970, 1, 1)).days
    at = F(value) / domain.step
    assert at.denominator == 1
    return int(at)


def engine_histogram(both, query) -> Counter:
    found: Counter = Counter()
    for labels, by_code in both.measurer.measure(query, both.sample_key).items():
        for code, (places, counts) in by_code.items():
            assert np.all(np.diff(places) > 0)
            for place, count in zip(places.tolist(), counts.tolist(), strict=True):
                found[labels, code, place] += count
    return found


def both_ways(both, query) -> None:
    """Counted in an array, and by the engine's groups: as the oracle says."""
    wanted = histogram(both, query)
    assert engine_histogram(both, query) == wanted, query
    most = cells.MOST_SPOTS
    compiled = dict(both.measurer._compiled)
    cells.MOST_SPOTS = 0
    both.measurer._compiled.clear()  # what was compiled counts in an array
    try:
        assert engine_histogram(both, query) == wanted, query
    finally:
        cells.MOST_SPOTS = most
        both.measurer._compiled.update(compiled)


def open_cells(both, query) -> dict:
    """Cells of unlisted keys by the oracle, as the measurer gives them."""
    columns = analyse(query.plan, both.catalog, both.facts).columns
    unlisted = open_keys(query, both.catalog, both.facts)
    domains = {d.column: d for d in key_domains(query, both.catalog, both.facts)}
    steps = [columns[one.column].step if isinstance(one, a.Sum) else F(1) for one in query.columns]
    found: dict = {}
    for key, values in naive.grouped(query, both.oracle).items():
        row, code = dict(zip(query.keys, key, strict=True)), 0
        for name, domain in domains.items():
            at = (
                domain.size if row[name] is None else _grid(row[name], columns[name]) - domain.first
            )
            code = code * domain.codes + at
        mine = found.setdefault(tuple(row[name] for name in unlisted), {})
        mine[code] = tuple(int(value / step) for value, step in zip(values, steps, strict=True))
    return found


def owners_of_keys(both, query: a.Keys) -> dict:
    found: dict = {}
    for owner, row in naive.naive_rows(query.plan, both.oracle):
        found.setdefault(tuple(row[key] for key in query.keys), set()).add(owner)
    return {key: len(owners) for key, owners in found.items()}


def vectors_of(both, query: a.UnitVectors) -> list[int]:
    """The sum of the units' vectors by the oracle, from the rows of the naive evaluator."""
    columns = analyse(query.plan, both.catalog, both.facts).columns
    read = {getattr(part, "column", None) for part in query.features}
    read.add(getattr(query.function, "label", None))
    rows = [
        (
            str(owner),
            {
                name: None if row[name] is None else _grid(row[name], columns[name])
                for name in read - {None}
            },
        )
        for owner, row in naive.naive_rows(query.plan, both.oracle)
    ]
    return add_vectors(query, rows, columns)
