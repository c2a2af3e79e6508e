"""Selection by noise, decided exactly: the index of the largest score[i] / scale + noise[i].

With Gumbel noise the winner has probability proportional to exp(score / scale) (the exponential mechanism); with
exponential noise it is report-noisy-max. Noise is real-valued, so it is never rounded: each candidate has an interval
that certainly holds its key, computed in float with a margin far above any error of the machine's logarithm, and
only candidates whose intervals reach the best lower end are looked at again, with more bits, until one is left.
Real noise has no ties. docs/proofs/exact-sampling.md, theorem 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.privacy.noise.source import Words, check_source

Noise = Literal["gumbel", "exponential"]
_MARGIN = 2.0**-24  # relative and absolute; NumPy's log and log1p err by a few 2**-52


def argmax_gumbel(scores: Sequence[int] | NDArray[Any], scale: Fraction | int, *, source: Words | None = None) -> int:
    """The index of the largest score / scale + Gumbel: i with probability proportional to exp(score[i] / scale).

    >>> argmax_gumbel([0, 10**6, 3], 1)
    1
    """
    return _argmax(scores, Fraction(scale), "gumbel", check_source(source))


def argmax_exponential(
    scores: Sequence[int] | NDArray[Any], scale: Fraction | int, *, source: Words | None = None
) -> int:
    """The index of the largest score / scale + Exponential(1).

    >>> argmax_exponential([0, 10**6, 3], 1)
    1
    """
    return _argmax(scores, Fraction(scale), "exponential", check_source(source))


def _argmax(scores: Sequence[int] | NDArray[Any], scale: Fraction, noise: Noise, source: Words, width: int = 64) -> int:
    gaps = _gaps(scores)
    if scale <= 0:
        raise ParameterError(f"scale must be positive, got {scale}")
    words = source.words(len(gaps), width)
    low, high = _keys(gaps, scale, words, width, noise)
    rivals = np.flatnonzero(high >= low.max())
    drawn = {int(i): int(words[i]) for i in rivals}
    bits = width
    while len(drawn) > 1:
        drawn = {i: word << width | int(source.words(1, width)[0]) for i, word in drawn.items()}
        bits += width
        keys = {i: _exact_key(int(gaps[i]) / scale, word, bits, noise) for i, word in drawn.items()}
        best = max(key.a for key in keys.values())
        drawn = {i: word for i, word in drawn.items() if keys[i].b >= best}
    return next(iter(drawn))


def _gaps(scores: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """score - max(score): integers, exact, at most zero."""
    given = np.asarray(scores)
    if given.ndim != 1 or not len(given):
        raise ParameterError("scores must be a non-empty list of integers")
    if given.dtype == object or given.dtype.kind == "u":
        whole = [int(score) for score in scores]
        if any(score != exact for score, exact in zip(scores, whole, strict=True)):
            raise ParameterError("scores must be integers")
        top = max(whole)
        return np.array([score - top for score in whole], object)
    if given.dtype.kind != "i":
        raise ParameterError(f"scores must be integers, got {given.dtype}")
    if int(given.max()) - int(given.min()) >= 1 << 63:
        return _gaps(given.astype(object))
    gaps: NDArray[Any] = given.astype(np.int64) - int(given.max())
    return gaps


def _keys(
    gaps: NDArray[Any], scale: Fraction, words: NDArray[np.uint64], width: int, noise: Noise
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Certain lower and upper ends of every key, in float."""
    with np.errstate(all="ignore"):
        shares = gaps.astype(np.float64) / float(scale)
        early, late = _waiting(words, width)
        if noise == "gumbel":
            low, high = shares - np.log(late), shares - np.log(early)
        else:
            low, high = shares + early, shares + late
        slack = _MARGIN * (1.0 + np.abs(shares) + np.minimum(np.abs(low), 1e3) + np.minimum(np.abs(high), 1e3))
        low, high = low - slack, high + slack
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _waiting(words: NDArray[np.uint64], width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """-log(1 - U) at both ends of U in [word, word + 1] / 2**width, each with a small *relative* error.

    Below 1/2 by log1p of the word, above it by the log of the integer 2**width - word: never of a rounded difference.
    """
    start = words.astype(np.float64)
    left = (np.uint64(2**width - 1) - words).astype(np.float64)
    unit = 2.0**-width
    lower_half = words < np.uint64(1 << (width - 1))
    early = np.where(lower_half, -np.log1p(-start * unit), -np.log((left + 1.0) * unit))
    late = np.where(lower_half, -np.log1p(-(start + 1.0) * unit), -np.log(left * unit))
    return early, late


def _exact_key(share: Fraction, drawn: int, bits: int, noise: Noise) -> Any:
    """Interval of a key at `bits` bits of its uniform, by interval arithmetic of mpmath at twice the precision."""
    iv = MPIntervalContext()
    iv.prec = 2 * bits + 64
    whole = iv.mpf(1 << bits)
    early = -iv.log(1 - iv.mpf(drawn) / whole)
    last = drawn + 1 == 1 << bits
    late = iv.mpf([early.a, "inf"]) if last else -iv.log(1 - iv.mpf(drawn + 1) / whole)
    base = iv.mpf(share.numerator) / iv.mpf(share.denominator)
    if noise == "exponential":
        return iv.mpf([(base + early).a, (base + late).b])
    if drawn == 0:
        return iv.mpf([(base - iv.log(late)).a, "inf"])
    if last:
        return iv.mpf(["-inf", (base - iv.log(early)).b])
    return iv.mpf([(base - iv.log(late)).a, (base - iv.log(early)).b])
