"""What noise with the hull of (1, x, 2x^2 - 1) for its norm would be worth, beside the box.

docs/proofs/box-noise.md says why it is not built. Both are mixtures of uniform draws from r K with
one law of r, so variances compare like second moments of K. Those of the hull are exact sums over
the simplices that the origin makes with its facets.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial import ConvexHull

BOX = np.eye(3) / 3


def find_hull() -> tuple[float, np.ndarray]:
    """The share of the box's volume, and the second moments of a uniform draw from the hull."""
    x = np.linspace(-1, 1, 41)
    curve = np.stack([np.ones_like(x), x, 2 * x * x - 1], axis=1)
    points = np.vstack([curve, -curve])
    volume = 0.0
    moments = np.zeros((3, 3))
    for facet in ConvexHull(points).simplices:
        corners = points[facet]
        part = abs(np.linalg.det(corners)) / 6
        total = corners.sum(axis=0)
        volume += part
        moments += part * (corners.T @ corners + np.outer(total, total)) / 20
    return volume / 8, moments / volume


def find_deviation(moments: np.ndarray, mean: float, variance: float) -> float:
    """Of VARIANCE times the rows, x in units of half the width of its bounds.

    SUM(x^2) errs by half of what count and third number err by.
    """
    weights = np.array([0.5 - variance + mean**2, -2 * mean, 0.5])
    return float(weights @ moments @ weights) ** 0.5


def test_the_hull_is_smaller_and_its_numbers_are_correlated() -> None:
    share, moments = find_hull()
    assert share == pytest.approx(0.778, abs=0.002)
    assert np.diag(moments) * 3 == pytest.approx([0.94, 0.70, 0.905], abs=0.006)
    assert moments[0, 2] / (moments[0, 0] * moments[2, 2]) ** 0.5 == pytest.approx(0.22, abs=0.01)


@pytest.mark.parametrize(
    ("mean", "variance", "ratio"),
    [(0.0, 1 / 3, 1.015), (0.0, 0.1, 1.056), (-0.5, 0.05, 0.94), (-0.8, 0.02, 0.92)],
)
def test_a_variance_gains_little_or_loses(mean: float, variance: float, ratio: float) -> None:
    _, moments = find_hull()
    found = find_deviation(moments, mean, variance) / find_deviation(BOX, mean, variance)
    assert found == pytest.approx(ratio, abs=0.005)
