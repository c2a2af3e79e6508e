"""Estimates with honest intervals, as a collector reads them.

Values are unbiased and raw: they may be negative and need not sum to the number of reports.
`processed` gives the post-processed view beside them. Intervals are normal with the estimated
variance. `certain` ones hold for every number of reports: Bernstein's inequality with the public
range of one report and the largest variance that any values of the users give
(docs/proofs/local-intervals.md, theorem 1).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError


@dataclass(frozen=True)
class Estimate:
    """Unbiased totals (`values`), the variance of each, and the largest move of a value by one
    report.

    `variance_bounds` are variances that hold whatever the users' values are; without them there is
    no `certain` interval. Where `values` are not unbiased (square wave), `unbiased` is the estimate
    that intervals come from.
    """

    values: NDArray[np.float64]
    variances: NDArray[np.float64]
    reports: int
    largest_move: float
    labels: tuple[str, ...] | None = None
    what: str = "count"
    notes: tuple[str, ...] = field(default=())
    variance_bounds: NDArray[np.float64] | None = None
    unbiased: Estimate | None = None

    @property
    def errors(self) -> NDArray[np.float64]:
        """Standard errors."""
        return np.sqrt(self.variances)

    def interval(
        self, level: float = 0.95, *, certain: bool = False
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Compute pointwise intervals: normal, or (`certain`) by Bernstein's inequality.

        The latter is wider and valid at every size.
        """
        if not 0 < level < 1:
            raise ParameterError(f"level must lie between 0 and 1, got {quote(level)}")
        if self.unbiased is not None:
            low, high = self.unbiased.interval(level, certain=certain)
            return np.minimum(low, self.values), np.maximum(high, self.values)
        half = self._certain_half_width(level) if certain else normal_quantile(level) * self.errors
        return self.values - half, self.values + half

    def _certain_half_width(self, level: float) -> NDArray[np.float64]:
        """Compute half-widths that hold for every sample size, by Bernstein's inequality.

        They need a proved bound on the variance; without one this is refused.
        """
        if self.variance_bounds is None:
            raise ParameterError(
                f"no bound on the variance of this {self.what} is known, so no certain interval: "
                f"leave out certain=True"
            )
        return bernstein_half_width(self.variance_bounds, self.largest_move, level)

    def significant(self, level: float = 0.95) -> NDArray[np.bool_]:
        """Which values are above zero with `level` confidence over all of them together
        (Bonferroni)."""
        quantile = NormalDist().inv_cdf(1 - (1 - level) / max(1, self.values.size))
        is_significant: NDArray[np.bool_] = self.values > quantile * self.errors
        return is_significant

    def fractions(self) -> NDArray[np.float64]:
        """Shares of the reports."""
        return self.values / max(1, self.reports)

    def processed(self, method: str = "norm_sub") -> NDArray[np.float64]:
        """Counts made plausible; names of `dither.local.postprocess` ("norm_sub", "base_cut",
        "norm", "clip")."""
        from dither.local import postprocess

        return postprocess.apply(method, self)

    def named(self, labels: Sequence[str]) -> Estimate:
        """Return the same estimate with a name for every value."""
        if len(labels) != self.values.size:
            raise ParameterError(
                f"{self.values.size} values need as many labels, got {len(labels)}"
            )
        return replace(self, labels=tuple(labels))

    def rows(self, level: float = 0.95) -> list[dict[str, Any]]:
        """List one dict a value: label, estimate, low, high (for a table, a data frame or JSON)."""
        low, high = self.interval(level)
        names = self.labels or tuple(str(i) for i in range(self.values.size))
        return [
            {"label": name, self.what: float(v), "low": float(a), "high": float(b)}
            for name, v, a, b in zip(
                names, self.values.ravel(), low.ravel(), high.ravel(), strict=True
            )
        ]

    def plot(self, *, level: float = 0.95, top: int = 40) -> Any:
        """Bars with intervals (matplotlib); needs the `plot` extra."""
        from dither.local.plots import bars

        return bars(self, level=level, top=top)


@dataclass(frozen=True)
class BracketedValues:
    """Values with the two ends of their intervals, where these are not symmetric."""

    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    level: float


def normal_quantile(level: float) -> float:
    """How many standard errors an interval of this level reaches to either end.

    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    if not 0 < level < 1:
        raise ParameterError(f"level must lie between 0 and 1, got {quote(level)}")
    return NormalDist().inv_cdf(0.5 + level / 2)


def bernstein_half_width(
    variances: NDArray[np.float64], largest_move: float | NDArray[np.float64], level: float
) -> NDArray[np.float64]:
    """Half the width of an interval by Bernstein's inequality, for sums of independent terms whose
    absolute values are at most `largest_move` (so that they are within twice it of their means)."""
    tail = log(2 / (1 - level))
    slope = 2 * largest_move * tail / 3
    half: NDArray[np.float64] = slope + np.sqrt(slope**2 + 2 * variances * tail)
    return half


def error_of_users(variance_per_user: float, users: int) -> float:
    """Standard error of a *share* from `users` reports of the given variance each.

    >>> round(error_of_users(3.68269, 1_000_000), 6)
    0.001919
    """
    return sqrt(variance_per_user / users)


def users_for(variance_per_user: float, error: float, level: float = 0.95) -> int:
    """How many users make the interval of a *share* at `level` no wider than +- `error`: z**2
    variance / error**2.

    >>> from dither import local
    >>> users_for(float(local.Direct(1, 2).noise_variance), 0.01)
    35368
    """
    if not error > 0 or not 0 < level < 1:
        raise ParameterError("error must be positive and level between 0 and 1")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    return ceil(z * z * variance_per_user / error**2)
