"""Frequency oracles of the pure kind: a report *supports* some values, its own with probability p,
any other with q.

Unbiased count of a value: (S - n q) / (p - q), S the reports that support it. Its variance is
exactly n q (1 - q) / (p - q)**2 + f (1 - p - q) / (p - q) for a value that f of n users hold (Wang
et al. 2017). p and q here are the exact rationals that the device uses, so no bias is left by
rounding e**epsilon.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.local.estimate import Estimate
from dither.local.odds import odds, read_epsilon
from dither.local.protocol import Protocol, is_exact, read_domain
from dither.stored import stored


@stored(domain="domain")
@dataclass(frozen=True)
class Oracle(Protocol):
    """A frequency oracle over the public domain 0..domain-1."""

    domain: int
    largest_domain = 1 << 24

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "epsilon", read_epsilon(self.epsilon))
        object.__setattr__(self, "domain", read_domain(self.domain, self.largest_domain))

    @property
    def odds(self) -> Fraction:
        """R <= e**epsilon."""
        return odds(self.epsilon)

    def inputs(self) -> list[int]:
        return list(range(self.domain))

    @property
    def tally_size(self) -> int:
        return self.domain

    @property
    @abstractmethod
    def noise_variance(self) -> Fraction:
        """Var*: variance that one user adds to the count of a value that it does not hold."""

    @abstractmethod
    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        """Variance of every estimated count when `counts` users hold each value."""

    @property
    @abstractmethod
    def largest_move(self) -> Fraction:
        """How far one report can move one count: what a single poisoned report gains."""

    def estimate(self, tally: NDArray[np.int64], reports: int) -> Estimate:
        """Estimate all counts, with variances at the estimates and bounds for any counts."""
        values = self.debias(tally, reports).astype(np.float64)
        plausible = np.clip(values, 0, reports)
        return Estimate(
            values,
            self.variances(plausible, reports),
            reports,
            float(self.largest_move),
            variance_bounds=self.variance_bounds(reports),
        )

    def variance_bounds(self, reports: int) -> NDArray[np.float64]:
        """Variances that no values of the users exceed: they are affine in the count of the value,
        hence largest where nobody or everybody holds it."""
        nobody = np.zeros(self.domain)
        everybody = np.full(self.domain, float(reports))
        return np.maximum(self.variances(nobody, reports), self.variances(everybody, reports))


@stored()
@dataclass(frozen=True)
class SupportOracle(Oracle):
    """An oracle whose tally is the number of supporting reports for each value."""

    @property
    @abstractmethod
    def p(self) -> Fraction:
        """Probability that a report supports the value held."""

    @property
    @abstractmethod
    def q(self) -> Fraction:
        """Probability that a report supports one given other value."""

    def debias(self, tally: NDArray[Any], reports: int) -> NDArray[Any]:
        if is_exact(tally):
            exact: NDArray[Any] = (tally - reports * self.q) / np.array(self.p - self.q, object)
            return exact
        return (tally - reports * float(self.q)) / float(self.p - self.q)

    @property
    def noise_variance(self) -> Fraction:
        return self.q * (1 - self.q) / (self.p - self.q) ** 2

    def user_variance(self, value: int) -> NDArray[Any]:
        """Compute the variance that one user's report adds to each count; `value` is what it
        holds."""
        own_variance = self.p * (1 - self.p) / (self.p - self.q) ** 2
        return np.array(
            [own_variance if v == value else self.noise_variance for v in range(self.domain)],
            object,
        )

    def variances(self, counts: NDArray[np.float64], reports: int) -> NDArray[np.float64]:
        """Compute the variance of each estimate, if the true counts are `counts`."""
        p = float(self.p)
        q = float(self.q)
        variances: NDArray[np.float64] = reports * float(self.noise_variance) + counts * (
            1 - p - q
        ) / (p - q)
        return variances

    @property
    def largest_move(self) -> Fraction:
        return max(1 - self.q, self.q) / (self.p - self.q)
