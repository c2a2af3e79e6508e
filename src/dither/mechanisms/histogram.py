"""A histogram of which one unit can move only so much.

Each unit's own rows are limited before they are counted.

Each unit keeps its `most_cells` lowest cells (a function of its own rows as a set, no other's) and
at most `most_each` rows in each; then all rows are counted. One unit moves at most most_cells
cells, each by at most most_each; twice as many cells under replace. Proof:
docs/proofs/moments.md#bounded-histograms.

>>> bounded_histogram([[0, 0, 0, 2], [2, 1]], cells=3, most_cells=1, most_each=2)
[2, 1, 0]
>>> histogram_sensitivity(most_cells=1, most_each=2)
Sensitivity(l0=1, l1=2, l2_squared=4, linf=2)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from dither.canonical import quote
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import Neighbours


def histogram_sensitivity(
    most_cells: int, most_each: int, neighbours: Neighbours = "add_remove"
) -> Sensitivity:
    """Compute how far one unit moves the histogram, in each norm."""
    for name, value in (("most_cells", most_cells), ("most_each", most_each)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ParameterError(f"{name} must be a positive integer, got {quote(value)}")
    return Sensitivity.of(
        cells=most_cells * (2 if neighbours == "replace" else 1), largest=most_each
    )


def bounded_histogram(
    units: Iterable[Sequence[int]], *, cells: int, most_cells: int, most_each: int
) -> list[int]:
    """Count rows per cell after the limits of each unit.

    `units` holds the cells of each unit's rows; those off the grid are dropped.
    """
    histogram_sensitivity(most_cells, most_each)
    counts = [0] * cells
    for rows in units:
        own = Counter(cell for cell in rows if 0 <= cell < cells)
        for cell in sorted(own)[:most_cells]:
            counts[cell] += min(own[cell], most_each)
    return counts
