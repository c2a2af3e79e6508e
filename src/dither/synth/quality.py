"""A paid check of a synthetic table: pairs of columns counted anew, and held against its model.

The counts come out of a lease of their own, so the check is charged like any question. With noise
of variance v in each of k cells, sum (y - m)^2 - k v estimates the squared distance S of the real
counts x from the model's m without bias, and is seldom below S - z sqrt(a k v^2 + 4 v S): the bound
is the S that solves this. Half the L1 distance is at most sqrt(k) / 2 times the L2 distance. Proof:
docs/proofs/synthetic-tables.md#a-paid-check.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import log, sqrt

import numpy as np

from dither.errors import ParameterError
from dither.synth.contraction import Table
from dither.synth.count_bounds import bound_noise
from dither.synth.fitted import FittedTable
from dither.synth.junction_tree import Clique
from dither.synth.steps import TableSteps

MOST_PAIRS = 20
_CHANCE = 0.05
"""The chance that the bound of one check misleads."""


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
            fresh.counts,
            fitted.model.find_marginal(clique),
            float(fresh.variance.flat[0]),
            is_gaussian=steps.is_gaussian,
        )
        columns = tuple(names[attribute] for attribute in clique)
        checks.append(QualityCheck(columns, estimate, upper))
    return tuple(checks)


def bound_distance(
    noisy: Table, model: Table, variance: float, *, is_gaussian: bool = False
) -> tuple[float, float]:
    """An estimate of the total variation distance of counts from a model's, and an upper bound."""
    cells = noisy.size
    square = bound_square(noisy, model, variance, _CHANCE, is_gaussian=is_gaussian)
    rows = max(1.0, float(model.sum()))
    upper = 0.5 * sqrt(cells * square) / rows
    plain = 0.5 * float(np.abs(noisy - model).sum()) / rows
    by_noise = 0.5 * cells * sqrt(2 * variance / np.pi) / rows
    estimate = sqrt(max(0.0, plain**2 - by_noise**2))
    return min(1.0, estimate), min(1.0, max(upper, estimate))


def bound_square(
    noisy: Table, model: Table, variance: float, chance: float, *, is_gaussian: bool = False
) -> float:
    """Bound the squared L2 distance of counts from a model's: exceeded with at most this chance.

    Solves S - z sqrt(a k v^2 + 4 v S) = q for S, where q is the estimate: a = 2 and
    z = sqrt(2 log(1 / chance)) for Gaussian noise; else a = 6, and z is that of a single Laplace
    noise by Chernoff, which holds for both. Whole numbers have a variance of at least v - 1/6.
    """
    cells = noisy.size
    estimate = float(np.square(noisy - model).sum()) - cells * (variance - 1 / 6)
    factor = 2 if is_gaussian else 6
    reach = sqrt(-2 * log(chance)) if is_gaussian else bound_noise(np.ones(1), chance, False)
    middle = estimate + 2 * reach**2 * variance
    root = middle**2 - estimate**2 + factor * cells * (reach * variance) ** 2
    return max(0.0, middle + sqrt(max(0.0, root)))
