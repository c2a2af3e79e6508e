"""Integer noise on a box: P(z) proportional to exp(-max_i(|z_i| / side_i) / scale), exactly.

Proposals are independent: coordinate i is discrete Laplace of scale d * side_i * scale, so that z
has probability proportional to exp(-mean_i(y_i)), y_i = |z_i| / (side_i * scale). One is accepted
with probability exp(-(max y - mean y)), at most 1, which leaves exp(-max y). About d! / d^d of the
proposals are. Float arithmetic (only + and *) bounds that probability within 2**-40; a uniform that
falls inside the bound is decided exactly. docs/proofs/box-noise.md, theorem 2.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.privacy.noise.enclosure import exp_minus
from dither.privacy.noise.samplers import discrete_laplace
from dither.privacy.noise.source import Words
from dither.privacy.noise.wide_tables import below_exp

_MARGIN = 2.0**-40
_REACH = 64  # exponents beyond it are decided exactly
_PARTS = 8  # a step of the table of e**-x is 1/8
_DEGREE = 10  # (1/8)**11 / 11! < 2**-58
_BITS = 53
_BLOCK = 1 << 14


def box_noise(sides: tuple[int, ...], scale: Fraction, count: int, source: Words) -> NDArray[Any]:
    """Draw `count` independent box noises, one row each.

    They are int64, or Python integers where a scale or an element needs them.
    """
    blocks: list[NDArray[Any]] = []
    missing = count
    share = math.factorial(len(sides)) / len(sides) ** len(sides)
    while missing > 0:
        tried = min(_BLOCK, math.ceil(1.1 * missing / share) + 4)
        columns = [
            discrete_laplace(len(sides) * length * scale, tried, source=source) for length in sides
        ]
        wide = any(column.dtype == object for column in columns)
        values = np.stack(
            [column.astype(object) for column in columns] if wide else columns, axis=1
        )
        kept = values[_accepted(values, sides, scale, source)][:missing]
        blocks.append(kept)
        missing -= len(kept)
    if not blocks:
        return np.zeros((0, len(sides)), np.int64)
    return np.concatenate(blocks)


def _accepted(
    values: NDArray[Any], sides: tuple[int, ...], scale: Fraction, source: Words
) -> NDArray[np.bool_]:
    """Decide which proposals are kept, by drawing: True where one is.

    A proposal is kept with probability exp(-(max y - mean y)), where y are its sizes |value| /
    (side * scale).
    """
    uniforms = source.words(len(values), _BITS).view(np.int64)
    sizes = np.abs(values.astype(np.float64)) * np.array(
        [float(1 / (length * scale)) for length in sides]
    )
    largest = sizes.max(axis=1)
    exponents = np.clip(largest - sizes.sum(axis=1) * (1 / len(sides)), 0.0, _REACH)
    gap = _exp_minus(exponents) - uniforms * 2.0**-_BITS
    accepted = gap >= _MARGIN + 2.0**-_BITS
    open_ones = ~accepted & (gap > -_MARGIN) | (largest >= _REACH)
    for i in np.flatnonzero(open_ones):
        exact = [
            Fraction(abs(int(value)), length) / scale
            for value, length in zip(values[i], sides, strict=True)
        ]
        accepted[i] = below_exp(
            max(exact) - sum(exact, Fraction(0)) / len(sides), int(uniforms[i]), _BITS, source
        )
    return np.asarray(accepted, np.bool_)


def _exp_minus(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute e**-x for 0 <= x <= 64, to 2**-45: a table at eighths times a Taylor polynomial."""
    eighths = (x * _PARTS).astype(np.int64)
    rest = x - eighths * (1 / _PARTS)
    power = np.full_like(rest, (-1) ** _DEGREE / math.factorial(_DEGREE))
    for k in range(_DEGREE - 1, -1, -1):
        power *= rest
        power += (-1) ** k / math.factorial(k)
    return np.asarray(power * _table()[eighths])


@lru_cache(maxsize=1)
def _table() -> NDArray[np.float64]:
    return np.array(
        [exp_minus(Fraction(k, _PARTS), 200).low / 2**200 for k in range(_PARTS * _REACH + 1)]
    )
