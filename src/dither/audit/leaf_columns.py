"""Columns of numbers for nested outputs: what each leaf adds to the row of its output."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.audit.canonical_outputs import hash_text, to_float, write_plain
from dither.audit.runs import is_number
from dither.audit.screens import MOST_COLUMNS, choose_columns

Leaves = dict[str, Any]
_EXACT = 2**53  # integers up to this are exact as floats
_SCREENED = 2_000
_COMMON_TEXTS = 8
_BUCKETS = 1024
_LONGEST = 40
_ABSENT = object()


@dataclass(frozen=True)
class LeafColumn:
    """One column: the number at a leaf, whether it has this type or this text, or a hash of it.

    >>> LeafColumn("value", "text", "a").measure("a"), LeafColumn("value", "number").measure(True)
    (1.0, 1.0)
    """

    path: str
    kind: Literal["number", "type", "text", "bucket"]
    text: str = ""

    @property
    def name(self) -> str:
        """Name the column as reports show it: the leaf's path, and what of the leaf it holds."""
        if self.kind == "number":
            return self.path
        if self.kind == "bucket":
            return f"bucket of {self.path}"
        subject = f"type of {self.path}" if self.kind == "type" else self.path
        return f'{subject} is "{self.text}"'

    def measure(self, value: Any) -> float:
        """Compute the entry for a leaf of this value.

        NaN where a number is asked for and there is none.
        """
        if self.kind == "number":
            return to_float(value) if is_number(value) else float("nan")
        if self.kind == "type":
            return float(type(value).__name__ == self.text)
        if value is _ABSENT:
            return 0.0 if self.kind == "text" else float("nan")
        text = write_leaf(value)
        if self.kind == "text":
            return float(not is_number(value) and text == self.text)
        return float(zlib.crc32(text.encode("utf-8", "replace")) % _BUCKETS)


def list_leaf_columns(samples: Sequence[list[Leaves]]) -> tuple[LeafColumn, ...]:
    """List the columns for all leaves of the samples."""
    values_by_path: dict[str, list[Any]] = {}
    for sample in samples:
        for leaves in sample:
            for path, value in leaves.items():
                values_by_path.setdefault(path, []).append(value)
    return tuple(
        column for path, values in values_by_path.items() for column in _list_columns(path, values)
    )


def _list_columns(path: str, values: list[Any]) -> list[LeafColumn]:
    """List the columns of one leaf.

    These are its number, its types where there are several, its common texts, and a hash where
    there are more texts, or numbers that floats do not hold.
    """
    numbers = [value for value in values if is_number(value)]
    columns = [LeafColumn(path, "number")] if numbers else []
    types = sorted({type(value).__name__ for value in numbers})
    if len(types) > 1:
        columns += [LeafColumn(path, "type", kind) for kind in types]
    texts = Counter(write_leaf(value) for value in values if not is_number(value))
    if path.startswith("type of ") and len(texts) == 1:
        return []
    common = sorted(text for text, _ in texts.most_common(_COMMON_TEXTS))
    columns += [LeafColumn(path, "text", text) for text in common]
    if len(texts) > _COMMON_TEXTS or any(abs(value) >= _EXACT for value in numbers):
        columns.append(LeafColumn(path, "bucket"))
    return columns


def choose_leaf_columns(
    columns: tuple[LeafColumn, ...], samples: Sequence[list[Leaves]]
) -> tuple[LeafColumn, ...]:
    """The columns that differ most between the first and the last sample, where there are many."""
    if len(columns) <= MOST_COLUMNS:
        return columns
    screened = [fill_leaf_columns(sample[:_SCREENED], columns) for sample in samples]
    return tuple(columns[i] for i in choose_columns(screened[0], screened[-1]))


def fill_leaf_columns(
    outputs: Sequence[Leaves], columns: Sequence[LeafColumn]
) -> NDArray[np.float64]:
    """The columns of these outputs."""
    rows = np.empty((len(outputs), len(columns)))
    for i, leaves in enumerate(outputs):
        rows[i] = [column.measure(leaves.get(column.path, _ABSENT)) for column in columns]
    return rows


def write_leaf(value: Any) -> str:
    """The text of a leaf; a long one by its beginning and a hash."""
    text = value if isinstance(value, str) else write_plain(value)
    return text if len(text) <= _LONGEST else f"{text[:24]}... ({hash_text(text) % 2**32:08x})"
