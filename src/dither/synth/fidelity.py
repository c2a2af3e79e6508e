"""How close a synthetic table is to rows that may be looked at: invented or public ones.

Everything here reads both tables exactly, so it is for development data alone; a check against
private rows is paid for (`con.check_synthetic`). Closeness is no measure of privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import optimize, stats

from dither.errors import ParameterError

Codes = NDArray[np.int64]
MOST_SETS = 100
BINS = 16
"""Numbers with more different values are cut into so many ranges of equal count."""


@dataclass(frozen=True)
class Fidelity:
    """Distances of a synthetic table from rows that may be looked at.

    `one_way` and `two_way` are mean total variation distances, `correlation` the mean gap of
    correlation coefficients, `propensity` the mean squared gap of a classifier's guesses from
    chance (0 where it cannot tell the tables apart, 0.25 at most for tables of one length),
    `k_marginal` the score of NIST's challenge: 1000 (1 - mean total variation of triples).
    """

    one_way: float
    two_way: float
    correlation: float
    propensity: float
    k_marginal: float


def compare_tables(real: pa.Table, synthetic: pa.Table, *, k: int = 3) -> Fidelity:
    """Compare a synthetic table with invented or public rows, over the columns of both."""
    names = [name for name in synthetic.column_names if name in real.column_names]
    if len(names) < 2 or not real.num_rows or not synthetic.num_rows:
        raise ParameterError("two tables with rows and at least two columns in common are compared")
    first, second = encode_tables(real, synthetic, names)
    singles = [(column,) for column in range(len(names))]
    pairs = list(combinations(range(len(names)), 2))
    triples = list(combinations(range(len(names)), min(k, len(names))))
    spread = triples[:: -(-len(triples) // MOST_SETS)]
    return Fidelity(
        one_way=_measure_distance(first, second, singles),
        two_way=_measure_distance(first, second, pairs),
        correlation=_compare_correlations(first, second),
        propensity=_measure_propensity(first, second),
        k_marginal=1000 * (1 - _measure_distance(first, second, spread)),
    )


def measure_utility(train: pa.Table, test: pa.Table, target: str) -> float:
    """The area under the ROC curve of a logistic regression trained on one table and tested on
    another: does a model of synthetic rows predict real ones? `target` has two values."""
    names = [name for name in train.column_names if name in test.column_names and name != target]
    first, second = encode_tables(train, test, [*names, target])
    if first[:, -1].max() != 1 or second[:, -1].max() != 1:
        raise ParameterError(f"{target} must have two values in both tables")
    sizes = _find_sizes(first, second)[:-1]
    weights = _fit_logistic(_write_one_hot(first[:, :-1], sizes), first[:, -1])
    scores = _write_one_hot(second[:, :-1], sizes) @ weights
    order = stats.rankdata(scores)  # rows that are alike share their mean rank
    positive = second[:, -1] == 1
    positives = int(positive.sum())
    above = float(order[positive].sum()) - positives * (positives + 1) / 2
    return above / max(1, positives * (len(second) - positives))


def encode_tables(first: pa.Table, second: pa.Table, names: Sequence[str]) -> tuple[Codes, Codes]:
    """Both tables as codes; the values of a column are those of the two together."""
    columns = []
    for name in names:
        values = [*first[name].to_pylist(), *second[name].to_pylist()]
        listed = sorted({value for value in values if value is not None})
        rank = {value: code for code, value in enumerate(listed)}
        codes = np.array([rank.get(value, len(listed)) for value in values], np.int64)
        is_number = bool(listed) and not isinstance(listed[0], (str, bool))
        if is_number and len(listed) > 2 * BINS:
            edges = np.quantile(codes[: first.num_rows], np.linspace(0, 1, BINS + 1)[1:-1])
            codes = np.where(codes < len(listed), np.searchsorted(edges, codes, "right"), BINS)
        columns.append(codes)
    table = np.stack(columns, axis=1)
    return table[: first.num_rows], table[first.num_rows :]


def _find_sizes(first: Codes, second: Codes) -> list[int]:
    return [int(size) for size in np.maximum(first.max(axis=0), second.max(axis=0)) + 1]


def _measure_distance(first: Codes, second: Codes, sets: Sequence[tuple[int, ...]]) -> float:
    """The mean total variation distance over sets of columns."""
    sizes = _find_sizes(first, second)
    distances = []
    for columns in sets:
        shape = [sizes[column] for column in columns]
        shares = [
            np.bincount(
                np.ravel_multi_index(tuple(rows[:, column] for column in columns), shape),
                minlength=int(np.prod(shape)),
            )
            / len(rows)
            for rows in (first, second)
        ]
        distances.append(0.5 * float(np.abs(shares[0] - shares[1]).sum()))
    return float(np.mean(distances))


def _compare_correlations(first: Codes, second: Codes) -> float:
    """The mean absolute gap of the correlations of codes; columns that never vary have none."""
    varies = (first.std(axis=0) > 0) & (second.std(axis=0) > 0)
    if varies.sum() < 2:
        return 0.0
    gap = np.array(np.corrcoef(first[:, varies].T) - np.corrcoef(second[:, varies].T))
    above = np.triu_indices(int(varies.sum()), 1)
    return float(np.abs(gap[above]).mean())


def _measure_propensity(first: Codes, second: Codes) -> float:
    """The propensity score's mean squared error (Snoke et al. 2018) of a logistic regression."""
    rows = np.concatenate([first, second])
    is_synthetic = np.r_[np.zeros(len(first), np.int64), np.ones(len(second), np.int64)]
    features = _write_one_hot(rows, _find_sizes(first, second))
    weights = _fit_logistic(features, is_synthetic)
    guesses = 1 / (1 + np.exp(-(features @ weights)))
    return float(np.square(guesses - is_synthetic.mean()).mean())


def _write_one_hot(codes: Codes, sizes: list[int]) -> NDArray[np.float64]:
    """A column of ones, and one for each value of each column."""
    blocks = [np.ones((len(codes), 1))]
    blocks += [np.eye(size)[codes[:, column]] for column, size in enumerate(sizes)]
    return np.concatenate(blocks, axis=1)


def _fit_logistic(features: NDArray[np.float64], labels: Codes) -> NDArray[np.float64]:
    """Logistic regression with an L2 penalty of 1."""
    signs = 2.0 * labels - 1

    def find_loss(weights: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        margins = signs * (features @ weights)
        slopes = -signs * np.exp(-np.logaddexp(0, margins))
        loss = float(np.logaddexp(0, -margins).sum() + 0.5 * weights @ weights)
        return loss, features.T @ slopes + weights

    start = np.zeros(features.shape[1])
    fitted: NDArray[np.float64] = optimize.minimize(
        find_loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 100}
    ).x
    return fitted
