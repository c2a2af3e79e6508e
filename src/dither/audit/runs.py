"""Runs of a mechanism: every run gets a copy of its input, and its output is read at once.

Without the copy a mechanism that changes its input would show the audit another input in the next
run; without the snapshot a mechanism that returns the same list every time would show its last
content only.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from dither.audit.canonical_outputs import Raised, read_output
from dither.errors import ParameterError

_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
_FLOATS = (np.float16, np.float32, np.float64)
_NUMBERS = frozenset((bool, int, float, np.bool_, *_INTEGERS, *_FLOATS))
_FIXED = _NUMBERS | {str, bytes, type(None), complex}


def is_vectorised(mechanism: Callable[..., Any]) -> bool:
    """Whether it takes `size` and returns that many outputs at once."""
    try:
        return "size" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False


def draw(mechanism: Callable[..., Any], data: Any, size: int, *, vectorised: bool) -> Any:
    """Run a mechanism `size` times independently; return an array, or a list of snapshots."""
    if not vectorised:
        return [_run_once(mechanism, copy_input(data)) for _ in range(size)]
    outputs = mechanism(copy_input(data), size=size)
    if is_number_array(outputs):
        outputs = outputs.copy()
    else:
        outputs = [take_snapshot(output) for output in islice(outputs, size + 1)]
    if len(outputs) != size:
        raise ParameterError(
            f"a vectorised mechanism must return `size` outputs: it did not return {size}"
        )
    return outputs


def copy_input(data: Any) -> Any:
    """Copy an input, so that a run cannot change what the next one gets.

    Raises ParameterError for what cannot be copied.

    >>> row = [1, [2]]
    >>> copy_input(row)[1] is row[1]
    False
    """
    if type(data) in _FIXED:
        return data
    if isinstance(data, Iterator):
        raise ParameterError(
            f"an input of type {type(data).__name__} is used up by the first run: pass a list"
        )
    try:
        return copy.deepcopy(data)
    except Exception as error:
        raise ParameterError(
            f"an input of type {type(data).__name__} cannot be copied for every run: pass plain "
            "data, or a name from which the mechanism opens its data"
        ) from error


def _run_once(mechanism: Callable[..., Any], data: Any) -> Any:
    """Run the mechanism once and snapshot its output; an exception becomes an output, too."""
    try:
        return take_snapshot(mechanism(data))
    except (Exception, SystemExit) as error:
        # an error is an output: whether it comes must not depend on one person
        return Raised(type(error).__name__, str(error))


def take_snapshot(output: Any) -> Any:
    """Keep the output as it is now: numbers and rows of numbers as they are, all else read in
    full."""
    if type(output) in _FIXED:
        return output
    if type(output) in (list, tuple) and is_row_of_numbers(output):
        return type(output)(output)
    return output.copy() if is_number_array(output) else read_output(output)


def is_number(value: Any) -> bool:
    return type(value) in _NUMBERS


def is_row_of_numbers(output: Any) -> bool:
    return bool(output) and all(type(element) in _NUMBERS for element in output)


def is_number_array(output: Any) -> bool:
    """Whether it is a plain array of numbers that 64 bits hold; masked ones are not plain."""
    if type(output) is not np.ndarray or not output.ndim or not output.size:
        return False
    if output.dtype.kind == "u":
        return bool(output.dtype.itemsize < 8)
    return output.dtype.kind in "bif" and output.dtype.itemsize <= 8
