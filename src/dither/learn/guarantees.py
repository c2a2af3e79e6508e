"""What a fitted model promises, and the budget that a promise buys.

Gaussian noise composes exactly: releases of rho_1, rho_2, ... together are Gaussian noise of the
rho that is their sum. So (epsilon, delta) is turned into one rho, once, by the closed form of the
accountant. Proof: docs/proofs/private-learning.md#composition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from numbers import Integral, Real
from typing import Any

from dither.accounting import epsilon as find_epsilon
from dither.accounting.gaussian import gaussian_delta
from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.learn.sums import ReleasePlan
from dither.privacy.losses import Adjacency, Loss

LIBRARY = "library guarantee: the caller held the data; no ledger was charged"
LEDGER = "paid from the ledger of a curator; training saw noisy sums alone"
_BITS = 40


@dataclass(frozen=True)
class ModelGuarantee:
    """(epsilon, delta) for all that training released, with what it rests on."""

    epsilon: float
    delta: float
    unit: str
    neighbours: str
    trust: str
    releases: int
    loss: dict[str, Any]
    tuning: str = "no tuning: one fit, its settings by rule from public numbers"
    public: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """A plain dict."""
        return dict(vars(self))


@lru_cache(maxsize=64)
def find_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """The largest rho, to 40 bits, whose Gaussian noise is (epsilon, delta)-private.

    >>> round(float(find_rho(Fraction(1), Fraction(1, 10**5))) * 2 * 3.7306**2, 3)
    1.0
    """
    low = Fraction(0)
    high = Fraction(1)
    while gaussian_delta(2 * high, epsilon).upper <= delta:
        low = high
        high *= 2
    for _ in range(_BITS):
        middle = (low + high) / 2
        is_private = gaussian_delta(2 * middle, epsilon).upper <= delta
        low, high = (middle, high) if is_private else (low, middle)
    return low


def read_people(n: Any) -> int:
    """The declared number of people; refused where there is none."""
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n <= 10**12:
        raise ParameterError(
            "n is the public number of people (or an upper bound), such as n=10_000: declare it "
            "or buy a noisy count; it is never counted in X"
        )
    return n


_NUMBERS = ("clip", "learning_rate", "penalty", "smoothing")
_WHOLE_NUMBERS = ("steps", "n_components")
_MAY_BE_LEFT_OUT = ("clip", "learning_rate", *_WHOLE_NUMBERS)


def check_settings(parameters: Mapping[str, Any]) -> None:
    """Refuse a setting that is no number; its range is checked where it is used."""
    for name in (*_NUMBERS, *_WHOLE_NUMBERS):
        value = parameters.get(name, 1)
        if value is None and name in _MAY_BE_LEFT_OUT:
            continue
        kind = Integral if name in _WHOLE_NUMBERS else Real
        if isinstance(value, bool) or not isinstance(value, kind):
            words = "a whole number" if name in _WHOLE_NUMBERS else "a number"
            raise ParameterError(f"{name} is {words}, got {quote(value)}: choose e.g. 1")


def read_delta(delta: Number | None, people: int) -> Fraction:
    """The stated delta; else the smaller of 1e-5 and a tenth of 1 / people."""
    if delta is None:
        return min(Fraction(1, 10**5), Fraction(1, 10 * people))
    chosen = positive(delta, "delta")
    if chosen >= Fraction(1, people):
        raise ParameterError(
            f"delta must be below 1 / n: at delta >= 1 / {people:,} a mechanism may publish a "
            f"person. Leave it out for min(1e-5, 0.1 / n)"
        )
    return chosen


def read_budget(epsilon: Number | None) -> Fraction:
    """The stated epsilon; refused where there is none."""
    if epsilon is None:
        raise ParameterError("epsilon has no default: choose e.g. epsilon=1")
    return positive(epsilon, "epsilon")


def make_ledger_guarantee(
    plan: ReleasePlan,
    delta: Fraction,
    adjacency: Adjacency,
    public: dict[str, Any],
    grid_steps: int,
) -> ModelGuarantee:
    """The guarantee of a fit on a table: the losses that were charged."""
    loss = plan.find_loss(adjacency, grid_steps) * plan.releases
    return ModelGuarantee(
        epsilon=find_epsilon(loss, delta).upper,
        delta=float(delta),
        unit=adjacency.unit,
        neighbours=adjacency.neighbours,
        trust=LEDGER,
        releases=plan.releases,
        loss=loss.to_json(),
        public=public,
    )


def make_library_guarantee(
    loss: Loss, releases: int, delta: Fraction, public: dict[str, Any]
) -> ModelGuarantee:
    """The guarantee of a fit on arrays, by the accountant from the losses of its releases."""
    return ModelGuarantee(
        epsilon=find_epsilon(loss, delta).upper,
        delta=float(delta),
        unit=loss.unit,
        neighbours=loss.neighbours,
        trust=LIBRARY,
        releases=releases,
        loss=loss.to_json(),
        public=public,
    )
