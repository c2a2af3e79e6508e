"""Declared targets: classes, and numbers between bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError
from dither.learn.columns import FEATURE_SCALE
from dither.learn.encode import find_codes, read_numbers
from dither.learn.table_columns import list_values
from dither.plan.domain import Domain

Array = NDArray[Any]
_MOST_CLASSES = 256


def read_classes(classes: Any) -> Array:
    """The declared classes, sorted; refused where there are fewer than two."""
    if classes is None:
        raise ParameterError(
            "classes are missing: declare classes=(0, 1), from public knowledge and not from y"
        )
    listed = np.unique(np.asarray(list(classes)))
    if not 2 <= len(listed) <= _MOST_CLASSES:
        raise ParameterError(f"classes are 2 to {_MOST_CLASSES} different values")
    return listed


def read_table_classes(domain: Domain) -> Array:
    """The listed values of a column of the catalog, in the order of GROUP BY."""
    first, last = domain.listed
    if not 2 <= last - first + 1 <= _MOST_CLASSES:
        raise ParameterError(f"a target has 2 to {_MOST_CLASSES} listed values: choose another one")
    return np.array(list_values(domain))


def encode_classes(classes: Array, y: Any) -> Array:
    """The position of every label among the classes; -1 for a label that is not declared."""
    codes = find_codes(classes.tolist(), y)
    codes[codes == len(classes)] = -1
    return codes


def read_target_bounds(bounds: Any) -> tuple[float, float]:
    """The declared bounds of a number; refused where there are none."""
    if not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise ParameterError(
            "target_bounds are missing: declare target_bounds=(low, high), from public knowledge "
            "and not from y"
        )
    low, high = (float(end) for end in bounds)
    if not -1e300 < low < high < 1e300:
        raise ParameterError("target_bounds are two finite numbers, the lower one first")
    return low, high


def scale_target(bounds: tuple[float, float], y: Any) -> Array:
    """Numbers moved from their bounds to [-1, 1], in whole steps of 2**-12; missing ones stay."""
    low, high = bounds
    scaled: Array = np.clip(read_numbers(y), low, high)
    steps = np.floor((scaled - low) * (2 * FEATURE_SCALE / (high - low)))
    moved: Array = np.clip(steps, 0, 2 * FEATURE_SCALE) - FEATURE_SCALE
    return moved


def restore_target(bounds: tuple[float, float], scaled: Array) -> Array:
    """Numbers from [-1, 1] in the units of the target."""
    low, high = bounds
    restored: Array = (scaled + 1) * ((high - low) / 2) + low
    return restored
