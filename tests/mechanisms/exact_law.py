"""The exact joint law of a quantile mechanism, read off its own code: every race and every uniform
place is a branch.

What the code hands to the race (scores, weights, scale) is taken as it is; no score is computed
here. Rows are not spread inside a cell: the proof holds given those coins.
"""

from __future__ import annotations

import math
from functools import cache
from unittest import mock

import numpy as np

from dither.privacy.mechanisms import quantile, quantiles


class _Branches:
    """Replays a program, each time along another path of its choices."""

    def __init__(self) -> None:
        self.path: list[tuple[int, int]] = []  # (taken, of)
        self.at, self.chance = 0, 1.0

    def choose(self, chances: list[float]) -> int:
        live = [i for i, p in enumerate(chances) if p > 0]
        if self.at == len(self.path):
            self.path.append((0, len(live)))
        taken = self.path[self.at][0]
        self.at += 1
        self.chance *= chances[live[taken]]
        return live[taken]

    def next(self) -> bool:
        while self.path and self.path[-1][0] + 1 == self.path[-1][1]:
            self.path.pop()
        if not self.path:
            return False
        taken, of = self.path[-1]
        self.path[-1] = (taken + 1, of)
        self.at, self.chance = 0, 1.0
        return True


def laws(release) -> dict:
    """Outputs of `release()` with their probabilities."""
    branches = _Branches()

    def race(scores, scale, *, weights, source):
        sizes = [
            int(w) * math.exp(float(int(s) / scale)) for s, w in zip(scores, weights, strict=True)
        ]
        return branches.choose([size / sum(sizes) for size in sizes])

    def place(count, *, source):
        return branches.choose([1 / count] * count)

    found: dict = {}
    with (
        mock.patch.object(quantile, "argmax_gumbel", race),
        mock.patch.object(quantile, "uniform_below", place),
        mock.patch.object(quantile, "decide", return_value=False),
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
