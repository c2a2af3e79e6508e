"""Histograms of clusters: cells with like counts are counted together, neighbours or not.

There are two steps (AHP of Zhang, Chen, Xu, Meng and Xie, 2014).

1. Seven tenths of the price count every cell. Noisy counts near 0 are taken for 0. The cells are
   sorted by their noisy counts, and the sorted line is cut into clusters. The cells of a large
   cluster differ more from each other; the cells of a small one have more noise. The cuts with the
   least sum of both errors are taken.
2. The rest of the price counts the clusters. The count of a cluster is spread evenly over its
   cells.

The clusters follow from the first release alone. The counts of the first step are not used again: a
cell is in its cluster *because* of its first noise, so an average with that count would be biased.
Proof: docs/proofs/adaptive-steps.md#clusters.

>>> cluster_cells([0, 1, 90, 0, 88], threshold=5.0, variance=8.0, most_scattered=2)
[[2, 4], [0, 1, 3]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dither.answer.intervals import read_level
from dither.canonical import Number
from dither.errors import RefusedError
from dither.plan.algebra import Linear
from dither.plan.operators import MOST_ENTRIES, Dense, Identity, LinearOperator, Ranges, Stack
from dither.privacy.charges.rules import Charge
from dither.privacy.kernel.kernel import Priced
from dither.privacy.kernel.request import Price
from dither.rules import PrivacyRule
from dither.workloads.adaptive_histogram import sum_cells_between
from dither.workloads.ask_steps import (
    StepAsker,
    StepBuyer,
    StepCertifier,
    find_noise_law,
    find_variance,
    sign_tables,
    write_price,
)
from dither.workloads.bind import BoundWorkload
from dither.workloads.language import identity
from dither.workloads.lines import Floats
from dither.workloads.result import list_keys_of

FIRST_SHARE = Fraction(7, 10)
"""The share of the price that counts every cell."""
THRESHOLD = 1
"""Noisy counts of at most this many noise scales are taken for 0. This number and FIRST_SHARE were
chosen among 15 settings, by errors of single cells of generated lines
(bench/generated_shapes.py)."""
MOST_CELLS = 8192
MOST_SCATTERED = 100
"""The most clusters with gaps, however few cells there are."""
Cluster = list[int]
"""The positions of the cells of a cluster."""


@dataclass(frozen=True)
class ClusteredPreview:
    """Price and noise of a clustered histogram. How many clusters there will be is not known."""

    charge: Charge
    pot: str
    noise: str
    cluster_half_width: float
    """Half the width of the interval of every cluster's count."""
    stored: bool
    """Whether the first step was released before. A stored step costs nothing again."""
    confidence: Fraction

    def __str__(self) -> str:
        return "\n".join(
            (
                write_price(self.charge, self.pot) + (", first step stored" if self.stored else ""),
                self.noise,
                f"every cluster +- {self.cluster_half_width:,.4g}",
            )
        )

    __repr__ = __str__


