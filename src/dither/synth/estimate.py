"""Estimation: the model of most entropy that fits noisy marginals best.

Weighted least squares over all tables that some distribution has, by entropic mirror descent: the
logarithms of the factors move against the gradient, and belief propagation gives the marginals that
belong to them (McKenna, Sheldon and Miklau, ICML 2019). Steps are found by Armijo's rule and start
from the model before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from dither.synth.contraction import Table, add_up, spread
from dither.synth.deadline import check_deadline
from dither.synth.junction_tree import Clique
from dither.synth.model import GraphicalModel, to_factors
from dither.synth.propagation import Propagation

_MOST_TRIES = 25
_FLOOR = 1e-9
"""The smallest probability with which a closed form starts: a logarithm needs one above 0."""


@dataclass(frozen=True)
class Measurement:
    """Noisy counts of one clique, and the variance of the noise of each of them."""

    clique: Clique
    counts: Table
    variance: Table


def merge_measurements(measurements: Iterable[Measurement]) -> dict[Clique, Measurement]:
    """One measurement for each clique: repeated ones are averaged by inverse variance."""
    merged: dict[Clique, Measurement] = {}
    for measurement in measurements:
        earlier = merged.get(measurement.clique)
        if earlier is None:
            merged[measurement.clique] = measurement
            continue
        precision = 1 / earlier.variance + 1 / measurement.variance
        weighted = earlier.counts / earlier.variance + measurement.counts / measurement.variance
        merged[measurement.clique] = Measurement(
            measurement.clique, weighted / precision, 1 / precision
        )
    return merged


def estimate_total(measurements: Iterable[Measurement]) -> tuple[float, float]:
    """The number of rows and its variance, by inverse variance over the sums of all tables.

    The number is at least 1.
    """
    sums = [(float(m.counts.sum()), float(m.variance.sum())) for m in measurements]
    precision = sum(1 / variance for _, variance in sums)
    total = sum(count / variance for count, variance in sums) / precision
    return max(1.0, total), 1 / precision


def fit_tree(sizes: tuple[int, ...], measured: Mapping[Clique, Measurement]) -> dict[Clique, Table]:
    """The closed form: conditional tables along the junction tree, exact where the measured tables
    agree with each other and cover every maximal clique.

    A maximal clique that was not measured is left flat.
    """
    propagation = Propagation(sizes, measured)
    tree = propagation.tree
    potentials = {clique: np.zeros(shape_table(sizes, clique)) for clique in measured}
    for index, clique in enumerate(tree.cliques):
        if clique not in measured:
            continue
        table = _make_probabilities(measured[clique])
        edge = next((edge for edge in tree.edges if edge[1] == index), None)
        if edge is not None:
            separator = tree.separator(edge)
            table = table / spread(add_up(table, clique, separator), separator, clique)
        potentials[clique] = np.log(table)
    return potentials


def shape_table(sizes: tuple[int, ...], clique: Clique) -> tuple[int, ...]:
    """The lengths of the axes of a clique's table."""
    return tuple(sizes[attribute] for attribute in clique)


def _make_probabilities(measurement: Measurement) -> Table:
    """The measured table without negative numbers, as probabilities above 0."""
    table = project_counts(measurement.counts, max(1.0, float(measurement.counts.sum())))
    table = table / table.sum() + _FLOOR
    probabilities: Table = table / table.sum()
    return probabilities


def project_counts(counts: Table, total: float) -> Table:
    """The nearest table of this total without negative numbers, by least squares: one number is
    taken off all cells, and what falls below 0 becomes 0."""
    flat = np.sort(counts.ravel())[::-1]
    excess = (np.cumsum(flat) - total) / np.arange(1, len(flat) + 1)
    kept = int(np.flatnonzero(flat > excess)[-1]) if (flat > excess).any() else 0
    projected: Table = np.maximum(counts - excess[kept], 0.0)
    return projected


def fit_model(
    sizes: tuple[int, ...],
    measured: Mapping[Clique, Measurement],
    total: float,
    *,
    start: Mapping[Clique, Table] | None = None,
    steps: int = 300,
    propagation: Propagation | None = None,
) -> GraphicalModel:
    """The model that fits the measured tables; `start` are logarithms of factors to start from."""
    potentials = {clique: np.zeros(shape_table(sizes, clique)) for clique in measured} | dict(
        start or {}
    )
    propagation = propagation or Propagation(sizes, potentials)
    potentials = _descend(potentials, measured, total, steps, propagation)
    return GraphicalModel(sizes, total, potentials)


def _descend(
    potentials: dict[Clique, Table],
    measured: Mapping[Clique, Measurement],
    total: float,
    steps: int,
    propagation: Propagation,
) -> dict[Clique, Table]:
    """Mirror descent with Armijo's rule: a step is kept if it gains at least half of what the
    gradient promises."""
    tightest = min(float(m.variance.min()) for m in measured.values())
    step = tightest / total
    marginals = propagation.find_marginals(to_factors(potentials))
    loss, gradient = _measure_misfit(marginals, measured, total)
    for _ in range(steps):
        check_deadline()
        for _ in range(_MOST_TRIES):
            moved = {
                clique: table - step * gradient[clique] if clique in gradient else table
                for clique, table in potentials.items()
            }
            new_marginals = propagation.find_marginals(to_factors(moved))
            new_loss, new_gradient = _measure_misfit(new_marginals, measured, total)
            promised = sum(
                float(np.vdot(slope, marginals[clique] - new_marginals[clique]))
                for clique, slope in gradient.items()
            )
            if loss - new_loss >= 0.5 * total * promised:
                break
            step *= 0.5
        else:
            return potentials
        gain = loss - new_loss
        potentials = moved
        marginals = new_marginals
        loss = new_loss
        gradient = new_gradient
        step *= 1.6
        if gain <= 1e-7 * max(loss, 1.0):
            break
    return potentials


def _measure_misfit(
    marginals: Mapping[Clique, Table], measured: Mapping[Clique, Measurement], total: float
) -> tuple[float, dict[Clique, Table]]:
    """Half the weighted square distance from the measurements, and its slopes in counts."""
    loss = 0.0
    slopes = {}
    for clique, measurement in measured.items():
        gap = total * marginals[clique] - measurement.counts
        slopes[clique] = gap / measurement.variance
        loss += 0.5 * float(np.vdot(gap, slopes[clique]))
    return loss, slopes
