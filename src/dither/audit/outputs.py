"""Outputs of any kind, and views of them: numbers computed from an output, on which events are
defined.

Any function of an output gives a valid event, so views need no care about privacy, only about
power: values and coordinates, the output as a whole (hashed), the lowest set bit of a float (which
shows where it was rounded), lengths, leaves of nested outputs, and a learned score. An exception is
an output like any other.
"""

from __future__ import annotations

import hashlib
import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError

Numbers = NDArray[Any]
_MOST_COLUMNS = 64
_LEAST = np.iinfo(np.int64).min
_ODD = [
    (0x9E3779B97F4A7C15 * (2 * i + 1) ^ 0xD1B54A32D192ED03 << i % 13) % 2**64 | 1 for i in range(64)
]


@dataclass(frozen=True)
class Raised:
    """What a mechanism raised, as an output."""

    kind: str
    message: str


@dataclass(frozen=True)
class Batch:
    """Outputs of many runs, read: a row of numbers for each, a hash of the whole, and its text if
    nested."""

    rows: NDArray[Any]
    names: tuple[str, ...]
    whole: NDArray[np.int64]
    shown: dict[int, str] = field(compare=False)

    def __len__(self) -> int:
        return len(self.whole)

    def take(self, selection: slice) -> Batch:
        return Batch(self.rows[selection], self.names, self.whole[selection], self.shown)


def is_vectorised(mechanism: Callable[..., Any]) -> bool:
    """Whether it takes `size` and returns that many outputs at once."""
    try:
        return "size" in inspect.signature(mechanism).parameters
    except (TypeError, ValueError):
        return False


def draw(mechanism: Callable[..., Any], data: Any, size: int, *, vectorised: bool) -> Any:
    """The outputs of `size` independent runs: an array, or a list."""
    if not vectorised:
        return [_run_once(mechanism, data) for _ in range(size)]
    outputs = mechanism(data, size=size)
    if len(outputs) != size:
        raise ParameterError(
            f"a vectorised mechanism must return `size` outputs: {len(outputs)} instead of {size}"
        )
    return outputs if isinstance(outputs, np.ndarray) else list(outputs)


def _run_once(mechanism: Callable[..., Any], data: Any) -> Any:
    try:
        return mechanism(data)
    except (
        Exception
    ) as error:  # an error is an output: whether it comes must not depend on one person
        return Raised(type(error).__name__, str(error))


@dataclass(frozen=True)
class Reader:
    """How outputs become numbers; decided on the first part of the runs, and then the same function
    for every output.

    >>> read = Reader.of([1, 2, 2])
    >>> read.names, read([3, "no number"]).rows.tolist()
    (('value',), [[3], [-9223372036854775808]])
    >>> Reader.of([(1, 2.5), (3, 4.0)]).names, Reader.of([["a"], []]).names
    (('value[0]', 'value[1]'), ('length', 'value[0] is "a"'))
    """

    names: tuple[str, ...]
    width: int  # columns of numbers; 0 for nested outputs
    whole_numbers: bool

    @classmethod
    def of(cls, *samples: Any) -> Reader:
        """A reader for outputs like these samples."""
        arrays = [array for array in map(_as_matrix, samples) if array is not None]
        is_one_kind = (
            len({array.dtype.kind == "b" for array in arrays}) == 1
        )  # False and 0 are equal, and differ
        if (
            is_one_kind
            and len(arrays) == len(samples)
            and len({array.shape[1] for array in arrays}) == 1
        ):
            width = arrays[0].shape[1]
            flat = all(np.ndim(sample[0]) == 0 for sample in samples if len(sample))
            names = ("value",) if flat else tuple(f"value[{i}]" for i in range(width))
            return cls(names, width, all(array.dtype.kind in "biu" for array in arrays))
        leaves = [_list_leaves(output) for sample in samples for output in sample[:20_000]]
        return cls(_name_columns(leaves), 0, False)

    def __call__(self, outputs: Any) -> Batch:
        if self.width:
            array = _as_matrix(outputs)
            if array is None or array.shape[1] != self.width:
                return self._with_misfits(outputs)
            kind = np.int64 if self.whole_numbers and array.dtype.kind in "biu" else np.float64
            rows = array.astype(kind, copy=False)
            if self.whole_numbers and kind is np.float64:
                return self._with_misfits(list(array))
            return Batch(rows, self.names, _hash_rows(rows), {})
        texts = [_write_text(output) for output in outputs]
        keys = {text: _hash_text(text) for text in set(texts)}
        shown = {key: text for text, key in keys.items()}
        rows = _fill_columns([_list_leaves(output) for output in outputs], self.names)
        return Batch(rows, self.names, np.array([keys[text] for text in texts], np.int64), shown)

    def _with_misfits(self, outputs: Any) -> Batch:
        """Outputs of another kind than those seen first: a row of the least number, and the hash of
        their text."""
        kind = np.int64 if self.whole_numbers else np.float64
        rows = np.full((len(outputs), self.width), _LEAST if self.whole_numbers else np.nan, kind)
        whole = np.empty(len(outputs), np.int64)
        for i, output in enumerate(outputs):
            row = _as_matrix([output])
            if (
                row is not None
                and row.shape[1] == self.width
                and (row.dtype.kind in "biu" or not self.whole_numbers)
            ):
                rows[i] = row[0]
                whole[i] = _hash_rows(rows[i : i + 1])[0]
            else:
                whole[i] = _hash_text(_write_text(output))
        return Batch(rows, self.names, whole, {})


