"""Key selection by a Gaussian threshold.

A key is shown if its owners + integer Gaussian noise reach tau.

Guarantee: delta-approximate rho-zCDP, ZCDP(rho, delta), towards a unit that is among the owners of
at most m keys: rho = m / (2 sigma^2), and delta = 1 - (1 - P(1 + Z >= tau))^m bounds the chance
that a key of which the unit is the only owner is shown. It grows with sqrt(m), so it beats the
optimal pure rule when units have many keys. The noisy counts of the keys shown are covered too.
Under `replace` a unit moves 2m keys, but brings only m of them: `ThresholdKeys` counts those in
delta, `GaussianKeys`, which is older, all 2m. `CountedKeys` releases the noisy counts too. A key
without owners is never shown. Proof: docs/proofs/key-selection.md#gaussian-threshold.

>>> keys = GaussianKeys.for_rho(0.05, 1e-6, groups=10)
>>> keys.sigma, keys.threshold
(Fraction(10, 1), 54)
>>> keys.loss().rho, keys.loss().delta <= Fraction(1, 10**6)
(Fraction(1, 20), True)
>>> keys.release([0, 1000])[0].tolist()
[False, True]
>>> replace = Adjacency("replace")
>>> [law.for_rho(0.05, 1e-6, groups=10, adjacency=replace).threshold for law in (
...     GaussianKeys, ThresholdKeys)]
[77, 76]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import ceil
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact, number_text, positive, quote
from dither.error_terms import ErrorTerms, NoiseTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import ADD_REMOVE, ZCDP, Adjacency, Neighbours
from dither.privacy.mechanisms.additive import add
from dither.privacy.mechanisms.delta import small_delta
from dither.privacy.mechanisms.gaussian import IntegerGaussian
from dither.privacy.mechanisms.key_selection import OwnersOfKeys, check_groups, owner_counts
from dither.privacy.noise import Words, discrete_gaussian
from dither.privacy.noise.samplers import SMALLEST
from dither.privacy.noise.table import Law

_LARGEST = 1 << 12
_BITS = 192
_EXACT_POWERS = 256


@dataclass(frozen=True)
class GaussianKeys(OwnersOfKeys):
    """Shows keys whose noisy number of distinct owners reaches a threshold."""

    stored_name: ClassVar[str] = "GaussianKeys"  # in digests of stored releases: never changes

    sigma: Fraction
    threshold: int
    groups: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make sigma exact, and check it and the threshold."""
        object.__setattr__(self, "sigma", positive(self.sigma, "sigma"))
        if not SMALLEST <= self.sigma <= _LARGEST:
            raise ParameterError(
                f"sigma must lie between 1/1000 and {_LARGEST}, got {number_text(self.sigma)}: "
                "choose a larger price or fewer groups per unit"
            )
        if (
            isinstance(self.threshold, bool)
            or not isinstance(self.threshold, int)
            or self.threshold < 2
        ):
            raise ParameterError(
                f"threshold must be an integer of at least 2, got {quote(self.threshold)}"
            )
        self.loss()

    @classmethod
    def for_rho(
        cls,
        rho: Number,
        delta: Number,
        *,
        groups: int,
        public_size: int | None = None,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> GaussianKeys:
        """Make the selection with the least noise for rho, then the lowest threshold for delta.

        Raises ParameterError where rho or delta are too small.
        """
        allowed = small_delta(delta, public_size)
        moved = check_groups(groups, adjacency.neighbours)
        lone = cls.count_lone_keys(groups, adjacency.neighbours)
        sigma = IntegerGaussian.for_rho(rho, Sensitivity.of(cells=moved)).sigma
        if sigma > _LARGEST:
            raise ParameterError(
                f"rho {number_text(exact(rho, 'rho'))} over {moved} keys needs sigma above "
                f"{_LARGEST}"
            )
        low, high = 1, 2 + ceil(20 * sigma)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _lone(sigma, middle, lone) <= allowed else (middle, high)
        if _lone(sigma, high, lone) > allowed:
            raise ParameterError(
                f"delta {number_text(allowed)} is below what a threshold can certify: choose a "
                f"larger one"
            )
        return cls(sigma, high, groups, *adjacency)

    @classmethod
    def count_lone_keys(cls, groups: int, neighbours: Neighbours) -> int:
        """The keys that delta counts: any of them may have one unit as its only owner."""
        return check_groups(groups, neighbours)

    def loss(self) -> ZCDP:
        """State what one release costs, as a loss."""
        lone = self.count_lone_keys(self.groups, self.neighbours)
        return ZCDP(
            self.moved / (2 * self.sigma * self.sigma),
            _lone(self.sigma, self.threshold, lone),
            neighbours=self.neighbours,
            unit=self.unit,
        )

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """The chance of a key to be shown, by its number of owners."""
        return ErrorTerms("key_threshold", {"sigma": self.sigma, "threshold": self.threshold})

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The sigma of the noise before the threshold."""
        return {"sigma": self.sigma}

    def describe(self) -> str:
        """Describe the rule in words."""
        noise = (
            f"integer Gaussian noise of sigma {number_text(self.sigma)} on the owners of every key"
        )
        return f"{noise}, which is shown from {self.threshold:,} on"

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """1 for every key that is shown, else 0; the noisy counts stay here."""
        is_chosen, _ = self.release(exact, source=source)
        return [int(chosen) for chosen in is_chosen]

    def release(
        self, counts: Any, *, source: Words | None = None
    ) -> tuple[NDArray[np.bool_], NDArray[Any]]:
        """Choose which keys to show; return that mask and the noisy counts, 0 for all other keys.

        Only the counts of keys that are shown may leave.
        """
        owners = owner_counts(counts)
        noisy = add(owners, discrete_gaussian(self.sigma, owners.shape, source=source))
        is_chosen: NDArray[np.bool_] = (noisy >= self.threshold) & (owners > 0)
        return is_chosen, np.where(is_chosen, noisy, 0)


@dataclass(frozen=True)
class ThresholdKeys(GaussianKeys):
    """The same rule. Its delta counts only the keys that one unit brings: m, also under replace."""

    stored_name: ClassVar[str] = "ThresholdKeys"  # in digests of stored releases: never changes

    @classmethod
    def count_lone_keys(cls, groups: int, neighbours: Neighbours) -> int:
        """The keys of one unit: it is the only owner of keys on one side of a replacement."""
        return groups


@dataclass(frozen=True)
class CountedKeys(ThresholdKeys):
    """The same rule and loss. It releases the noisy count of every key that it shows: the very
    number that reached the threshold. Nothing of other keys leaves."""

    stored_name: ClassVar[str] = "CountedKeys"  # in digests of stored releases: never changes

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """Column 0: the chance of a key to be shown. Column 1: the noise of a count that is."""
        chances = super().error_terms()
        return NoiseTerms("shown_count", chances.numbers, self.sigma) if column else chances

    def column_sensitivity(self, column: int = 0) -> Sensitivity | None:
        """How far one unit moves the counts: each of its keys by 1."""
        return Sensitivity.of(cells=self.moved) if column else None

    def describe(self) -> str:
        """Describe the rule in words."""
        return f"{super().describe()}, with the noisy count that reached it"

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The noisy count of every key that is shown, else 0, which no count of a shown key is."""
        _, noisy = self.release(exact, source=source)
        return [int(count) for count in noisy]


@lru_cache(maxsize=256)
def _lone(sigma: Fraction, threshold: int, keys: int) -> Fraction:
    """Bound the delta of lone owners: 1 - (1 - P(1 + Z >= threshold))^keys, rounded up to 64
    bits."""
    masses, total, rest = _weights(sigma)
    tail = Fraction(masses[threshold - 1] + rest if threshold - 1 < len(masses) else rest, total)
    lone = 1 - _power_down(1 - min(Fraction(1), tail), keys)
    bits = 64 + lone.denominator.bit_length() - lone.numerator.bit_length()
    return (
        Fraction(-(-(lone.numerator << bits) // lone.denominator), 1 << bits)
        if lone < 1
        else Fraction(1)
    )


def _power_down(base: Fraction, exponent: int) -> Fraction:
    """Compute base^exponent for 0 <= base <= 1, rounded down.

    It is exact for small exponents, else computed by repeated squaring. Each of at most 2
    log2(exponent) products is cut to `bits`: what is lost is below exponent * 2^(2 - bits), far
    below the 64 bits that are kept of 1 - base^exponent >= 1 - base.
    """
    if exponent <= _EXACT_POWERS or base == 1:
        return base**exponent
    lack = 1 - base
    bits = 256 + exponent.bit_length() + lack.denominator.bit_length() - lack.numerator.bit_length()
    factor = (base.numerator << bits) // base.denominator
    power = 1 << bits
    while exponent:
        if exponent & 1:
            power = power * factor >> bits
        factor = factor * factor >> bits
        exponent >>= 1
    return Fraction(power, 1 << bits)


@lru_cache(maxsize=16)
def _weights(sigma: Fraction) -> tuple[list[int], int, int]:
    """Compute sums of weights from k on, the total, and the rest that was cut off.

    The sums and the rest are upper ends, the total is a lower end.
    """
    weights = Law("gaussian", 1 / (2 * sigma * sigma), two_sided=True).weights(
        _BITS, until=_BITS - 64
    )
    before, last = weights[-2:]
    # log-concave: later ratios are no larger than last / before, so what follows sums to at most
    # last * ratio / (1 - ratio)
    rest = -(-last.high * last.high // (before.low - last.high))
    sums = list(accumulate(weight.high for weight in reversed(weights)))
    return sums[::-1], (1 << _BITS) + 2 * sum(w.low for w in weights[1:]), rest
