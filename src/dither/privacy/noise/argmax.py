"""Selection by noise, decided exactly: the index of the largest score[i] / scale + noise[i].

With Gumbel noise the winner has probability proportional to weight * exp(score / scale) (the
exponential mechanism, a candidate of weight w standing for w equal ones); with exponential noise it
is report-noisy-max, which is permute-and-flip. Noise is real-valued and never rounded: each
candidate has an interval that certainly holds its key, computed in float with a margin far above
any error of the machine's logarithm, and only candidates whose intervals reach the best lower end
are looked at again, with more bits, until one is left. Real noise has no ties.
docs/proofs/exact-sampling.md, theorem 5; weights and the sieve of long races:
docs/proofs/selection.md#weighted-race.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from fractions import Fraction
from numbers import Rational
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.canonical import quote
from dither.errors import ParameterError
from dither.privacy.noise.source import Words, check_source

Noise = Literal["gumbel", "exponential"]
_of_thread = threading.local()
_MARGIN = 2.0**-24  # relative and absolute; NumPy's log and log1p err by a few 2**-52
_SIEVED_FROM = 4096
_FEW = 256
"""How many candidates of a long race are looked at first: about as many as then may still win."""


def argmax_gumbel(
    scores: Sequence[int] | NDArray[Any],
    scale: Fraction | int,
    *,
    weights: Sequence[int] | NDArray[Any] | None = None,
    source: Words | None = None,
) -> int:
    """Draw an index in proportion to weights[i] * exp(scores[i] / scale).

    It is the index of the largest score / scale + Gumbel noise.

    >>> argmax_gumbel([0, 10**6, 3], 1), argmax_gumbel([5, 5, 5], 1, weights=[0, 1, 0])
    (1, 1)
    """
    checked = None if weights is None else _weights(weights, len(scores))
    return _argmax(scores, _scale(scale), "gumbel", check_source(source), weights=checked)


def argmax_exponential(
    scores: Sequence[int] | NDArray[Any],
    scale: Fraction | int,
    *,
    source: Words | None = None,
) -> int:
    """Draw the index of the largest score / scale + Exponential(1) noise.

    >>> argmax_exponential([0, 10**6, 3], 1)
    1
    """
    return _argmax(scores, _scale(scale), "exponential", check_source(source))


def _scale(value: Fraction | int) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, Rational) or value <= 0:
        raise ParameterError(f"scale must be a positive integer or Fraction, got {quote(value)}")
    return Fraction(int(value.numerator), int(value.denominator))


def _argmax(
    scores: Sequence[int] | NDArray[Any],
    scale: Fraction,
    noise: Noise,
    source: Words,
    width: int = 64,
    weights: NDArray[Any] | None = None,
) -> int:
    """Return the index of the largest gap / scale + noise, decided exactly.

    Every candidate's noise is a function of a uniform number, known at first by one word.
    Candidates that cannot win are dropped; while several may win, their uniform numbers get
    another word each. A candidate with weight 0 does not take part.
    """
    gaps = _gaps(scores)
    is_long = len(gaps) >= _SIEVED_FROM and gaps.dtype != object
    if weights is not None and not is_long and not weights.all():
        running = np.flatnonzero(weights)
        gaps = gaps[running]
        gaps = gaps if gaps.max() == 0 else _gaps(gaps)
        return int(running[_race(gaps, scale, noise, source, width, weights[running])])
    return _race(gaps, scale, noise, source, width, weights)


def _race(
    gaps: NDArray[Any],
    scale: Fraction,
    noise: Noise,
    source: Words,
    width: int,
    weights: NDArray[Any] | None,
) -> int:
    """The same for gaps of at most 0; a short race has no weights of 0."""
    words = source.words(len(gaps), width)
    candidates = _sieve(gaps, scale, weights, words, width, noise)
    weighed = None if weights is None else weights[candidates]
    low, high = _keys(_shares(gaps[candidates], scale, weighed), words[candidates], width, noise)
    drawn = {int(i): int(words[i]) for i in candidates[high >= low.max()]}
    bits = width
    while len(drawn) > 1:
        drawn = {i: word << width | int(source.words(1, width)[0]) for i, word in drawn.items()}
        bits += width
        weight = {i: 1 if weights is None else int(weights[i]) for i in drawn}
        keys = {
            i: _exact_key(int(gaps[i]) / scale, word, bits, noise, weight[i])
            for i, word in drawn.items()
        }
        best = max(key[0] for key in keys.values())
        drawn = {i: word for i, word in drawn.items() if keys[i][1] >= best}
    return next(iter(drawn))


def _weights(weights: Sequence[int] | NDArray[Any], count: int) -> NDArray[Any]:
    """Read weights: non-negative integers, one for each score, not all zero.

    Raises ParameterError for any other.
    """
    checked = weights if isinstance(weights, np.ndarray) else np.array(weights, object)
    if checked.dtype.kind not in "iu" and not all(
        isinstance(weight, int) for weight in checked.ravel()
    ):
        raise ParameterError(f"weights must be integers, got {checked.dtype}")
    if checked.shape != (count,) or not (checked >= 0).all() or not (checked > 0).any():
        raise ParameterError(
            "weights must be non-negative integers, one for each score, and not all zero"
        )
    return checked


def _sieve(
    gaps: NDArray[Any],
    scale: Fraction,
    weights: NDArray[Any] | None,
    words: NDArray[np.uint64],
    width: int,
    noise: Noise,
) -> NDArray[np.int64]:
    """Find the candidates that may win.

    A long race drops those that certainly lose to the best of a few. A Gumbel key is share - log(E)
    with E >= U >= word / 2**width: it reaches `best` only if word / 2**width is at most weight *
    exp(share - best). Exponential noise reaches best - share only if 1 - U is at most exp(share
    - best). So one exponential decides instead of several logarithms. Shares near `best` err by
    far less than the slack; far below it `reach` is under one word whatever the error, and only
    the last word survives.
    """
    if len(gaps) < _SIEVED_FROM or (weights is not None and weights.dtype == object):
        return _list_running(len(gaps), weights)
    shares = _shares(gaps, scale)
    few = np.append(np.arange(0, len(gaps), len(gaps) // _FEW), shares.argmax())
    few = few if weights is None else few[weights[few] != 0]
    best = -np.inf
    if len(few):
        weighed = None if weights is None else weights[few]
        best = _keys(_shares(gaps[few], scale, weighed), words[few], width, noise)[0].max()
    if not best > -1024.0:  # never seen: it takes a uniform closer to 1 than words can say
        return _list_running(len(gaps), weights)
    with np.errstate(all="ignore"):
        shares += width * math.log(2.0) - best + 2.0**-10
        reach = np.exp(shares, out=shares)
        if weights is not None:
            reach *= weights
    rests = words if noise == "gumbel" else np.uint64(2**width - 1) - words
    candidates = np.flatnonzero(rests.astype(np.float64) <= reach)
    return candidates if weights is None else candidates[weights[candidates] != 0]


def _list_running(count: int, weights: NDArray[Any] | None) -> NDArray[np.int64]:
    """List the candidates that take part: those whose weight is not 0."""
    return np.arange(count) if weights is None else np.flatnonzero(weights)


def _gaps(scores: Sequence[int] | NDArray[Any]) -> NDArray[Any]:
    """Compute score - max(score) exactly: integers of at most zero.

    Raises ParameterError unless all scores are integers.
    """
    checked = scores if isinstance(scores, np.ndarray) else np.array(scores, object)
    if checked.ndim != 1 or not len(checked):
        raise ParameterError("scores must be a non-empty list of integers")
    if checked.dtype.kind not in "iuO":
        raise ParameterError(f"scores must be integers, got {checked.dtype}")
    top_score = int(checked.max()) if checked.dtype.kind == "i" else 0
    if checked.dtype.kind != "i" or top_score - int(checked.min()) >= 1 << 63:
        whole = checked.tolist()
        if not all(
            isinstance(score, (int, np.integer)) and not isinstance(score, bool) for score in whole
        ):
            raise ParameterError("scores must be integers")
        top = max(int(score) for score in whole)
        wide = [int(score) - top for score in whole]
        return np.array(wide, np.int64 if min(wide) >= -(1 << 63) else object)
    gaps: NDArray[Any] = np.subtract(checked, top_score, dtype=np.int64)
    return gaps


def _keys(
    shares: NDArray[np.float64],
    words: NDArray[np.uint64],
    width: int,
    noise: Noise,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute certain lower and upper ends of every key, in float."""
    with np.errstate(all="ignore"):
        early, late = _waiting(words, width)
        if noise == "gumbel":
            low, high = shares - np.log(late), shares - np.log(early)
        else:
            low, high = shares + early, shares + late
        slack = _MARGIN * (
            1.0 + np.abs(shares) + np.minimum(np.abs(low), 1e3) + np.minimum(np.abs(high), 1e3)
        )
        low, high = low - slack, high + slack
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _shares(
    gaps: NDArray[Any], scale: Fraction, weights: NDArray[Any] | None = None
) -> NDArray[np.float64]:
    """Compute gap / scale + log(weight), to a few last digits of the larger term.

    It is minus infinity past the range of float64.
    """
    if weights is not None:
        logs: NDArray[np.float64] = _shares(gaps, scale)
        logs += (
            np.log(weights.astype(np.float64))
            if weights.dtype != object
            else [math.log(w) for w in weights]
        )
        return logs
    if gaps.dtype != object and 2.0**-1000 < scale < 2.0**1000:
        return gaps.astype(np.float64) / float(scale)
    least = Fraction(-(2**1000))
    exact = [Fraction(int(gap)) / scale for gap in gaps]
    return np.array([float(share) if share > least else -np.inf for share in exact])