def _as_matrix(outputs: Any) -> NDArray[Any] | None:
    """A matrix, one row an output, if all are numbers or equally long rows of numbers; else
    None."""
    if isinstance(outputs, np.ndarray):
        array = (
            outputs.reshape(len(outputs), -1) if outputs.size else outputs.reshape(len(outputs), 0)
        )
    elif _mixes_truth_and_numbers(outputs):
        return None
    elif all(_is_number(output) for output in outputs):
        array = np.array(outputs).reshape(len(outputs), 1)
    elif (
        all(_is_row_of_numbers(output) for output in outputs)
        and len({np.shape(output) for output in outputs}) == 1
    ):
        array = np.array([np.ravel(output) for output in outputs]).reshape(len(outputs), -1)
    else:
        return None
    fits = array.dtype.kind in "bif" or (array.dtype.kind == "u" and array.dtype.itemsize < 8)
    return array if fits and array.shape[1] else None


def _mixes_truth_and_numbers(outputs: Any) -> bool:
    """Whether False and 0 may both occur: they are equal, and a matrix would show one where the
    other was."""
    leaves = (
        leaf
        for output in outputs
        for leaf in (output if isinstance(output, (list, tuple)) else (output,))
    )
    kinds = {isinstance(leaf, (bool, np.bool_)) for leaf in leaves if _is_number(leaf)}
    return len(kinds) == 2


def _is_row_of_numbers(output: Any) -> bool:
    if isinstance(output, np.ndarray):
        return output.dtype.kind in "biuf"
    return isinstance(output, (tuple, list)) and all(_is_number(element) for element in output)


