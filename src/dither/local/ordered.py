"""Counts of an ordered domain: ranges and quantiles, with intervals.

A range is a weighted sum of counts whose variance is known exactly for given users
(`dither.local.linear`); the normal interval puts the estimated counts in, the certain one the worst
ones. The interval of a quantile holds the values that no one-sided interval of a prefix excludes.
docs/proofs/local-intervals.md, theorems 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.local.estimate import Estimate, bernstein_half_width, normal_quantile
from dither.local.linear import Contributions
from dither.local.postprocess import norm_sub

Floats = NDArray[np.float64]
_PREFIXES = 256  # ends of quantile intervals are looked for among so many prefixes


@dataclass(frozen=True)
class Ordered:
    """Counts of an ordered domain: ranges and quantiles.

    `contribute` gives, for weighted sums of the counts, one report's contributions and their means
    for a user of each value.
    """

    counts: Floats
    reports: int
    contribute: Callable[[Floats], tuple[Contributions, Floats]]

    def range(self, start: int, end: int) -> float:
        """Users with start <= value < end."""
        return float(self.counts[start:end].sum())

    def range_estimate(self, start: int, end: int) -> Estimate:
        """Estimate how many users have start <= value < end, with the variance and an interval.

        >>> from dither import local
        >>> protocol = local.Haar(1, 8)
        >>> collector = local.Aggregator(protocol)
        >>> ordered = protocol.ordered(collector.tally, collector.reports)
        >>> ordered.range_estimate(2, 5).interval()
        (array([0.]), array([0.]))
        """
        if not 0 <= start <= end <= len(self.counts):
            raise ParameterError(
                f"a range needs 0 <= start <= end <= {len(self.counts)}: end is not part of it"
            )
        weights = np.zeros((1, len(self.counts)))
        weights[0, start:end] = 1.0
        variances, bounds, largest = self._describe_sums(weights)
        return Estimate(
            np.array([self.range(start, end)]),
            variances,
            self.reports,
            float(largest[0]),
            variance_bounds=bounds,
        )

    def _describe_sums(self, weights: Floats) -> tuple[Floats, Floats, Floats]:
        """Compute (variance with the estimated counts, largest variance, largest move by one
        report).

        `weights` has a row for each sum.
        """
        contributions, means = self.contribute(weights)
        variances = np.maximum(contributions.second_moments - means**2, 0.0)
        plausible = norm_sub(self.counts, float(self.reports))
        bounds = self.reports * variances.max(axis=1)
        return variances @ plausible, bounds, contributions.largest

    def quantile(self, share: float) -> int:
        """The first value at which the cumulative count, made monotone, reaches `share` of the
        reports."""
        _check_share(share)
        climb = np.cumsum(self.counts)
        rising = (np.maximum.accumulate(climb) + np.minimum.accumulate(climb[::-1])[::-1]) / 2
        return min(int(np.searchsorted(rising, share * self.reports)), len(self.counts) - 1)

    def quantile_interval(
        self, share: float, level: float = 0.95, *, certain: bool = False
    ) -> tuple[int, int]:
        """Compute (first, last) value of an interval for the users' quantile.

        Ends are looked for among 256 prefixes spread evenly: in a larger domain they are moved
        outwards to the next of them.
        """
        _check_share(share)
        ends = np.unique(np.linspace(0, len(self.counts) - 1, _PREFIXES).astype(np.int64))
        half = self._prefix_half_widths(ends, level, certain)
        climb = np.cumsum(self.counts)[ends]
        goal = share * self.reports
        may_reach = np.flatnonzero(climb + half >= goal)
        may_miss = np.flatnonzero(climb - half < goal)
        first = int(may_reach[0]) if len(may_reach) else len(ends) - 1
        last = min(int(may_miss[-1]) + 1, len(ends) - 1) if len(may_miss) else 0
        low = 0 if first == 0 else int(ends[first - 1]) + 1
        middle = self.quantile(share)
        return min(low, middle), max(int(ends[last]), middle)

    def _prefix_half_widths(self, ends: NDArray[np.int64], level: float, certain: bool) -> Floats:
        """Compute half widths of the intervals of the prefixes up to and including `ends`."""
        rows = max(1, (1 << 22) // len(self.counts))
        halves = []
        for start in range(0, len(ends), rows):
            block = ends[start : start + rows]
            weights = (np.arange(len(self.counts)) <= block[:, None]).astype(np.float64)
            variances, bounds, largest = self._describe_sums(weights)
            if certain:
                halves.append(bernstein_half_width(bounds, largest, level))
            else:
                halves.append(normal_quantile(level) * np.sqrt(variances))
        return np.concatenate(halves)


def _check_share(share: float) -> None:
    if not 0 <= share <= 1:
        raise ParameterError(f"a quantile lies between 0 and 1, got {quote(share)}")
