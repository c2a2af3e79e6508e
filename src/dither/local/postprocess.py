"""Plausible counts from raw ones: free of privacy cost, never free of bias.

`norm_sub` (clip at zero and subtract one constant from what stays positive, so that the sum is the
number of reports: the projection onto the simplex), `base_cut` (keep what is significant, drop the
rest), `norm` (add one constant), and `clip`. Wang et al. 2020 compare them. `consistent_tree` makes
a hierarchy add up (Hay et al. 2010).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

if TYPE_CHECKING:
    from dither.local.estimate import Estimate

Floats = NDArray[np.float64]


def norm_sub(values: Floats, total: float) -> Floats:
    """Compute the closest (least squares) non-negative counts with the given total.

    >>> norm_sub(np.array([8.0, 3.0, -2.0]), 10).tolist()
    [7.5, 2.5, 0.0]
    """
    if total < 0:
        raise ParameterError("total must not be negative")
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1]) if (ordered > excess).any() else 0
    counts: Floats = np.maximum(values - excess[last], 0.0)
    return counts


def norm(values: Floats, total: float) -> Floats:
    """One constant added to all, so that they sum to `total`; may stay negative."""
    counts: Floats = values + (total - values.sum()) / len(values)
    return counts


def clip(values: Floats, total: float) -> Floats:
    """Negative counts set to zero: biased upwards for everything rare."""
    return np.maximum(values, 0.0)


def base_cut(values: Floats, errors: Floats, level: float = 0.95) -> Floats:
    """Counts below the significance threshold (one-sided, Bonferroni over all) set to zero, the
    others kept."""
    quantile = NormalDist().inv_cdf(1 - (1 - level) / max(1, len(values)))
    return np.where(values > quantile * errors, values, 0.0)


_METHODS: dict[str, Callable[[Floats, float], Floats]] = {
    "norm_sub": norm_sub,
    "norm": norm,
    "clip": clip,
}


def apply(method: str, estimate: Estimate) -> Floats:
    """Apply a method of post-processing by name to an estimate.

    Raises ParameterError for a name that is none.
    """
    if method == "base_cut":
        return base_cut(estimate.values, estimate.errors)
    if method not in _METHODS:
        raise ParameterError(
            f"no post-processing {method!r}: choose one of {sorted([*_METHODS, 'base_cut'])}"
        )
    return _METHODS[method](estimate.values, float(estimate.reports))


def consistent_tree(
    levels: Sequence[Floats], variances: Sequence[float], branching: int
) -> list[Floats]:
    """Fit the values of a complete tree so that every parent is the sum of its children.

    It is by least squares. `levels[0]` is the root's row, each next one `branching` times as long;
    `variances` are those of one node of each level (0 for a known root). Two passes: upwards the
    best estimate of a node from its subtree, downwards the rest.
    """
    shares = _node_shares(variances, branching)
    best: list[Floats] = [levels[-1]]
    for values, share in zip(reversed(levels[:-1]), shares[-2::-1], strict=True):
        below = best[0].reshape(-1, branching).sum(axis=1)
        best.insert(0, share * values + (1 - share) * below)
    done = [best[0]]
    for values in best[1:]:
        gap = (done[-1] - values.reshape(-1, branching).sum(axis=1)) / branching
        done.append(values + np.repeat(gap, branching))
    return done


def _node_shares(variances: Sequence[float], branching: int) -> list[float]:
    """Compute how much a node's own estimate counts against the sum of its children, level by
    level."""
    shares = [1.0]
    spread = float(variances[-1])
    for variance in list(variances)[-2::-1]:
        from_children = spread * branching
        share = 1.0 if variance == 0 else from_children / (from_children + variance)
        shares.insert(0, share)
        spread = (1 - share) * from_children
    return shares


def weigh_raw_nodes(weights: Floats, variances: Sequence[float], branching: int) -> list[Floats]:
    """Compute the weights of all given node values in weighted sums of the leaves of
    `consistent_tree`.

    `weights` has a row for each sum. This is the transpose of `consistent_tree`, pass by pass: the
    leaves' weights go up, then the shares of the levels go down.
    """
    shares = _node_shares(variances, branching)
    on_best: list[Floats] = []
    on_done = weights
    for _ in range(len(shares) - 1):
        parents = on_done.reshape(len(weights), -1, branching).sum(axis=2) / branching
        on_best.insert(0, on_done - np.repeat(parents, branching, axis=1))
        on_done = parents
    total = on_done
    raw = [shares[0] * total]
    for level, own in enumerate(on_best, 1):
        total = own + (1 - shares[level - 1]) * np.repeat(total, branching, axis=1)
        raw.append(shares[level] * total)
    return raw
