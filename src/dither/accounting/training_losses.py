"""Losses of training runs that no question of a session can have: outside the trusted part.

They are frozen trees like all losses (`dither.privacy.losses`), stored by the same rules, and read
back wherever the accountant is imported. No pot pays for them: every rule of pots refuses them.
Proofs: docs/proofs/training-losses.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from dither.canonical import Number, exact, fraction_text, positive
from dither.errors import ParameterError
from dither.privacy.losses import GaussianSum, Loss, Neighbours, WrappingLoss
from dither.privacy.numbers import Exact, count, not_negative, rate
from dither.stored import stored

_MOST_COMPONENTS = 1_000


def _given(check: Any, **options: Any) -> Any:
    """A dataclass field; a number is checked and made exact when the loss is built."""
    return field(metadata={"check": check} if check else {}, **options)


def _read_buckets(value: Any, name: str) -> int:
    number = count(value, name)
    if number < 2:
        raise ParameterError(f"{name} must be at least 2, got {number}")
    return number


def _read_halting(value: Any, name: str) -> Fraction:
    number = rate(value, name)
    if number == 1:
        raise ParameterError(f"{name} lies strictly between 0 and 1: at 1 there is one run alone")
    return number


def _read_components(value: Any, name: str) -> str:
    """Read shifts with their probabilities, and write them as the text that is stored.

    They come as pairs or as that text; the result is in canonical order. Raises ParameterError
    unless the probabilities sum to 1.
    """
    pairs = value
    if isinstance(value, str):
        pairs = [tuple(entry.split(":")) for entry in value.split(" ")]
    if (
        not isinstance(pairs, Sequence)
        or not 1 <= len(pairs) <= _MOST_COMPONENTS
        or any(len(pair) != 2 for pair in pairs)
    ):
        raise ParameterError(
            f"{name} are pairs (shift, probability), such as [(0, '0.9'), (1, '0.1')], "
            f"at most {_MOST_COMPONENTS:,} of them"
        )
    merged: dict[Fraction, Fraction] = {}
    for shift, probability in pairs:
        size = not_negative(shift, "a shift")
        merged[size] = merged.get(size, Fraction(0)) + positive(probability, "a probability")
    if sum(merged.values()) != 1:
        raise ParameterError(
            f"the probabilities of {name} must sum to 1 exactly: write them as p/q"
        )
    if max(merged) == 0:
        raise ParameterError(f"some shift of {name} must be positive: else nothing is spent")
    return " ".join(f"{fraction_text(key)}:{fraction_text(merged[key])}" for key in sorted(merged))


@stored(epsilon="epsilon", buckets="buckets")
@dataclass(frozen=True, repr=False, eq=False)
class KaryResponse(Loss):
    """Randomised response over `buckets` values: the true one with probability e^eps/(e^eps + k -
    1)."""

    type = "kary_response"
    epsilon: Exact = _given(positive)
    buckets: int = _given(_read_buckets)
    neighbours: Neighbours = field(default="replace", kw_only=True)


@stored(sigma="sigma", components="components")
@dataclass(frozen=True, repr=False, eq=False)
class GaussianMixture(Loss):
    """N(0, sigma^2) without the unit; with it, a mixture of N(shift, sigma^2) with probabilities.

    Also vectors: shifts of these norms, in any directions (docs/proofs/training-losses.md).

    >>> GaussianMixture(2, [(0, "0.9"), (1, "0.1")]).pairs
    ((Fraction(0, 1), Fraction(9, 10)), (Fraction(1, 1), Fraction(1, 10)))
    """

    type = "gaussian_mixture"
    sigma: Exact = _given(positive)
    components: str | Sequence[tuple[Number, Number]] = _given(_read_components)

    @property
    def pairs(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """Read the stored text as pairs (shift, probability), the smallest shift first."""
        assert isinstance(self.components, str)
        entries = (entry.split(":") for entry in self.components.split(" "))
        return tuple(
            (exact(shift, "shift"), exact(probability, "probability"))
            for shift, probability in entries
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_relation(self, "add_remove")


@stored(q="q", batch_limit="batch_limit", population_size="population_size", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class TruncatedPoissonSampled(WrappingLoss):
    """A Gaussian sum on a Poisson sample that is cut to `batch_limit` units, chosen at random.

    `population_size` bounds the number of units that there are, publicly.
    """

    type = "truncated_poisson_sampled"
    q: Exact = _given(rate)
    batch_limit: int = _given(count)
    population_size: int = _given(count)
    loss: Loss = _given(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_relation(self, "add_remove")
        _refuse_other_sums(self, self.loss)


@stored(sample_size="sample_size", population_size="population_size", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class SampledWithReplacement(WrappingLoss):
    """A Gaussian sum on `sample_size` draws out of a public number of units, each draw from all."""

    type = "sampled_with_replacement"
    sample_size: int = _given(count)
    population_size: int = _given(count)
    loss: Loss = _given(None)

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_relation(self, "replace")
        _refuse_other_sums(self, self.loss)


@stored(shape="shape", halting="halting", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class BestOfNegativeBinomial(WrappingLoss):
    """The best of a hidden random number of runs, by a truncated negative binomial law.

    P(K = k) ~ (1 - halting)^k (shape)_k / k!, k >= 1; shape 1 is the geometric law, shape 0 the
    logarithmic one (Papernot and Steinke 2022). Nothing of the other runs leaves, nor K.
    """

    type = "best_of_negative_binomial"
    shape: Exact = _given(not_negative)
    halting: Exact = _given(_read_halting)
    loss: Loss = _given(None)


@stored(mean="mean", loss="loss")
@dataclass(frozen=True, repr=False, eq=False)
class BestOfPoisson(WrappingLoss):
    """The best of a hidden Poisson number of runs; nothing at all where that number is zero."""

    type = "best_of_poisson"
    mean: Exact = _given(positive)
    loss: Loss = _given(None)


def _refuse_relation(loss: Loss, relation: Neighbours) -> None:
    """Raise ParameterError unless a loss is stated for the neighbours that it is proved for."""
    if loss.neighbours != relation:
        raise ParameterError(
            f"{type(loss).__name__} is proved for neighbours={relation!r}: state it, and what it "
            f"holds, so"
        )


def _refuse_other_sums(loss: Loss, inner: Loss) -> None:
    """Raise ParameterError unless a loss holds a GaussianSum."""
    if not isinstance(inner, GaussianSum):
        raise ParameterError(
            f"{type(loss).__name__} holds a GaussianSum(sigma, clip_norm), got "
            f"{type(inner).__name__}: the norm of one unit's vector decides what a draw costs"
        )


TRAINING_LOSSES: tuple[type[Loss], ...] = (
    KaryResponse,
    GaussianMixture,
    TruncatedPoissonSampled,
    SampledWithReplacement,
    BestOfNegativeBinomial,
    BestOfPoisson,
)