@dataclass(frozen=True)
class AskedClusters:
    """A clustered histogram at a price. Nothing is read or spent before `answer`."""

    bound: BoundWorkload
    epsilon: Fraction
    confidence: Number
    _asker: StepAsker

    @property
    def _cells(self) -> int:
        """How many cells there are."""
        return prod(self.bound.sizes[column] for column in self.bound.columns)

    @cached_property
    def first(self) -> Priced:
        """The request that counts every cell, priced."""
        return self._price(Identity(self._cells), self.epsilon * FIRST_SHARE)

    def _price_clusters(self, clusters: Sequence[Cluster]) -> Priced:
        """The request that counts these clusters, priced."""
        return self._price(
            make_cluster_operator(clusters, self._cells), self.epsilon * (1 - FIRST_SHARE)
        )

    def _price(self, operator: LinearOperator, epsilon: Fraction) -> Priced:
        query = Linear(self.bound.make_cells(self.bound.columns), operator)
        return self._asker.price(query, "linear_laplace", Price(epsilon))

    @property
    def _single_cluster(self) -> Priced:
        """The request that counts one cluster of all cells, priced.

        Clusters do not overlap, so every list of clusters has this price and this noise.
        """
        return self._price_clusters([list(range(self._cells))])

    def preview(self) -> ClusteredPreview:
        """Price and noise. Reads no data and spends nothing."""
        second = self._single_cluster
        level = read_level(self.confidence)
        return ClusteredPreview(
            self._asker.quote([self.first, second]),
            self._asker.pot,
            f"every cell, then clusters: {second.steps[0].mechanism.describe()}",
            float(find_noise_law(second).interval(level)),
            self._asker.curator.has_answer(self.first),
            level,
        )

    def answer(self) -> ClusteredHistogram:
        """Charge the pot for both steps and release. Asked again it is free, and the same."""
        buyer = StepBuyer(self._asker, [self.first, self._single_cluster])
        first = buyer.release(self.first)
        scale = (find_variance(self.first) / 2) ** 0.5
        clusters = cluster_cells(
            first.values[0],
            threshold=THRESHOLD * scale,
            variance=find_variance(self._single_cluster),
            most_scattered=find_most_scattered(self._cells),
        )
        second = self._price_clusters(clusters)
        release = buyer.release(second)
        level = read_level(self.confidence)
        strategy = f"{len(clusters):,} clusters of like counts"
        releases = (first, release)
        return ClusteredHistogram(
            self._asker.describe_releases(releases, self.bound.recipe) | {"strategy": strategy},
            self.bound,
            tuple(map(tuple, clusters)),
            tuple(float(count) for count in release.values[0]),
            float(find_noise_law(second).interval(level)),
            _certifier=StepCertifier(self._asker, releases, self.bound.recipe, strategy),
        )


@dataclass(frozen=True)
class ClusteredHistogram:
    """Clusters of cells with their noisy counts.

    Intervals of clusters hold as often as they say. Inside a cluster rows are spread evenly, and
    how far that is from the truth is not known.
    """

    info: dict[str, Any]
    bound: BoundWorkload = field(repr=False)
    clusters: tuple[tuple[int, ...], ...] = field(repr=False)
    """The cells of every cluster, counted with the last column fastest."""
    counts: tuple[float, ...] = field(repr=False)
    half_width: float = 0.0
    biased: bool = True
    notes: tuple[str, ...] = (
        "rows are spread evenly inside a cluster: cells and their sums have no interval",
    )
    _certifier: StepCertifier | None = field(default=None, repr=False, compare=False)

    def expand(self) -> Floats:
        """Estimate every cell, in one axis for each column: a cluster's count is spread evenly."""
        cells = np.zeros(prod(self.bound.sizes[column] for column in self.bound.columns))
        for cluster, count in zip(self.clusters, self.counts, strict=True):
            cells[list(cluster)] = count / len(cluster)
        return cells.reshape([self.bound.sizes[column] for column in self.bound.columns])

    def count_between(self, **ranges: tuple[Any, Any]) -> float:
        """The estimated rows with values in these ranges, ends included, by column."""
        return sum_cells_between(self.bound, self.expand(), ranges)

    def to_arrow(self) -> pa.Table:
        """One row for each cell: its keys, its estimate, and the number of its cluster."""
        (every,) = identity(*self.bound.columns).products
        numbers = np.zeros(self.expand().size, np.int64)
        for number, cluster in enumerate(self.clusters):
            numbers[list(cluster)] = number
        estimates = {self.bound.value_name: pa.array(self.expand().ravel())}
        keys = list_keys_of(self.bound, every)
        return pa.table(keys | estimates | {"cluster": pa.array(numbers)})

    def list_clusters(self) -> pa.Table:
        """One row for each cluster: its number of cells, its count and interval."""
        counts = np.array(self.counts)
        name = self.bound.value_name
        return pa.table(
            {
                "cluster": np.arange(len(counts)),
                "cells": [len(cluster) for cluster in self.clusters],
                name: counts,
                f"{name}_low": counts - self.half_width,
                f"{name}_high": counts + self.half_width,
            }
        )

    def to_dict(self) -> dict[str, list[Any]]:
        """`to_arrow` as lists."""
        return dict(self.to_arrow().to_pydict())

    def to_pandas(self) -> Any:
        """`to_arrow` as a data frame of pandas."""
        return self.to_arrow().to_pandas()

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """The signed certificate: it names both releases, and what they cost together."""
        return sign_tables(self._certifier, self.to_dict(), self.notes, file)


