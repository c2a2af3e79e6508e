"""How far one unit moves what a query measures, against what was claimed for it: exact integers of
a dev lineage.

Cells: L0, L1, L2 squared and Linf over all cells and aggregates, those of unlisted keys included (a
key that only one side has counts as zeros on the other). Key selection: owners by key, which one
unit moves by 1 in at most g keys. Quantiles: rows by point of each cell; one unit moves at most g
cells, each by r rows, and k rows in all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from dither.catalog import Catalog
from dither.plan.algebra import Cells, Keys, Quantiles, Query
from dither.plan.facts import Facts
from dither.plan.of_catalog import open_keys, sensitivity, touched

Spot = tuple[Any, ...]  # unlisted keys, the code of the listed ones, and an aggregate or a point


def list_broken_claims(
    query: Query, sides: Sequence[Any], catalog: Catalog, facts: Facts
) -> list[str]:
    """List the claims of a plan that the measured integers of two neighbours break.

    `sides` are two results of `Measurer.measure`.
    """
    if (
        isinstance(query, Cells)
        and not isinstance(sides[0], dict)
        and np.shape(sides[0]) != np.shape(sides[1])
    ):
        return ["the number of cells depends on data"]
    left, right = (flatten_measured(query, side) for side in sides)
    moved = {spot: abs(left.get(spot, 0) - right.get(spot, 0)) for spot in {*left, *right}}
    moved = {spot: size for spot, size in moved.items() if size}
    measured = {
        "l1": sum(moved.values()),
        "l0": len(moved),
        "linf": max(moved.values(), default=0),
        "l2_squared": sum(size * size for size in moved.values()),
    }
    if isinstance(query, Cells):
        claim = sensitivity(query, catalog, facts)
        claimed = {name: getattr(claim, name) for name in measured}
    else:
        reach = touched(query, catalog, facts)
        claimed = {"l0": reach.cells, "l1": reach.cells, "linf": 1}
        if isinstance(query, Quantiles):
            cells: Counter[Spot] = Counter()
            for (key, code, _), size in moved.items():
                cells[key, code] += size
            measured = {
                "rows": measured["l1"],
                "cells": len(cells),
                "rows of a cell": max(cells.values(), default=0),
            }
            claimed = {
                "rows": reach.rows,
                "cells": reach.cells,
                "rows of a cell": reach.rows_per_cell,
            }
    return [
        f"{name} moved by {measured[name]}, claimed {most}"
        for name, most in claimed.items()
        if measured[name] > most
    ]


def flatten_measured(query: Query, measured: Any) -> dict[Spot, int]:
    """Map (unlisted keys, code, aggregate or point) to each measured integer."""
    if isinstance(query, Keys):
        return {(key, 0, 0): int(owners) for key, owners in measured.items()}
    if isinstance(query, Quantiles):
        return {
            (key, code, int(point)): int(rows)
            for key, by_code in measured.items()
            for code, (points, counts) in by_code.items()
            for point, rows in zip(points, counts, strict=True)
        }
    by_key = measured if isinstance(measured, dict) else {(): dict(enumerate(measured))}
    return {
        (key, code, position): int(value)
        for key, by_code in by_key.items()
        for code, row in by_code.items()
        for position, value in enumerate(row)
    }


def describe_query(query: Query, catalog: Catalog, facts: Facts) -> str:
    """Describe in words what was compared."""
    unlisted = " of unlisted keys" if open_keys(query, catalog, facts) else ""
    names: dict[type[Any], str] = {
        Cells: f"cells{unlisted}",
        Quantiles: f"quantile counts{unlisted}",
    }
    return names.get(type(query), "owners of unlisted keys")
