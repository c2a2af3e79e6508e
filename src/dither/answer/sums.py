"""How far a weighted sum of independent noises lies from 0, at any level and for any number of
terms: an upper bound.

Each noise is rounded up to a grid of step h, which only makes the sum larger, and cut off where all
cuts together take a fortieth of the miss. The laws on the grid are convolved by FFT; what float64
does to a tail is far below 1e-11 a term and is taken off too. So the bound holds for certain, and
is too wide by at most the number of terms times h. Noise is symmetric: each side has half of the
miss. Noises of one box are not independent: for them there is the union bound. Proof:
docs/proofs/intervals.md#one-number-and-affine-functions.

>>> from dither.answer.draws import make_noise_law
>>> from dither.laws import LaplaceErrorLaw
>>> law = make_noise_law(LaplaceErrorLaw(Fraction(1000)))
>>> half = find_sum_bound((law, law), (1.0, 1.0), Fraction(999_999, 1_000_000))
>>> law.half_width(Fraction(999_999, 1_000_000)) < half < 2 * law.half_width(Fraction(1_999_999,
...     2_000_000))
True
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.answer.draws import NoiseLaw
from dither.laws import Floats

_FLOAT_ERROR = 1e-11
_LEAST_MISS = 1e-8
_CUT = Fraction(1, 40)
_MANY = 16


def find_union_bound(
    laws: tuple[NoiseLaw, ...], weights: tuple[float, ...], level: Fraction
) -> float:
    """Bound a weighted sum of noises: every noise lies inside its own, wider bound.

    The probability of the miss is shared equally (the union bound).
    """
    own_level = 1 - (1 - level) / max(1, len(laws))
    return sum(
        abs(weight) * law.half_width(own_level) for law, weight in zip(laws, weights, strict=True)
    )


@lru_cache(maxsize=256)
def find_sum_bound(
    laws: tuple[NoiseLaw, ...], weights: tuple[float, ...], level: Fraction, cells: int = 0
) -> float:
    """Find a w with P(|sum of weight * noise| <= w) at least the level.

    It is computed by convolution of the laws, rounded up, on `cells` steps; never above the union
    bound.
    """
    terms = [(law, abs(weight)) for law, weight in zip(laws, weights, strict=True) if weight]
    union_bound = find_union_bound(laws, weights, level)
    miss = float(1 - level)
    if (
        len(terms) <= 1
        or miss < _LEAST_MISS * len(terms)
        or any(law.joint is not None for law, _ in terms)
    ):
        return union_bound
    cut = 1 - Fraction(miss) * _CUT / len(terms)
    reaches = [weight * (law.half_width(cut) + 1) for law, weight in terms]
    step = 2 * sum(reaches) / (cells or (1 << 16 if len(terms) <= _MANY else 1 << 18))
    sizes = [int(np.ceil(reach / step)) for reach in reaches]
    length = 1 << (2 * sum(sizes) + len(terms)).bit_length()
    transforms: dict[tuple[NoiseLaw, float, int], NDArray[np.complex128]] = {}
    product = np.ones(length // 2 + 1, np.complex128)
    for (law, weight), size in zip(terms, sizes, strict=True):
        key = (law, weight, size)
        if key not in transforms:
            transforms[key] = np.fft.rfft(_round_law_up(law, weight, step, size), length)
        product *= transforms[key]
    mass = np.maximum(np.fft.irfft(product, length), 0)
    beyond = np.cumsum(mass[::-1])[::-1]  # P(sum >= (index - sum(sizes)) * step)
    room = miss / 2 * float(1 - _CUT) - _FLOAT_ERROR * len(terms)
    # The last index whose tail is too heavy: the bound itself.
    index = int(np.argmax(beyond <= room)) - 1
    return float(min(union_bound, max(0, index - sum(sizes)) * step))


def _round_law_up(law: NoiseLaw, weight: float, step: float, size: int) -> Floats:
    """Compute P(noise rounded up = k step) for k = -size..size.

    All below counts as the lowest, all above is left out.
    """
    edges = np.arange(-size - 1, size + 1, dtype=np.float64) * step / weight
    more = law.error.above(np.floor(edges - np.abs(edges) * 1e-15 - 1e-9))
    more[0] = 1.0
    masses: Floats = more[:-1] - more[1:]
    return masses
