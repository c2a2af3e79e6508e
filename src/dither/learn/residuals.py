"""Residuals of a public model on rows, in steps of 2**-16: what gradients are made of.

Margins are exact sums of integers, links are tables of integers, all else is elementwise. So the
residual of a row depends on that row alone, whatever rows stand beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.learn.columns import FEATURE_SCALE

Array = NDArray[Any]
Loss = Literal["logistic", "huber", "multinomial", "squared", "poisson"]
THETA_SCALE = 1 << 16
FACTOR_SCALE = 1 << 16
"""So many steps are the residual 1."""
LARGEST_FACTOR = 1 << 28
_STEPS_PER_UNIT = 1 << 10
_REACH = 16
_REACH_OF_EXPONENTS = 8
_FACTOR_STEPS = THETA_SCALE * FEATURE_SCALE // FACTOR_SCALE
_TABLE_STEPS = THETA_SCALE * FEATURE_SCALE // _STEPS_PER_UNIT


def find_residuals(loss: Loss, margins: Array, labels: Array) -> Array:
    """Residuals of all rows, a row of numbers for each row of margins.

    Labels are codes of classes, steps of a number from [-1, 1], or counts. A negative or missing
    label stands for none: the residual is 0.
    """
    if loss == "multinomial":
        factors = _soften(margins)
        for code in range(len(factors)):
            factors[code] -= FACTOR_SCALE * (labels == code)
        factors[:, (labels < 0) | (labels >= len(factors))] = 0
        return factors
    margin = margins[0]
    if loss == "logistic":
        residuals = list_sigmoids()[find_entries(margin, _REACH)] - FACTOR_SCALE * (labels == 1)
        residuals[(labels != 0) & (labels != 1)] = 0
    elif loss == "huber":
        signs = np.where(labels == 1, 1.0, -1.0)
        distances = np.floor(margin / _FACTOR_STEPS) * signs
        residuals = -signs * np.clip(FACTOR_SCALE * 3 // 2 - distances, 0, FACTOR_SCALE)
        residuals[(labels != 0) & (labels != 1)] = 0
    elif loss == "squared":
        residuals = np.floor(margin / _FACTOR_STEPS) - labels * (FACTOR_SCALE // FEATURE_SCALE)
    else:
        counts = np.floor(labels * FACTOR_SCALE)
        residuals = list_exponentials()[find_entries(margin, _REACH_OF_EXPONENTS)] - counts
    residuals[np.isnan(residuals)] = 0
    cut: Array = np.clip(residuals, -LARGEST_FACTOR, LARGEST_FACTOR)
    return cut[None, :]


def find_slopes(margins: Array, labels: Array) -> Array:
    """sigmoid - y and sigmoid (1 - sigmoid) of every row, in steps; 0 without a label."""
    chances = list_sigmoids()[find_entries(margins, _REACH)]
    slopes = chances - FACTOR_SCALE * (labels == 1)
    curvatures = np.floor(chances * (FACTOR_SCALE - chances) / FACTOR_SCALE)
    numbers: Array = np.stack([slopes, curvatures])
    numbers[:, (labels != 0) & (labels != 1)] = 0
    return numbers


def find_entries(margins: Array, reach: int) -> NDArray[np.int64]:
    """The entry of a table of links for every margin."""
    entries = np.floor(margins / _TABLE_STEPS)
    np.clip(entries, -_REACH * _STEPS_PER_UNIT, reach * _STEPS_PER_UNIT - 1, out=entries)
    return entries.astype(np.int64) + _REACH * _STEPS_PER_UNIT


def _soften(margins: Array) -> Array:
    """Softmax over the rows, in steps: exponentials of a table over their exact sum."""
    distances = margins - margins.max(axis=0)
    weights = list_exponentials()[find_entries(distances, _REACH_OF_EXPONENTS)]
    total = np.zeros(margins.shape[1])
    for row in weights:
        total += row
    shares: Array = np.floor(weights * FACTOR_SCALE / total)
    return shares


@lru_cache(maxsize=1)
def list_sigmoids() -> Array:
    """1 / (1 + e^-t) in steps, at the middle of every entry."""
    return list_links(_REACH, lambda t: 1 / (1 + math.exp(-t)))


@lru_cache(maxsize=1)
def list_exponentials() -> Array:
    """e^t in steps, at the middle of every entry, and at least 1."""
    return np.maximum(1, list_links(_REACH_OF_EXPONENTS, math.exp))


def list_links(reach: int, link: Callable[[float], float]) -> Array:
    """The table of a link in steps, at the middle of every entry."""
    entries = range(-_REACH * _STEPS_PER_UNIT, reach * _STEPS_PER_UNIT)
    middles = [(entry + 0.5) / _STEPS_PER_UNIT for entry in entries]
    return np.array([math.floor(FACTOR_SCALE * link(middle) + 0.5) for middle in middles], float)
