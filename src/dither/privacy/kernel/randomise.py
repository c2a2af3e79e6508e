"""RANDOMISE: from exact integers to what may leave, step by step, with noise from the source of one release.

Unlisted keys are selected first; of all other steps only the cells of selected keys leave. What leaves of a key that is
not selected is nothing: not its values, not its number, not its place in an order (keys leave sorted).
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dither.plan.algebra import Cells, Keys, Plan, Quantiles
from dither.plan.grids import Points
from dither.privacy.kernel.calibrate import Calibrated
from dither.privacy.mechanisms import (
    GaussianKeys,
    IntegerBox,
    IntegerGaussian,
    IntegerLaplace,
    JointQuantiles,
    Quantile,
    QuantilesWithEnds,
    TruncatedGeometricKeys,
)
from dither.privacy.noise import Words

OpenKey: TypeAlias = tuple[str | None, ...]
Exact: TypeAlias = dict[OpenKey, Any]
"""By the values of the unlisted keys: cells by code, owners, or histograms by code; without any, () and all cells."""
Values: TypeAlias = tuple[tuple[Any, ...], ...]
_EMPTY = (np.zeros(0, np.int64), np.zeros(0, np.int64))


def randomise(steps: tuple[Calibrated, ...], exact: list[Exact], source: Words) -> Values:
    """One tuple per step: keys as tuples of labels; numbers by unlisted key, then cell, then column or share."""
    selected: dict[tuple[Plan, tuple[str, ...]], tuple[OpenKey, ...]] = {}
    for each, found in zip(steps, exact, strict=True):
        if isinstance(each.step.query, Keys):
            selected[each.step.query.plan, each.step.query.keys] = _select(each, found, source)
    return tuple(_step(each, found, selected, source) for each, found in zip(steps, exact, strict=True))


def _select(each: Calibrated, owners: Exact, source: Words) -> tuple[OpenKey, ...]:
    keys = sorted(owners, key=lambda labels: [(label is None, label or "") for label in labels])
    counts = np.array([owners[key] for key in keys], np.int64)
    mechanism = each.mechanism
    if isinstance(mechanism, GaussianKeys):
        shown = mechanism.release(counts, source=source)[0]
    else:
        assert isinstance(mechanism, TruncatedGeometricKeys)
        shown = mechanism.release(counts, source=source)
    return tuple(key for key, is_shown in zip(keys, shown, strict=True) if is_shown)


def _step(
    each: Calibrated,
    found: Exact,
    selected: dict[tuple[Plan, tuple[str, ...]], tuple[OpenKey, ...]],
    source: Words,
) -> tuple[Any, ...]:
    query = each.step.query
    if isinstance(query, Keys):
        return selected[query.plan, query.keys]
    keys: tuple[OpenKey, ...] = ((),)
    if each.unlisted:
        keys = selected[query.plan, each.unlisted]
    if isinstance(query, Quantiles):
        return tuple(value for key in keys for value in _quantiles(each, found.get(key, {}), source))
    assert isinstance(query, Cells)
    shape = (each.cells, len(query.columns))
    cells: list[NDArray[Any]] = [dense(found.get(key, {}), shape) for key in keys] if each.unlisted else [found[()]]
    exact = np.concatenate(cells) if cells else np.zeros((0, shape[1]), object)
    if not isinstance(each.mechanism, IntegerBox):  # numbers of one cell share their noise only in a box
        assert isinstance(each.mechanism, (IntegerLaplace, IntegerGaussian))
        exact = exact.ravel()
    noisy = each.mechanism.release(exact, source=source).ravel().tolist()
    return tuple(max(-each.width, min(each.width, value)) for value in noisy)


def dense(cells: dict[int, tuple[int, ...]], shape: tuple[int, int]) -> NDArray[Any]:
    """All declared cells of a selected key; those without rows are 0."""
    dense = np.zeros(shape, object)
    for code, row in cells.items():
        dense[code] = row
    return dense


def _quantiles(each: Calibrated, histograms: dict[int, Any], source: Words) -> list[int]:
    """The values chosen in every cell, in grid integers."""
    points, mechanism = each.points, each.mechanism
    assert isinstance(points, Points)
    values: list[int] = []
    for code in range(each.cells):
        places, counts = histograms.get(code, _EMPTY)
        if isinstance(mechanism, Quantile):
            values.append(points.value(mechanism.release_sparse(places, counts, cells=points.count, source=source)))
        else:
            assert isinstance(mechanism, (JointQuantiles, QuantilesWithEnds))
            chosen = mechanism.release_sparse(places, counts, cells=points.count, source=source)
            values += [points.value(place) for place in chosen]
    return values
