"""The exact joint law of a quantile mechanism, read off its own code: every choice is a branch.

The levels that the code finds, and the chance with which it keeps a proposal, are taken as they
are; no score is computed here. Rows are not spread inside a cell: the proof holds given those
coins.
"""

from __future__ import annotations

import math
from functools import cache
from unittest import mock

import numpy as np

from dither.privacy.mechanisms import quantile, quantile_ends, quantiles
from tests.mechanisms.level_law import Branches, list_cells, weight_law


def laws(release) -> dict:
    """Outputs of `release()` with their probabilities."""
    branches = Branches()

    def choose(grid, q, scale, source, shift=0, draw=quantile.by_weight):
        assert draw is quantile.by_weight
        levels = quantile.list_levels(grid, q, scale, shift)
        return list_cells(levels)[branches.choose(weight_law(levels))]

    found: dict = {}
    with (
        mock.patch.object(quantile, "choose", choose),
        mock.patch.object(quantile_ends, "choose", choose),
        mock.patch.object(quantiles, "choose", choose),
        mock.patch.object(quantiles, "_HALVINGS", 0),
        mock.patch.object(quantiles, "spread_rows", lambda held, rows, _: (held, rows)),
    ):
        while True:
            out = release()
            out = tuple(out) if isinstance(out, list) else out
            found[out] = found.get(out, 0.0) + branches.chance
            if not branches.next():
                return found


@cache
def law(mechanism, counts: tuple[int, ...]) -> dict:
    """The law of one cell's answers, for a histogram over the whole grid."""
    rows = np.array(counts, np.int64)
    held = np.flatnonzero(rows)
    found = laws(lambda: mechanism.release_sparse(held, rows[held], cells=len(counts)))
    assert abs(sum(found.values()) - 1) < 1e-9
    return found


@cache
def ratios(
    mechanism, one: tuple[int, ...], two: tuple[int, ...], orders: tuple[float, ...] = ()
) -> tuple:
    """(largest, least log-ratio, Renyi divergences at the orders) of one cell."""
    p, q = law(mechanism, one), law(mechanism, two)
    assert p.keys() == q.keys()
    logs = [math.log(p[out] / q[out]) for out in p]
    renyi = [math.log(sum(p[o] ** a * q[o] ** (1 - a) for o in p)) / (a - 1) for a in orders]
    return max(logs), min(logs), tuple(renyi)
