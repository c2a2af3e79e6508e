"""Location privacy on generated points: the book's tables 15.8 to 15.10 with a prior of our own.

The book's prior comes from check-ins, which it does not print and we do not ship; ours is three hot
spots over a thin floor (`Plane.hot_spots`). So the counts are shown side by side and not judged:
what carries over is which estimators converge within 75,000 examples and in which order. As in the
book, 100,000 pairs, of which the last quarter is held out. The planar geometric with a *uniform*
prior has a known risk, which is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from dither.audit.leakage.channel import Channel
from dither.audit.leakage.estimate import (
    METHODS,
    Curve,
    Floats,
    Integers,
    Method,
    Trained,
    list_sizes,
)
from dither.audit.leakage.systems import Plane
from dither.audit.leakage.tables import Counts

UNIFORM = {
    2: 0.86277,
    4: 0.65261,
    8: 0.46079,
}  # R* of the planar geometric, uniform prior, by enumeration
PRINTED: dict[tuple[str, str, int], dict[float, Counts]] = {
    ("15.8", "planar geometric", 2): {
        0.1: (None, None, 25795, 1102),
        0.05: (None, None, None, 55480),
    },
    ("15.8", "planar geometric", 4): {
        0.1: (None, None, 36735, 2820),
        0.05: (None, None, None, 59875),
    },
    ("15.8", "planar geometric", 8): {
        0.1: (None, None, 15253, 5244),
        0.05: (None, None, None, 19948),
    },
    ("15.9", "planar Laplace", 2): {0.1: (None, None, None, 259)},
    ("15.9", "planar Laplace", 4): {0.1: (None, None, None, 4008)},
    ("15.9", "planar Laplace", 8): {0.1: (None, None, None, 6135), 0.05: (None, None, None, 19961)},
    ("15.10", "Blahut-Arimoto", 2): {
        0.1: (37, 37, 37, 37),
        0.05: (135, 135, 135, 135),
        0.01: (1671, 1664, 1408, 1408),
        0.005: (6179, 6179, 1671, 1671),
    },
    ("15.10", "Blahut-Arimoto", 4): {
        0.1: (220, 220, 220, 257),
        0.05: (503, 502, 509, 703),
        0.01: (2029, 1986, 2055, 2404),
        0.005: (2197, 2055, 2280, 2658),
    },
    ("15.10", "Blahut-Arimoto", 8): {
        0.1: (345, 401, 553, 1285),
        0.05: (1285, 1170, 1343, 1679),
        0.01: (2104, 2017, 2495, 4190),
        0.005: (2231, 2231, 3881, 6121),
    },
}


@dataclass(frozen=True)
class LocationSystem:
    """One system: R* under our prior, our counts by delta, and how many distinct outputs came."""

    table: str
    name: str
    nu: int
    risk: float
    counts: dict[float, Counts]
    distinct: int

    def to_json(self) -> dict[str, object]:
        """Write the system's counts beside those that the book prints."""
        printed = PRINTED[self.table, self.name, self.nu]
        rows = [
            {"delta": delta, "printed": list(printed[delta]), "ours": list(our_counts)}
            for delta, our_counts in self.counts.items()
        ]
        return {
            "table": self.table,
            "system": f"{self.name}, nu = {self.nu}",
            "risk": self.risk,
            "rows": rows,
            "distinct_outputs": self.distinct,
        }


def reproduce(
    *, pairs: int = 100_000, step: float = 0.1, tick: Callable[[str, float], None] = lambda *_: None
) -> Iterator[LocationSystem]:
    """Run every system of tables 15.8 to 15.10 once, and yield its figures."""
    for (table, name, nu), printed in PRINTED.items():
        plane = Plane(nu)
        prior = plane.hot_spots
        truth, secrets, points = _draw_pairs(plane, name, prior, pairs)
        tick_system = partial(tick, f"{name} {nu}")
        lines = curves(secrets, points, len(plane.secret_centres), step, tick_system)
        counts = {
            delta: tuple(lines[method].converged(truth, delta) for method in METHODS)
            for delta in printed
        }
        yield LocationSystem(table, name, nu, truth, counts, len(np.unique(points, axis=0)))


def _draw_pairs(
    plane: Plane, name: str, prior: Floats, pairs: int
) -> tuple[float, Integers, Floats]:
    """Draw secrets and outputs of a system; return its exact risk R* too."""
    if name == "planar geometric":
        return plane.risk_of_geometric(prior), *plane.geometric_pairs(pairs, prior)
    if name == "planar Laplace":
        return plane.risk_of_laplace(prior), *plane.laplace_pairs(pairs, prior)
    matrix = plane.blahut_arimoto(prior)
    return Channel(matrix, prior).bayes_risk, *plane.channel_pairs(matrix, pairs, prior)


def curves(
    secrets: Integers,
    points: Floats,
    kinds: int,
    step: float,
    tick: Callable[[float], None] = lambda _: None,
) -> dict[Method, Curve]:
    """Compute the error on the last quarter of the pairs as the examples from the others grow."""
    train = len(secrets) * 3 // 4
    grid = list_sizes(5, train, step)
    risks: dict[Method, list[float]] = {method: [] for method in METHODS}
    for size in grid:
        trained = Trained(secrets[:size], points[:size], kinds)
        for method in METHODS:
            risks[method].append(
                float((trained.guess(method, points[train:], size) != secrets[train:]).mean())
            )
        tick(1 / len(grid))
    return {
        method: Curve(method, tuple(grid), tuple(method_risks))
        for method, method_risks in risks.items()
    }
