"""Randomised response.

The truth has probability e^eps / (e^eps + k - 1), the k - 1 lies share the rest equally.

Guarantee: epsilon-DP for the one who answers (neighbours: any two values, `replace`); binary it is
the loss RandomizedResponse(epsilon), k-ary Pure(epsilon). The chance to lie, (k - 1) / (e^eps + k -
1), is a real number: it is enclosed and compared with uniform bits exactly. Proof:
docs/proofs/randomised-response.md#k-ary.

>>> coin = RandomisedResponse(Fraction(11, 10), categories=2)
>>> f"{coin.error().truth:.4f}", coin.loss()
('0.7503', RandomizedResponse(epsilon=11/10, neighbours='replace', unit='unit'))
>>> [round(x) for x in coin.error().estimate([6001, 3999])]
[7000, 3000]
>>> sorted(set(coin.release([0, 1] * 100).tolist()))
[0, 1]
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.canonical import Number, exact, positive, quote
from dither.errors import ParameterError
from dither.privacy.losses import Loss, Neighbours, Pure, RandomizedResponse
from dither.privacy.mechanisms.additive import exact_integers
from dither.privacy.noise import Words, uniform_below
from dither.privacy.noise.enclosed import decide, words_for_yes
from dither.privacy.noise.enclosure import Enclosure, exp_minus
from dither.privacy.noise.source import check_source


@dataclass(frozen=True)
class ResponseErrorLaw:
    """What is lost by lying: unbiased estimates of how many hold each value, and their variance."""

    epsilon: Fraction
    categories: int

    @property
    def truth(self) -> float:
        """P(answer = value) = e^eps / (e^eps + k - 1)."""
        return 1 / (1 + (self.categories - 1) * math.exp(-float(self.epsilon)))

    @property
    def lie(self) -> float:
        """P(answer = another given value) = 1 / (e^eps + k - 1)."""
        return (1 - self.truth) / (self.categories - 1)

    @property
    def variance(self) -> float:
        """Of the estimate of a count, for each person who does not hold the value: (e^eps + k - 2)
        / (e^eps - 1)^2."""
        return self.lie * (1 - self.lie) / (self.truth - self.lie) ** 2

    def estimate(self, answers: Sequence[int] | NDArray[Any]) -> list[float]:
        """Unbiased counts from counts of answers: (answers - n lie) / (truth - lie).

        May be negative.
        """
        people = sum(int(count) for count in answers)
        return [(int(count) - people * self.lie) / (self.truth - self.lie) for count in answers]

    def bound(self, people: int, confidence: Number) -> float:
        """By Chebyshev: how far an estimated share may be off, at this confidence (binary)."""
        doubt = float(1 - exact(confidence, "confidence"))
        return math.sqrt(1 / doubt) / (2 * (self.truth - self.lie) * math.sqrt(people))


@dataclass(frozen=True)
class RandomisedResponse:
    """Answers for values 0 to categories - 1, each person on their own."""

    epsilon: Fraction
    categories: int = 2
    neighbours: Neighbours = "replace"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make epsilon exact, and check categories and neighbours."""
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        is_integer = isinstance(self.categories, int) and not isinstance(self.categories, bool)
        if not is_integer or not 2 <= self.categories <= 1 << 62:
            raise ParameterError(
                f"categories must be an integer of at least 2, got {quote(self.categories)}"
            )
        if self.neighbours != "replace":
            raise ParameterError(
                "randomised response protects a value, not whether someone answers: use replace"
            )
        self.loss()

    def loss(self) -> Loss:
        """What one answer costs the one who gives it."""
        kind = RandomizedResponse if self.categories == 2 else Pure
        return kind(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def error(self) -> ResponseErrorLaw:
        """How answers turn into estimates."""
        return ResponseErrorLaw(self.epsilon, self.categories)

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """Draw one randomised answer for every value.

        Raises ParameterError for values that are no category.
        """
        codes = exact_integers(values)
        if codes.size and not (int(codes.min()) >= 0 and int(codes.max()) < self.categories):
            raise ParameterError(f"values must lie in 0 to {self.categories - 1}")
        supply = check_source(source)
        lie = partial(lie_chance, self.epsilon, self.categories)
        bar = _bar(self.epsilon, self.categories)
        drawn = supply.words(codes.size).reshape(codes.shape)
        lying = drawn < np.uint64(bar)
        for index in np.argwhere(drawn == np.uint64(bar)):
            lying[tuple(index)] = decide(lie, int(drawn[tuple(index)]), supply)
        shift = 1 + uniform_below(self.categories - 1, codes.shape, source=supply)
        moved: NDArray[Any] = (codes.astype(np.int64) + np.where(lying, shift, 0)) % self.categories
        return moved


def lie_chance(epsilon: Fraction, categories: int, bits: int) -> Enclosure:
    """Enclose (k - 1) a / (1 + (k - 1) a) with a = e^-eps, which grows with a."""
    work = bits + 64
    a = exp_minus(epsilon, work)
    full = 1 << work
    wrong_categories = categories - 1
    low, high = (wrong_categories * end for end in a)
    return Enclosure((low << bits) // (full + low), -(-(high << bits) // (full + high)))


@lru_cache(maxsize=64)
def _bar(epsilon: Fraction, categories: int) -> int:
    return words_for_yes(partial(lie_chance, epsilon, categories))
