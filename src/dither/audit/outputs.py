"""How outputs of any kind become numbers: a row of columns for each, and a hash of the whole.

The way is decided on the first part of the runs and is then one function of the output, the same
for all. Plain numbers of one type stay as they are; everything else is read to its leaves
(`canonical_outputs`). An exception is an output like any other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.audit.canonical_outputs import hash_text, read_output
from dither.audit.leaf_columns import (
    LeafColumn,
    Leaves,
    choose_leaf_columns,
    fill_leaf_columns,
    list_leaf_columns,
)
from dither.audit.runs import is_number, is_number_array, is_row_of_numbers
from dither.audit.screens import MOST_COLUMNS, WeightedSum, choose_columns

Numbers = NDArray[Any]
_LEAST = np.iinfo(np.int64).min
_EXACT = 2**53  # integers up to this are exact as floats
_SAMPLE = 20_000
_SAMPLE_LEAVES = 1_000_000
_ODD = [
    (0x9E3779B97F4A7C15 * (2 * i + 1) ^ 0xD1B54A32D192ED03 << i % 13) % 2**64 | 1 for i in range(64)
]


@dataclass(frozen=True)
class Batch:
    """Outputs of many runs, as numbers: one row for each run."""

    rows: NDArray[Any]  # the columns that are searched
    names: tuple[str, ...]  # of these columns
    whole: NDArray[np.int64]  # a hash of each output
    shown: dict[int, str] = field(compare=False)  # the text of nested outputs, by hash
    full: NDArray[Any] = field(compare=False, repr=False)  # all columns of numbers
    unread: frozenset[str] = frozenset()  # the types that could not be opened

    def __len__(self) -> int:
        return len(self.whole)

    def take(self, selection: slice) -> Batch:
        """Take a slice of the runs; `shown` and `unread` stay those of all."""
        return Batch(
            self.rows[selection],
            self.names,
            self.whole[selection],
            self.shown,
            self.full[selection],
            self.unread,
        )


@dataclass(frozen=True)
class Reader:
    """How outputs become numbers; decided on the first part of the runs, and then the same function
    for every output.

    >>> read = Reader.of([1, 2, 2])
    >>> read.names, read([3, "no number"]).rows.tolist()
    (('value',), [[3], [-9223372036854775808]])
    >>> Reader.of([(1, 2.5), (3, 4.0)]).names, Reader.of([["a"], []]).names
    (('value[0]', 'value[1]'), ('length', 'value[0] is "a"', 'length of value[0]'))
    """

    names: tuple[str, ...]
    signature: Any  # the type of every output, where all are numbers of one type; None for nested
    columns: tuple[int, ...] = ()  # the searched ones, where there are many
    weighted_sum: WeightedSum | None = field(default=None, compare=False)
    leaf_columns: tuple[LeafColumn, ...] = ()
    left_out: int = 0  # columns that were compared and differ less than the searched ones

    @classmethod
    def of(cls, *samples: Any) -> Reader:
        """Make a reader for outputs like these samples."""
        signatures = {_find_signature(sample) for sample in samples}
        (signature,) = signatures if len(signatures) == 1 else (None,)
        matrices = [] if signature is None else [_make_matrix(sample) for sample in samples]
        if matrices and all(matrix is not None for matrix in matrices):
            return cls._of_matrices(signature, [m for m in matrices if m is not None])
        leaves = [_sample_leaves(sample) for sample in samples]
        every_column = list_leaf_columns(leaves)
        chosen = choose_leaf_columns(every_column, leaves)
        names = tuple(column.name for column in chosen)
        return cls(names, None, leaf_columns=chosen, left_out=len(every_column) - len(chosen))

    @classmethod
    def _of_matrices(cls, signature: Any, matrices: list[NDArray[Any]]) -> Reader:
        """Make a reader for outputs that are rows of numbers with the same signature.

        Of wide rows it reads the columns that differ most between the two inputs, and one
        weighted sum of all columns.
        """
        width = matrices[0].shape[1]
        if not signature[1]:
            return cls(("value",), signature)
        if width <= MOST_COLUMNS:
            return cls(tuple(f"value[{i}]" for i in range(width)), signature)
        columns = tuple(choose_columns(matrices[0], matrices[-1]).tolist())
        names = (*(f"value[{i}]" for i in columns), f"weighted sum of all {width} columns")
        total = WeightedSum(matrices[0][:_SAMPLE], matrices[-1][:_SAMPLE])
        return cls(names, signature, columns, total, left_out=width - len(columns))

    def __call__(self, outputs: Any) -> Batch:
        """Read outputs as numbers; those with another signature than the first ones are misfits."""
        if self.signature is None:
            return self._read_nested(outputs)
        if _find_signature(outputs) == self.signature:
            matrix = _make_matrix(outputs)
            if matrix is not None:
                return self._select_columns(matrix, _hash_rows(matrix))
        return self._read_misfits(outputs)

    def _select_columns(
        self,
        matrix: NDArray[Any],
        whole: NDArray[np.int64],
        unread: frozenset[str] = frozenset(),
    ) -> Batch:
        """Keep the columns that this reader tests, and add the weighted sum of all of them."""
        if self.weighted_sum is None:
            return Batch(matrix, self.names, whole, {}, matrix, unread)
        total = self.weighted_sum(matrix)
        rows = np.column_stack([matrix[:, list(self.columns)], total.astype(matrix.dtype)])
        return Batch(rows, self.names, whole, {}, matrix, unread)

    def _read_nested(self, outputs: Any) -> Batch:
        """Read outputs of any kind by their canonical texts.

        The hash of a text stands for the whole output, and every leaf that was chosen is a
        column.
        """
        readings = [read_output(output) for output in outputs]
        keys = {text: hash_text(text) for text in {reading.text for reading in readings}}
        texts_by_hash = {key: text for text, key in keys.items()}
        rows = fill_leaf_columns([reading.leaves for reading in readings], self.leaf_columns)
        whole = np.array([keys[reading.text] for reading in readings], np.int64)
        unread = frozenset(kind for reading in readings for kind in reading.unread)
        return Batch(rows, self.names, whole, texts_by_hash, rows, unread)

    def _read_misfits(self, outputs: Any) -> Batch:
        """Read outputs of another type than those seen first.

        Each is a row of the least number, and the hash of its text.
        """
        whole_numbers, shape = self.signature[2], self.signature[1]
        width = int(np.prod(shape)) if shape else 1
        kind = np.int64 if whole_numbers else np.float64
        matrix = np.full((len(outputs), width), _LEAST if whole_numbers else np.nan, kind)
        whole = np.empty(len(outputs), np.int64)
        unread: set[str] = set()
        for i, output in enumerate(outputs):
            row = _make_matrix([output]) if _find_signature([output]) == self.signature else None
            if row is not None:
                matrix[i] = row[0]
                whole[i] = _hash_rows(row)[0]
            else:
                reading = read_output(output)
                whole[i] = hash_text(reading.text)
                unread.update(reading.unread)
        return self._select_columns(matrix, whole, frozenset(unread))


def _find_signature(outputs: Any) -> Any:
    """Find the one type of all outputs: types, shape, and whether all are whole numbers.

    None if they are not numbers, or of several types: False, 0 and 0.0 are equal, and differ.
    """
    if is_number_array(outputs):
        kind = outputs.dtype
        return (kind.str, outputs.shape[1:], kind.kind != "f")
    signatures = {_sign_output(output) for output in outputs}
    return signatures.pop() if len(signatures) == 1 else None


def _sign_output(output: Any) -> Any:
    """Describe the type and shape of a numeric output; None if it is not plainly numeric.

    Outputs with equal signatures fit in one matrix. np.uint64 does not fit in int64, so it has
    none.
    """
    kind = type(output)
    if is_number(output):
        return None if kind is np.uint64 else (kind, (), _is_whole(kind))
    if kind in (list, tuple) and is_row_of_numbers(output):
        types = tuple(map(type, output))
        signature = (kind, types), (len(output),), all(map(_is_whole, types))
        return None if np.uint64 in types else signature
    if is_number_array(output):
        return (kind, output.dtype.str), output.shape, output.dtype.kind != "f"
    return None


def _is_whole(kind: Any) -> bool:
    return bool(np.dtype(kind).kind in "biu")


def _make_matrix(outputs: Any) -> NDArray[Any] | None:
    """Make a matrix, one row an output; None if a number does not fit without loss."""
    if is_number_array(outputs):
        kind = np.float64 if outputs.dtype.kind == "f" else np.int64
        return np.asarray(outputs.reshape(len(outputs), -1).astype(kind, copy=False))
    kind = np.int64 if _sign_output(outputs[0])[2] else np.float64
    try:
        matrix = np.array(outputs, dtype=kind).reshape(len(outputs), -1)
    except OverflowError:
        return None
    if kind is np.float64 and any(map(_holds_wide_integer, outputs)):
        return None
    return matrix


def _holds_wide_integer(output: Any) -> bool:
    """Whether a row of floats and integers has an integer that a float does not hold."""
    if not isinstance(output, (list, tuple)):
        return False
    return any(isinstance(element, int) and abs(element) > _EXACT for element in output)


def _hash_rows(rows: NDArray[Any]) -> NDArray[np.int64]:
    """Hash each row: equal rows have equal hashes; of one integer column it is the value itself."""
    if rows.shape[1] == 1 and rows.dtype.kind == "i":
        return rows[:, 0].astype(np.int64)
    bits = rows.astype(np.float64 if rows.dtype.kind == "f" else np.int64).view(np.uint64)
    total = np.zeros(len(rows), np.uint64)
    with np.errstate(over="ignore"):
        for column in range(rows.shape[1]):
            total = (total ^ bits[:, column]) * np.uint64(_ODD[column % len(_ODD)])
            total ^= total >> np.uint64(29)
    return total.view(np.int64)


def _sample_leaves(outputs: Any) -> list[Leaves]:
    """Read the leaves of the first outputs, until there are many."""
    samples: list[Leaves] = []
    leaf_count = 0
    for output in outputs[:_SAMPLE]:
        samples.append(read_output(output).leaves)
        leaf_count += len(samples[-1])
        if leaf_count > _SAMPLE_LEAVES:
            break
    return samples
