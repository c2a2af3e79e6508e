"""A paid check of a synthetic table: pairs of columns counted anew, and held against its model.

The counts come out of a lease of their own, so the check is charged like any question. With noise
of variance v in each of k cells, sum (y - m)^2 - k v estimates the squared distance of the real
counts x from the model's m without bias, and its standard error is at most
sqrt(2 k v^2 + 4 v max(0, sum (x - m)^2)). Half the L1 distance is at most sqrt(k) / 2 times the L2
distance. Proof: docs/proofs/synthetic-tables.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import sqrt

import numpy as np

from dither.errors import ParameterError
from dither.synth.contraction import Table
from dither.synth.fitted import FittedTable
from dither.synth.junction_tree import Clique
from dither.synth.steps import TableSteps

MOST_PAIRS = 20
_Z = 1.6449
"""The quantile of a normal law that 95% lie below."""


@dataclass(frozen=True)
class QualityCheck:
    """The share of rows that the model has in a wrong cell of some columns, over groups of their
    values: an estimate, and a bound that holds with 95% confidence."""

    columns: tuple[str, ...]
    estimate: float
    upper: float


def list_unmeasured(
    names: tuple[str, ...], pairs: Sequence[Sequence[str]] | None, fitted: FittedTable
) -> list[Clique]:
    """The pairs to check: those that are named, else the first that were not measured."""
    if pairs is not None:
        cliques = [_find_pair(names, pair) for pair in pairs]
    else:
        every: list[Clique] = list(combinations(range(len(names)), 2))
        measured = {measurement.clique for measurement in fitted.measurements}
        cliques = [clique for clique in every if clique not in measured][:MOST_PAIRS]
        cliques = cliques or every[:MOST_PAIRS]
    if not 1 <= len(cliques) <= MOST_PAIRS:
        raise ParameterError(
            f"a check takes 1 to {MOST_PAIRS} pairs of columns, got {len(cliques)}"
        )
    return cliques


def _find_pair(names: tuple[str, ...], pair: Sequence[str]) -> Clique:
    if len(pair) != 2 or pair[0] == pair[1] or not {*pair} <= {*names}:
        raise ParameterError(f"a pair is two of the columns {', '.join(names)}, got {pair!r}")
    return tuple(sorted(names.index(name) for name in pair))


def measure_quality(
    steps: TableSteps,
    names: tuple[str, ...],
    fitted: FittedTable,
    cliques: list[Clique],
    price: Fraction,
) -> tuple[QualityCheck, ...]:
    """Count every pair anew for an even share of the price."""
    checks = []
    for clique in cliques:
        groupings = [fitted.groupings[attribute] for attribute in clique]
        fresh = steps.measure(clique, groupings, price / len(cliques))
        estimate, upper = bound_distance(
            fresh.counts, fitted.model.find_marginal(clique), float(fresh.variance.flat[0])
        )
        columns = tuple(names[attribute] for attribute in clique)
        checks.append(QualityCheck(columns, estimate, upper))
    return tuple(checks)


def bound_distance(noisy: Table, model: Table, variance: float) -> tuple[float, float]:
    """An estimate of the total variation distance of counts from a model's, and an upper bound."""
    cells = noisy.size
    square, error = bound_square(noisy, model, variance)
    rows = max(1.0, float(model.sum()))
    upper = 0.5 * sqrt(cells * max(0.0, square + _Z * error)) / rows
    plain = 0.5 * float(np.abs(noisy - model).sum()) / rows
    by_noise = 0.5 * cells * sqrt(2 * variance / np.pi) / rows
    estimate = sqrt(max(0.0, plain**2 - by_noise**2))
    return min(1.0, estimate), min(1.0, max(upper, estimate))


def bound_square(noisy: Table, model: Table, variance: float) -> tuple[float, float]:
    """An estimate of the squared L2 distance of counts from a model's, and its standard error."""
    cells = noisy.size
    square = float(np.square(noisy - model).sum()) - cells * variance
    return square, sqrt(2 * cells * variance**2 + 4 * variance * max(0.0, square))
