"""Multiplicative weights: a model of cells that is fitted to noisy counts of sets of cells.

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


def fit_weights(
    model: Floats, rows: float, counted: Sequence[CountedCells], *, sweeps: int
) -> Floats:
    """The model after so many passes over all counts: each is made exact by the least change in
    relative entropy, which multiplies the cells inside and those outside by one number each.

    The model keeps `rows` in all. A count that no model with positive cells can have is taken for
    the nearest that one can.
    """
    for _ in range(sweeps):
        for cells, noisy in counted:
            share = min(max(noisy / rows, _LEAST_SHARE), 1 - _LEAST_SHARE)
            inside = float(model[cells].sum()) / rows
            if _LEAST_SHARE / 2 < inside < 1 - _LEAST_SHARE / 2:
                model = model * np.where(cells, share / inside, (1 - share) / (1 - inside))
    return model
