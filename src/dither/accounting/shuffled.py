"""Amplification by shuffling as a law that composes: Feldman, McMillan and Talwar 2021, theorem
3.2.

Above: n mixed reports of an eps0-local randomiser are dominated by X = A + D against A + 1 - D,
seen together with C, where C ~ Bin(n-1, e^-eps0), A ~ Bin(C, 1/2), D ~ Bernoulli(e^eps0/(1 +
e^eps0)). With t = tanh(eps0/2), m = C + 1 and d = 2X - m this is P(X | C) = Bin(m, 1/2)(X) (1 + t
d/m) and a loss of 2 artanh(t d/m): the same seen from both sides. C is rounded *down* to a grid,
which only adds to the loss: a further fair coin is post-processing. Below: binary randomised
response, all others reporting zero. Proofs: docs/proofs/composition.md, section 7.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.accounting.transforms import UNIT, AtomsFactor, Real, pairwise
from dither.accounting.trapezoid import OutOfReach

_TAIL = 120.0  # what is cut has a probability below 2 e^-120
_GROUPS = 96
_ATOMS = 200_000
_MOST = 1_000_000


def _divergence(x: float, p: float) -> float:
    """KL divergence of two coins, the exponent of Chernoff's bound."""
    first = x * math.log(x / p) if x > 0 else 0.0
    return first + ((1 - x) * math.log((1 - x) / (1 - p)) if x < 1 else 0.0)


def _window(count: int, p: float) -> tuple[int, int]:
    """Find the values outside which Bin(count, p) has a probability below 2 e^-120 (Chernoff).

    One more value is counted at each end.
    """
    mode = min(count, int((count + 1) * p))
    goal = _TAIL / count * (1 + 1e-9)
    ends = []
    for far in (0, count):
        near = mode
        beyond = far
        if _divergence(far / count, p) <= goal:
            ends.append(far)
            continue
        while abs(beyond - near) > 1:
            middle = (near + beyond) // 2
            near, beyond = (
                (near, middle) if _divergence(middle / count, p) > goal else (middle, beyond)
            )
        ends.append(beyond)
    return ends[0], ends[1]


def _binomial(count: int, p: float, relative: float) -> tuple[NDArray[np.int64], Real, Real]:
    """Compute (values, masses, relative errors) of Bin(count, p) on its window.

    The masses come by ratios from the mode; the odds are known to `relative`.
    """
    first, last = _window(count, p)
    if last - first > _MOST:
        raise OutOfReach
    values = np.arange(first, last + 1, dtype=np.int64)
    mode = min(max(int((count + 1) * p), first), last)
    right = (count - values[:-1]) / (values[:-1] + 1) * (p / (1 - p))
    weights = np.ones(len(values))
    weights[mode - first + 1 :] = np.cumprod(right[mode - first :])
    weights[: mode - first] = np.cumprod(1 / right[: mode - first][::-1])[::-1]
    total = float(pairwise(weights))
    ratio_error = 6 * UNIT + relative
    steps = np.abs(values - mode)
    spread = steps * ratio_error + float(np.sum(weights * steps)) / total * ratio_error + 64 * UNIT
    return values, weights / total, spread * 1.01


@lru_cache(maxsize=64)
def clones(epsilon: Fraction, users: int, count: int) -> AtomsFactor:
    """Make the pair that dominates `count` shuffled rounds, on either side.

    Raises OutOfReach where it is too large.
    """
    eps = float(epsilon)
    if eps > 24:  # hardly anybody reports at random: nothing is gained
        raise OutOfReach
    if users == 1:
        blanket = np.zeros(1, np.int64)
        chance = np.ones(1)
        blur = np.zeros(1)
    else:
        blanket, chance, blur = _binomial(
            users - 1, math.exp(-eps), 16 * UNIT * (1 + eps / -math.expm1(-eps))
        )
    wide = 1 + 2 * math.isqrt(int(blanket[-1] * _TAIL / 2) + 1)
    size = -(-len(blanket) // max(12, min(_GROUPS, _ATOMS // wide)))
    windows = [_window(int(blanket[start]) + 1, 0.5) for start in range(0, len(blanket), size)]
    if sum(last - first + 1 for first, last in windows) > _MOST:  # before any of them is computed
        raise OutOfReach
    losses = []
    masses = []
    errors = []
    turn = math.tanh(eps / 2)
    for start in range(0, len(blanket), size):
        coins = int(blanket[start]) + 1
        x, fair, wrong = _binomial(coins, 0.5, 0.0)
        lean = turn * (2 * x - coins) / coins
        losses.append(2 * np.arctanh(lean))
        masses.append(float(np.sum(chance[start : start + size])) * fair * (1 + lean))
        errors.append(float(np.max(blur[start : start + size])) + wrong + 64 * UNIT / (1 - turn))
    atom_losses = np.concatenate(losses)
    # the argument of artanh is known to 8 units, and near one it amplifies by lean / ((1 - lean^2)
    # artanh(lean))
    amplified = 16 * UNIT * (1 + 1 / (1 - turn) / max(1.0, eps))
    missing = 8 * math.exp(-_TAIL)
    atom_errors = np.concatenate(errors)
    return AtomsFactor(
        atom_losses, np.concatenate(masses), count, atom_errors, missing, missing, None, amplified
    )


@lru_cache(maxsize=64)
def responses(epsilon: Fraction, users: int, count: int) -> AtomsFactor:
    """Make one mechanism that the theorem is about, for a lower bound.

    It is shuffled randomised response, everybody else holding a zero.
    """
    eps = float(epsilon)
    truth = 1 / (1 + math.exp(-eps))
    if users == 1:
        y = np.zeros(1, np.int64)
        chance = np.ones(1)
        blur = np.zeros(1)
    else:
        y, chance, blur = _binomial(users - 1, 1 - truth, 16 * UNIT * (1 + eps))
    # x = y + a coin; where the window was cut its edges are dropped, which lowers the curve
    low = np.append(chance, 0.0)  # y = x
    high = np.append(0.0, chance)  # y = x - 1
    p = truth * high + (1 - truth) * low
    q = (1 - truth) * high + truth * low
    kept = slice(None if y[0] == 0 else 1, None if y[-1] == users - 1 else -1)
    p = p[kept]
    q = q[kept]
    error = 2 * np.max(blur, initial=0.0) + 64 * UNIT * (1 + eps)
    shift = np.log(p / q)
    least = np.maximum(np.abs(shift), 1e-300)
    relative = np.minimum(np.where(np.abs(shift) > 0, 2 * error / least, 0.0), 1.0)
    return AtomsFactor(
        shift, p, count, error, 4 * math.exp(-_TAIL), 4 * math.exp(-_TAIL), None, relative
    )