def _hash_rows(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Equal rows have equal hashes; of one integer column it is the value itself."""
    if rows.shape[1] == 1 and rows.dtype.kind in "bi":
        return rows[:, 0].astype(np.int64)
    bits = (
        rows.astype(np.float64).view(np.uint64)
        if rows.dtype.kind == "f"
        else rows.astype(np.int64).view(np.uint64)
    )
    total = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in range(rows.shape[1]):
            total = (total ^ bits[:, column]) * np.uint64(_ODD[column % len(_ODD)])
            total ^= total >> np.uint64(29)
    return total.view(np.int64)


def _hash_text(text: str) -> int:
    return int.from_bytes(
        hashlib.blake2b(text.encode(), digest_size=8).digest(), "big", signed=True
    )


def _write_text(output: Any) -> str:
    for name in ("to_pylist", "to_dict"):  # Arrow, pandas and polars tables
        if hasattr(output, name):
            return repr(getattr(output, name)())
    return repr(output.tolist()) if isinstance(output, np.ndarray) else repr(output)


def _list_leaves(output: Any, path: str = "value") -> dict[str, Any]:
    """Every leaf of a nested output by its path; lengths and texts are leaves too."""
    if isinstance(output, Raised):
        return {"raised": output.kind}
    for name in ("to_pylist", "to_dict"):
        if hasattr(output, name):
            return _list_leaves(getattr(output, name)(), path)
    if isinstance(output, np.ndarray):
        output = output.tolist()
    if isinstance(output, dict):
        leaves: dict[str, Any] = {"length" if path == "value" else f"length of {path}": len(output)}
        for key, element in output.items():
            leaves |= _list_leaves(element, f"{path}[{key!r}]")
        return leaves
    if isinstance(output, (list, tuple, set, frozenset)):
        leaves = {"length" if path == "value" else f"length of {path}": len(output)}
        for i, element in enumerate(
            sorted(output, key=repr) if isinstance(output, (set, frozenset)) else output
        ):
            leaves |= _list_leaves(element, f"{path}[{i}]")
        return leaves
    return {path: output}


def _name_columns(leaves: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """A column for a leaf that holds numbers, and one for each common text at a leaf."""
    names: list[str] = []
    for path in dict.fromkeys(path for output_leaves in leaves for path in output_leaves):
        values = [output_leaves[path] for output_leaves in leaves if path in output_leaves]
        if any(_is_number(value) for value in values):
            names.append(path)
        texts = Counter(_leaf_text(value) for value in values if not _is_number(value))
        names += [f'{path} is "{text[:40]}"' for text, _ in sorted(texts.most_common(8))]
    return tuple(names[:_MOST_COLUMNS])


def _fill_columns(leaves: Sequence[dict[str, Any]], names: tuple[str, ...]) -> NDArray[np.float64]:
    """The columns of these names; NaN where a leaf is absent or no number."""
    rows = np.full((len(leaves), len(names)), np.nan)
    positions = {name: i for i, name in enumerate(names)}
    text_positions = [i for name, i in positions.items() if name.endswith('"')]
    for i, output_leaves in enumerate(leaves):
        rows[i, text_positions] = 0.0
        for path, value in output_leaves.items():
            position = positions.get(
                path if _is_number(value) else f'{path} is "{_leaf_text(value)[:40]}"'
            )
            if position is not None:
                rows[i, position] = float(value) if _is_number(value) else 1.0
    return rows


def _leaf_text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_))


@dataclass(frozen=True)
class View:
    """A number for every output of a batch, by name: a column, the whole output, its lowest bit, or
    a learned score."""

    name: str
    of: Callable[[Batch], Numbers] = field(compare=False, repr=False)
    ordered: bool = True


def list_views(sample: Batch) -> list[View]:
    """The views that make sense for outputs like these."""
    single = len(sample.names) == 1 and sample.rows.dtype.kind == "i"
    chosen_views = [View("value" if single else "whole output", lambda b: b.whole, ordered=single)]
    for i, name in enumerate(sample.names[:_MOST_COLUMNS]):
        if not single:
            chosen_views.append(View(name, _take_column(i)))
        if sample.rows.dtype.kind == "f" and i < 8 and _has_fractions(sample.rows[:, i]):
            chosen_views.append(View(f"exponent of the lowest set bit of {name}", _take_low_bit(i)))
    if not single and 1 < sample.rows.shape[1] <= 6 and sample.rows.dtype.kind == "i":
        pairs = [(i, j) for i in range(sample.rows.shape[1]) for j in range(i)]
        chosen_views += [
            View(f"{sample.names[i]} - {sample.names[j]}", _subtract_columns(i, j))
            for i, j in pairs
        ]
    return chosen_views


def _subtract_columns(i: int, j: int) -> Callable[[Batch], Numbers]:
    return lambda batch: batch.rows[:, i] - batch.rows[:, j]


def _take_column(index: int) -> Callable[[Batch], Numbers]:
    return lambda batch: batch.rows[:, index]


def _take_low_bit(index: int) -> Callable[[Batch], Numbers]:
    return lambda batch: lowest_bit(batch.rows[:, index])


def lowest_bit(values: Numbers) -> NDArray[np.int64]:
    """e for a float that is an odd multiple of 2^e: how finely its last rounding can have been.

    >>> lowest_bit(np.array([1.0, 0.75, 3.0, 0.1])).tolist()
    [0, -2, 0, -55]
    """
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0).astype(np.float64))
    whole = (mantissa * 2.0**53).astype(np.int64)
    low = whole & -whole
    bits = np.where(
        whole == 0,
        2000,
        np.log2(np.maximum(low, 1).astype(np.float64)).astype(np.int64) + exponent - 53,
    )
    return bits.astype(np.int64)


def _has_fractions(values: Numbers) -> bool:
    kept = values[np.isfinite(values)][:1000]
    return bool(len(kept)) and bool((kept != np.round(kept)).any())
