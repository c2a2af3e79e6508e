"""DPBench's lines at epsilon 0.1 by clusters of like counts (AHP) and by MWEM.

Called by `dpbench.py`. Clusters are for single cells: their errors are held against identity, and
against blocks by deviation, whose own cells are compared too; for ranges they are held against the
choice, which they are no rival of. MWEM is held against the best fixed strategy for the same
prefixes. Comparisons without a target of the design say so and have none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import cache
from math import exp, log, sqrt
from typing import Any

import numpy as np
from common import line

from dither.privacy import noise
from dither.privacy.mechanisms.score_selection import ScoreSelection
from dither.workloads.clustered_histogram import (
    FIRST_SHARE,
    THRESHOLD,
    cluster_cells,
    find_most_scattered,
)
from dither.workloads.line_strategies import choose_line
from dither.workloads.multiplicative_weights import CountedCells, fit_weights
from dither.workloads.mwem import _SWEEPS, CHOICE_SHARE, SCALE, TOTAL_SHARE

ROUNDS = 10


def count_in_clusters(counts: Any, epsilon: Fraction) -> Any:
    """Every cell by what `con.clustered_histogram` does."""
    first = 1 / (epsilon * FIRST_SHARE)
    second = 1 / (epsilon * (1 - FIRST_SHARE))
    clusters = cluster_cells(
        (counts + noise.discrete_laplace(first, counts.shape)).tolist(),
        threshold=THRESHOLD * float(first),
        variance=2 * float(second) ** 2,
        most_scattered=find_most_scattered(len(counts)),
    )
    cells = np.zeros(len(counts))
    drawn = noise.discrete_laplace(second, (len(clusters),))
    for cluster, error in zip(clusters, drawn, strict=True):
        cells[cluster] = (counts[cluster].sum() + error) / len(cluster)
    return cells


def fit_prefixes(counts: Any, epsilon: Fraction, rounds: int = ROUNDS) -> Any:
    """Every cell by what `con.mwem(prefixes(...))` does."""
    sums = counts.cumsum()
    drawn = int(noise.discrete_laplace(1 / (epsilon * TOTAL_SHARE), ())[()])
    rows = max(1, int(sums[-1]) + drawn)
    price = epsilon * (1 - TOTAL_SHARE) / rounds
    choice = ScoreSelection(price * CHOICE_SHARE, SCALE)
    scale = 1 / (price * (1 - CHOICE_SHARE))
    model = np.full(len(counts), rows / len(counts))
    counted: list[CountedCells] = []
    left = list(range(len(counts)))
    for _ in range(rounds):
        gaps = np.abs(SCALE * sums - np.rint(SCALE * model.cumsum()).astype(np.int64))
        position = left.pop(choice.release(gaps[left].tolist()))
        noisy = int(sums[position]) + int(noise.discrete_laplace(scale, ())[()])
        counted.append((np.arange(len(counts)) <= position, float(noisy)))
        model = fit_weights(model, rows, counted, sweeps=_SWEEPS)
    return model


def find_mean(errors: Iterable[float]) -> float:
    """The geometric mean."""
    return exp(float(np.mean([log(error) for error in errors])))


def find_cell_error(errors: Any) -> float:
    """The root mean squared error."""
    return float(sqrt((errors**2).mean()))


@cache
def find_fixed_error(size: int) -> float:
    """The root mean squared error of prefixes by the best fixed strategy at epsilon 1."""
    return sqrt(2 * choose_line({"prefixes": 1.0}, size, "laplace")[0].score / size)


def measure_steps(
    drawn: list[Any],
    name: str,
    epsilon: Fraction,
    count_blocks: Callable[[Any], Any],
    choose: Callable[[Any], Any],
    find_range_error: Callable[[Any], float],
) -> list[dict[str, object]]:
    """Clusters and MWEM on drawn tables; `choose` is what `con.adaptive_ranges` does."""
    clusters = [count_in_clusters(counts, epsilon) - counts for counts in drawn]
    cells = find_mean(map(find_cell_error, clusters))
    sums = find_mean(map(find_range_error, clusters))
    blocks = find_mean(find_cell_error(count_blocks(counts) - counts) for counts in drawn)
    chosen = find_mean(find_range_error(choose(counts) - counts) for counts in drawn)
    model = find_mean(
        find_cell_error((fit_prefixes(counts, epsilon) - counts).cumsum()) for counts in drawn
    )
    fixed = find_fixed_error(len(drawn[0])) / float(epsilon)
    return [
        line(
            f"single cells by clusters against identity, {name}",
            cells,
            sqrt(2) / float(epsilon),
            1,
            unit="",
        ),
        compare(f"single cells by clusters against blocks by deviation, {name}", cells, blocks),
        compare(f"ranges by clusters against the choice, {name}", sums, chosen),
        compare(f"prefixes by MWEM against the best fixed strategy, {name}", model, fixed),
    ]


def compare(name: str, measured: float, base: float) -> dict[str, object]:
    """A line without a target."""
    return line(name, measured, base, 1, unit="") | {"target": None, "ok": None}