def _waiting(
    words: NDArray[np.uint64], width: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Compute both ends of -log(1 - U) for U in [word, word + 1] / 2**width.

    Each has a small *relative* error. Below 1/2 by log1p of the word, above it by the log of the
    integer 2**width - word: never of a rounded difference.
    """
    start = words.astype(np.float64)
    to_one = (np.uint64(2**width - 1) - words).astype(np.float64)
    unit = 2.0**-width
    lower_half = words < np.uint64(1 << (width - 1))
    early = np.where(lower_half, -np.log1p(-start * unit), -np.log((to_one + 1.0) * unit))
    late = np.where(lower_half, -np.log1p(-(start + 1.0) * unit), -np.log(to_one * unit))
    return early, late


def _intervals() -> Any:
    """Return this thread's own context of interval arithmetic; it is made at the first call.

    The precision belongs to the context, and another thread may need another.
    """
    if not hasattr(_of_thread, "context"):
        from mpmath.ctx_iv import MPIntervalContext  # `load_libraries` of the kernel did it before

        _of_thread.context = MPIntervalContext()
    return _of_thread.context


def _exact_key(
    share: Fraction, drawn: int, bits: int, noise: Noise, weight: int = 1
) -> tuple[Any, Any]:
    """Compute both ends of a key, from `bits` bits of its uniform.

    It is by interval arithmetic of mpmath at twice the precision.
    """
    iv = _intervals()
    iv.prec = 2 * bits + 64 + weight.bit_length()
    whole = iv.mpf(1 << bits)
    last = drawn + 1 == 1 << bits
    base = iv.mpf(share.numerator) / iv.mpf(share.denominator)

    def waited(word: int) -> Any:
        return -iv.log(1 - iv.mpf(word) / whole)

    early = waited(drawn)
    late = iv.mpf([early.a, "inf"]) if last else waited(drawn + 1)
    if noise == "exponential":
        return (base + early).a, (base + late).b
    if weight != 1:
        base += iv.log(iv.mpf(weight))
    low = iv.mpf("-inf").a if last else (base - iv.log(late)).a
    high = iv.mpf("inf").b if drawn == 0 else (base - iv.log(early)).b
    return low, high
