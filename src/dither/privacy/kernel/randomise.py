"""RANDOMISE: from exact integers to what may leave, step by step.

The noise comes from the source of one release.

Unlisted keys are selected first; of all other steps only the cells of selected keys leave. What
leaves of a key that is not selected is nothing: not its values, not its number, not its place in an
order (keys leave sorted). A selection that counts (`CountedKeys`) releases each key that it shows
with the noisy number of owners that was compared, as a text after the labels.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dither.plan.algebra import Keys, Plan, Quantiles
from dither.plan.grids import Points
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.mechanisms.gaussian_keys import CountedKeys
from dither.privacy.mechanisms.protocol import SparseHistogram
from dither.privacy.noise import Words

OpenKey: TypeAlias = tuple[str | None, ...]
Exact: TypeAlias = dict[OpenKey, Any]
"""By the values of the unlisted keys: cells by code, owners, or histograms by code; without any, ()
and all cells."""
Values: TypeAlias = tuple[tuple[Any, ...], ...]
_EMPTY = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def randomise(steps: tuple[Calibrated, ...], exact: list[Exact], source: Words) -> Values:
    """Add noise to all steps; the result has one tuple per step.

    Keys are tuples of labels. Numbers come by unlisted key, then cell, then column or share.
    """
    selected: dict[tuple[Plan, tuple[str, ...]], dict[OpenKey, int]] = {}
    for calibrated, owners in zip(steps, exact, strict=True):
        query = calibrated.step.query
        if isinstance(query, Keys):
            selected[query.plan, query.keys] = _select(calibrated, owners, source)
    return tuple(
        _release_step(calibrated, numbers, selected, source)
        for calibrated, numbers in zip(steps, exact, strict=True)
    )


def _select(calibrated: Calibrated, owners: Exact, source: Words) -> dict[OpenKey, int]:
    """Choose the keys that may be shown, from the exact number of units of each key.

    Each has what the mechanism said of it: 1, or its noisy count. Keys are sorted first, so that
    the order of the answer tells nothing about the rows.
    """
    keys = sorted(owners, key=lambda labels: [(label is None, label or "") for label in labels])
    counts = np.array([owners[key] for key in keys], np.int64)
    choices = calibrated.mechanism.release_exact(counts, source)
    return {key: choice for key, choice in zip(keys, choices, strict=True) if choice}


def _release_step(
    calibrated: Calibrated,
    exact: Exact,
    selected: dict[tuple[Plan, tuple[str, ...]], dict[OpenKey, int]],
    source: Words,
) -> tuple[Any, ...]:
    """Compute what one step releases from its exact integers.

    `selected` has the keys that were released for each (rows, key columns). They are the answer
    of a step for keys, and the cells of a step over such keys.
    """
    query = calibrated.step.query
    if isinstance(query, Keys):
        chosen = selected[query.plan, query.keys]
        if isinstance(calibrated.mechanism, CountedKeys):
            return tuple((*key, str(count)) for key, count in chosen.items())
        return tuple(chosen)
    keys: tuple[OpenKey, ...] = ((),)
    if calibrated.unlisted:
        keys = tuple(selected[query.plan, calibrated.unlisted])
    if isinstance(query, Quantiles):
        return tuple(
            value
            for key in keys
            for value in _release_quantiles(calibrated, exact.get(key, {}), source)
        )
    numbers = _cells_of(calibrated, exact, keys, len(calibrated.widths))
    noisy = calibrated.mechanism.release_exact(numbers, source)
    return tuple(max(-calibrated.width, min(calibrated.width, value)) for value in noisy)


def _cells_of(
    calibrated: Calibrated, exact: Exact, keys: tuple[OpenKey, ...], columns: int
) -> NDArray[Any]:
    """Collect the exact numbers that get noise: one row for each cell, one column a number.

    These are all declared cells; where keys are unlisted, those of selected keys alone.
    """
    if not calibrated.unlisted:
        cells: NDArray[Any] = exact[()]
        return cells
    if not keys:
        return np.zeros((0, columns), object)
    return np.concatenate([dense(exact.get(key, {}), (calibrated.cells, columns)) for key in keys])


def dense(cells: dict[int, tuple[int, ...]], shape: tuple[int, int]) -> NDArray[Any]:
    """Fill a table of all declared cells of one selected key.

    `cells` maps the code of a cell to its numbers; cells without rows are 0.
    """
    dense = np.zeros(shape, object)
    for code, row in cells.items():
        dense[code] = row
    return dense


def _release_quantiles(
    calibrated: Calibrated, histograms: dict[int, Any], source: Words
) -> list[int]:
    """Draw the quantiles of every cell, as grid integers, one cell after the other.

    `histograms` maps the code of a cell to its points and their counts.
    """
    points = calibrated.points
    assert isinstance(points, Points)
    values: list[int] = []
    for code in range(calibrated.cells):
        cells, counts = histograms.get(code, _EMPTY)
        histogram = SparseHistogram(cells, counts, points.count)
        values += [
            points.value(cell) for cell in calibrated.mechanism.release_exact(histogram, source)
        ]
    return values
