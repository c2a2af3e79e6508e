"""What the median's error is by the mechanisms' own laws on the table of the work: no run can tell
8% apart from a few answers."""

from __future__ import annotations

import duckdb
import numpy as np
from work import EPSILON, ROWS_PER_OWNER, TOP, table_sql

DRAWS = 20_000


def median_laws(rows: int) -> tuple[float, float]:
    """Root mean squared errors: of the exponential mechanism (exact), of permute-and-flip (OpenDP,
    dither; simulated).

    Both weigh a cent by exp(-missed rows * epsilon / rows per owner); permute-and-flip then takes
    one of all cents that a coin of that chance accepts.
    """
    histogram = duckdb.execute(
        f"SELECT CAST(round(x * 100) AS INTEGER) AS cent, count(*) AS n FROM ({table_sql(rows)}) "
        f"GROUP BY 1"
    ).fetchnumpy()
    counts = np.zeros(int(TOP) * 100 + 1)
    counts[histogram["cent"]] = histogram["n"]
    below = np.cumsum(counts) - counts
    missed = np.maximum(0, np.maximum(below - rows / 2, rows / 2 - below - counts))
    chance = np.exp(-missed * EPSILON / ROWS_PER_OWNER)
    exact = float(duckdb.execute(f"SELECT median(x) FROM ({table_sql(rows)})").fetchall()[0][0])
    gaps = np.arange(len(counts)) / 100 - exact
    draw = np.random.default_rng(0)
    near = np.flatnonzero(chance > 1e-15)
    flipped = [draw.choice(near[draw.random(len(near)) < chance[near]]) for _ in range(DRAWS)]
    return _root(chance / chance.sum() @ gaps**2), _root(np.mean(gaps[flipped] ** 2))


def _root(square: float) -> float:
    return float(square) ** 0.5


if __name__ == "__main__":
    print("exponential mechanism {:.4f}, permute-and-flip {:.4f}".format(*median_laws(1_000_000)))
