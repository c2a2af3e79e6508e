"""How error falls with users and epsilon: measured on made-up people, beside what the formula says.

Nothing here reads data. `measure` draws a population (shares as 1/rank), randomises and estimates
it, and compares the root mean squared error of the shares with the exact formula. `chart` draws it
on a terminal, both axes logarithmic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10

import numpy as np
from numpy.typing import NDArray

from dither.local.aggregator import Aggregator
from dither.local.support import Oracle
from dither.privacy.noise import SystemSource, Words

_BLOCK = 1 << 17
MARKS = "ox+*#@%&"


def population(domain: int, users: int) -> NDArray[np.int64]:
    """A fixed made-up population whose shares are proportional to 1/rank."""
    shares = 1 / np.arange(1, domain + 1)
    counts: NDArray[np.int64] = np.floor(shares / shares.sum() * users).astype(np.int64)
    counts[0] += users - counts.sum()
    return counts


@dataclass(frozen=True)
class SimulatedErrors:
    """Measured and predicted error of one simulated collection.

    Both are root mean squares over all values, as shares of the users.
    """

    users: int
    measured: float
    predicted: float


def measure(oracle: Oracle, users: int, *, source: Words | None = None) -> SimulatedErrors:
    """Simulate one collection, in blocks of bounded memory."""
    words = source or SystemSource()
    counts = population(oracle.domain, users)
    collector = Aggregator(oracle)
    ends = np.cumsum(counts)
    for start in range(0, users, _BLOCK):
        who = np.arange(start, min(users, start + _BLOCK))
        collector.add_payloads(oracle.randomise(np.searchsorted(ends, who, side="right"), words))
    errors = collector.estimate().values - counts
    predicted = oracle.variances(counts.astype(np.float64), users).mean() ** 0.5
    return SimulatedErrors(
        users, float((errors**2).mean() ** 0.5) / users, float(predicted) / users
    )


def chart(
    lines: Mapping[str, Sequence[SimulatedErrors]], *, width: int = 64, height: int = 16
) -> str:
    """Draw error (down) against users (across) in characters; one mark a line, measured values.

    >>> errors = [SimulatedErrors(100, 0.1, 0.1), SimulatedErrors(10_000, 0.01, 0.01)]
    >>> print(chart({"eps 1": errors}, width=12, height=3))
        0.1 |o
            |
       0.01 |           o
            +------------
             100      1e4  users
      o eps 1
    """
    points = [point for line in lines.values() for point in line]
    xs = [log10(p.users) for p in points]
    ys = [log10(max(p.measured, 1e-12)) for p in points]
    x0 = min(xs)
    x1 = max(xs)
    y0 = min(ys)
    y1 = max(ys)
    rows = [[" "] * width for _ in range(height)]
    for mark, line in zip(MARKS, lines.values(), strict=False):
        for point in line:
            x = round((log10(point.users) - x0) / ((x1 - x0) or 1) * (width - 1))
            y = round((y1 - log10(max(point.measured, 1e-12))) / ((y1 - y0) or 1) * (height - 1))
            rows[y][x] = mark
    texts = []
    for number, row in enumerate(rows):
        label = f"{10**y1:.2g}" if number == 0 else f"{10**y0:.2g}" if number == height - 1 else ""
        texts.append(f"{label:>7} |{''.join(row).rstrip()}")
    low, high = (
        f"{n:g}" if n < 10_000 else f"{n:.0e}".replace("e+0", "e") for n in (10**x0, 10**x1)
    )
    texts += [" " * 8 + "+" + "-" * width, " " * 9 + low + high.rjust(width - len(low)) + "  users"]
    texts += [f"  {mark} {name}" for mark, name in zip(MARKS, lines, strict=False)]
    return "\n".join(texts)
