"""Online answers: counts asked one after the other, each answered from a model while it fits.

Private multiplicative weights (Hardt, Rothblum 2010). The model is a public distribution over the
cells of some columns, times a noisy number of rows. A count is first computed from the model, and
the kernel compares that estimate with the data behind a noisy threshold. Where it fits, nothing
more is lost; where it does not, the kernel answers with noise and the model is fitted to all
answers so far. So only surprises are paid for, and they were paid first. When all updates are
used, answers come from the model unchecked and say so.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log
from types import TracebackType
from typing import Any

import numpy as np

from dither.answer.intervals import read_level
from dither.answer.leased import OpenOnlineLease
from dither.canonical import Number
from dither.errors import ParameterError
from dither.plan.operators import Dense, Kronecker, LinearOperator
from dither.workloads.bind import BoundWorkload
from dither.workloads.lines import Floats
from dither.workloads.multiplicative_weights import fit_weights

TOTAL_SHARE = Fraction(1, 10)
"""Of the price, for the number of rows, with which the model starts."""
MOST_UPDATES = 1000
MOST_ROWS = 10**15
_SWEEPS = 20


@dataclass(frozen=True)
class OnlineAnswer:
    """One count, where it came from, and an interval.

    `source` is "model" (compared with the data: it fits), "measured" (it did not: a noisy count),
    or "unchecked" (all updates are used: the model's guess, without an interval).
    """

    count: float
    low: float | None
    high: float | None
    source: str
    updates_left: int

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"about {self.count:,.0f} by the model; unchecked: all updates are used"
        return f"{self.count:,.0f} ({self.low:,.0f} to {self.high:,.0f}), {self.source}"


class OnlineCounts:
    """`with con.online(["age", "sex"], ...) as online: online.count(age=(18, 64), sex="f")`."""

    def __init__(
        self, bound: BoundWorkload, lease: OpenOnlineLease, within: int | None, confidence: Number
    ) -> None:
        self._bound = bound
        self._lease = lease
        self._level = float(read_level(confidence))
        self.within = find_within(lease) if within is None else within
        lease.set_threshold(self.within)
        shape = [bound.sizes[column] for column in bound.columns]
        (rows,) = lease.measure_total()
        self.rows = max(1, rows)
        """The noisy number of rows, which the model keeps."""
        self.model: Floats = np.full(shape, self.rows / np.prod(shape))
        """The model's count of every cell."""
        self._measured: list[tuple[list[Floats], float]] = []

    @property
    def updates_left(self) -> int:
        """How many counts can still be measured."""
        return self._lease.updates_left

    @property
    def charged(self) -> Fraction:
        """What the pot paid for all answers, at the beginning."""
        return self._lease.charged

    @property
    def release_id(self) -> str:
        """What these answers are called in history."""
        return self._lease.release_id

    def count(self, **values: Any) -> OnlineAnswer:
        """The rows with these values: one value, a list of them, or (first, last) for a range.

        Columns that are not named are summed over. A column or value that is not declared is
        refused before data is read.
        """
        masks = self._read_masks(values)
        estimate = _sum_cells(self.model, masks)
        if not self.updates_left:
            return OnlineAnswer(estimate, None, None, "unchecked", 0)
        outcome = self._lease.compare(_write_operator(masks), round(estimate))
        if not outcome:
            half = self.within + self._find_margin()
            return OnlineAnswer(
                estimate, estimate - half, estimate + half, "model", self.updates_left
            )
        (noisy,) = outcome
        self._measured.append((masks, float(noisy)))
        self._fit()
        half = self._lease.find_value_half_width(self._level)
        return OnlineAnswer(noisy, noisy - half, noisy + half, "measured", self.updates_left)

    def _find_margin(self) -> float:
        """A misfit larger than the threshold by this much passes with at most 1 - level.

        Two noises hide it, each of which exceeds s ln(2 / doubt) with half the doubt; and the
        estimate was rounded.
        """
        epoch = self._lease.epoch
        scales = float(epoch.threshold_scale + epoch.query_scale)
        return scales * log(2 / (1 - self._level)) + 1

    def _read_masks(self, values: dict[str, Any]) -> list[Floats]:
        """For every column, 1 for the values that are counted and 0 for the others."""
        if unknown := sorted(set(values) - set(self._bound.columns)):
            raise ParameterError(
                f"no column {', '.join(unknown)}: there are {', '.join(self._bound.columns)}"
            )
        masks = []
        for column in self._bound.columns:
            labels = self._bound.list_labels(column)
            chosen = set(_choose_labels(column, labels, values)) if column in values else None
            masks.append(
                np.array([chosen is None or code in chosen for code in range(len(labels))], float)
            )
        return masks

    def _fit(self) -> None:
        """Fit the model to all answers."""
        counted = [(_spread(masks), noisy) for masks, noisy in self._measured]
        self.model = fit_weights(self.model, self.rows, counted, sweeps=_SWEEPS)

    def close(self) -> None:
        """Store what was released; nothing is paid back."""
        self._lease.close()

    def __enter__(self) -> OnlineCounts:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> None:
        self.close()


def find_within(lease: OpenOnlineLease) -> int:
    """A threshold that an estimate without error passes with about 99 of 100 comparisons."""
    epoch = lease.epoch
    return min(MOST_ROWS, ceil(float(epoch.threshold_scale + epoch.query_scale) * log(100)))


def read_updates(updates: int) -> int:
    """How many counts may be measured."""
    if type(updates) is not int or not 1 <= updates <= MOST_UPDATES:
        raise ParameterError(f"updates is a number from 1 to {MOST_UPDATES:,}: choose e.g. 20")
    return updates


def read_within(within: int | None) -> int | None:
    """By how many rows an estimate may be off and still pass."""
    if within is not None and (type(within) is not int or not 1 <= within <= MOST_ROWS):
        raise ParameterError(f"within is a number of rows from 1 to {MOST_ROWS:,}, or None")
    return within


def _choose_labels(column: str, labels: list[Any], values: dict[str, Any]) -> list[int]:
    asked = values[column]
    is_range = isinstance(asked, tuple)
    chosen = list(asked) if isinstance(asked, (list, set, tuple)) else [asked]
    if (is_range and len(chosen) != 2) or not chosen or any(v not in labels for v in chosen):
        raise ParameterError(
            f"{column} takes a declared value, a list of them, or (first, last): they go from "
            f"{labels[0]!r} to {labels[-1]!r}"
        )
    codes = [labels.index(value) for value in chosen]
    if is_range and codes[0] > codes[1]:
        raise ParameterError(f"the range of {column} ends before it begins")
    return list(range(codes[0], codes[1] + 1)) if is_range else codes


def _write_operator(masks: list[Floats]) -> LinearOperator:
    rows = tuple(Dense((tuple(int(entry) for entry in mask),)) for mask in masks)
    return rows[0] if len(rows) == 1 else Kronecker(rows)


def _sum_cells(cells: Floats, masks: list[Floats]) -> float:
    for mask in reversed(masks):
        cells = cells @ mask
    return float(cells)


def _spread(masks: list[Floats]) -> Any:
    """Which cells are counted, as a table of all."""
    cells = np.ones(())
    for mask in masks:
        cells = np.multiply.outer(cells, mask)
    return cells > 0
