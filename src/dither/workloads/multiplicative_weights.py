"""Multiplicative weights: fit a model of cells to noisy counts of sets of cells.

>>> model = np.full(4, 25.0)
>>> halves = [(np.array([True, True, False, False]), 80.0)]
>>> fit_weights(model, 100, halves, sweeps=1).round(6).tolist()
[40.0, 40.0, 10.0, 10.0]
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from dither.workloads.lines import Floats

CountedCells = tuple[NDArray[np.bool_], float]
"""Which cells were counted together, and their noisy count."""
_LEAST_SHARE = 1e-6
"""Shares of all rows are kept this far from 0 and 1, so that no cell becomes 0."""


def fit_weights(
    model: Floats, rows: float, counted: Sequence[CountedCells], *, sweeps: int
) -> Floats:
    """Fit a model to noisy counts, in `sweeps` passes over all of them, and return the new model.

    One count after the other is made exact. Of all changes that do so, the one with the least
    relative entropy to the model is taken: it multiplies the counted cells by one number, and all
    other cells by another. The sum of all cells stays `rows`. A count near or below 0, or near or
    above `rows`, is replaced by the nearest one that leaves all cells positive. A count is skipped
    where the model has nearly none or nearly all rows in its cells.
    """
    for _ in range(sweeps):
        for cells, noisy in counted:
            share = min(max(noisy / rows, _LEAST_SHARE), 1 - _LEAST_SHARE)
            inside = float(model[cells].sum()) / rows
            if _LEAST_SHARE / 2 < inside < 1 - _LEAST_SHARE / 2:
                model = model * np.where(cells, share / inside, (1 - share) / (1 - inside))
    return model