def cluster_cells(
    noisy: Sequence[int], *, threshold: float, variance: float, most_scattered: int
) -> list[Cluster]:
    """Put cells with like noisy counts into clusters, the largest counts first.

    Counts of at most `threshold` are taken for 0, and the sorted counts are cut where that has the
    least error. The error of a cluster of k cells is the squared distances of its counts from their
    mean, and `variance` / k for the noise of its own count, which its cells share. At most
    `most_scattered` clusters have gaps, that is, cells that are no neighbours.
    """
    counts = np.where(np.array(noisy, float) > threshold, noisy, 0.0)
    order = np.argsort(-counts, kind="stable")
    penalty = 0.0
    while True:
        cuts = _cut_sorted(counts[order], variance, penalty)
        clusters = [sorted(order[first:stop].tolist()) for first, stop in cuts]
        if sum(not _is_range(cluster) for cluster in clusters) <= most_scattered:
            return clusters
        penalty = max(variance, 2 * penalty)


def _cut_sorted(counts: Floats, variance: float, penalty: float) -> list[tuple[int, int]]:
    """Cut sorted counts where that has the least error, and return (first, stop) of every cluster.

    `penalty` is added for every cluster of several cells. Dynamic programming over where the last
    cluster begins.
    """
    sums = np.concatenate([[0.0], counts.cumsum()])
    squares = np.concatenate([[0.0], (counts**2).cumsum()])
    best = np.zeros(len(counts) + 1)
    begins = np.zeros(len(counts) + 1, np.int64)
    for stop in range(1, len(counts) + 1):
        sizes = np.arange(stop, 0, -1)
        spread = squares[stop] - squares[:stop] - (sums[stop] - sums[:stop]) ** 2 / sizes
        costs = best[:stop] + np.maximum(spread, 0) + variance / sizes
        costs[:-1] += penalty
        begins[stop] = int(np.argmin(costs))
        best[stop] = costs[begins[stop]]
    cuts = []
    stop = len(counts)
    while stop:
        cuts.append((int(begins[stop]), stop))
        stop = int(begins[stop])
    return cuts[::-1]


def _is_range(cluster: Sequence[int]) -> bool:
    """Whether the cells of a sorted cluster are neighbours without a gap."""
    return cluster[-1] - cluster[0] + 1 == len(cluster)


def make_cluster_operator(clusters: Sequence[Cluster], cells: int) -> LinearOperator:
    """Make the public operator that adds up the cells of each cluster, in their order.

    A cluster of neighbouring cells is a range; one with gaps is a row of ones and zeros.
    """
    operators: list[LinearOperator] = []
    ranges: list[tuple[int, int]] = []
    rows: list[tuple[int, ...]] = []

    def finish_operator() -> None:
        if ranges:
            operators.append(Ranges(cells, tuple(ranges)))
            ranges.clear()
        if rows:
            operators.append(Dense(tuple(rows)))
            rows.clear()

    for cluster in clusters:
        is_range = _is_range(cluster)
        if rows if is_range else ranges:
            finish_operator()
        if is_range:
            ranges.append((cluster[0], cluster[-1]))
        else:
            rows.append(tuple(np.isin(np.arange(cells), cluster).astype(int).tolist()))
    finish_operator()
    return operators[0] if len(operators) == 1 else Stack(tuple(operators))


def find_most_scattered(cells: int) -> int:
    """Find how many clusters with gaps one operator can hold beside a range for every cell."""
    return min(MOST_SCATTERED, (MOST_ENTRIES - 2 * cells) // cells)


def check_cells(bound: BoundWorkload) -> None:
    """Refuse more than MOST_CELLS cells, before anything of that size is made."""
    cells = prod(bound.sizes.values())
    if cells > MOST_CELLS:
        raise RefusedError(
            f"clusters of {cells:,} cells: at most {MOST_CELLS:,}. Declare coarser bins, name "
            "fewer columns, or use con.adaptive_histogram",
            rule=PrivacyRule.BOUNDED_WORK,
        )
