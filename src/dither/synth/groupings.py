"""Groupings: values of an attribute put together, chosen from released counts.

Pairs are measured over groups and not over values, since noise is added to every cell. What is
inside a group follows the released counts of single values.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import groupby

import numpy as np

from dither.plan.operators import Dense, Identity, LinearOperator, Ranges, Stack
from dither.synth.contraction import Table


@dataclass(frozen=True)
class ValueGrouping:
    """The group of every value of one attribute; groups are numbered from 0 without gaps."""

    labels: tuple[int, ...]

    @property
    def values(self) -> int:
        """How many values there are."""
        return len(self.labels)

    @cached_property
    def size(self) -> int:
        """How many groups there are."""
        return max(self.labels) + 1

    @cached_property
    def matrix(self) -> Table:
        """One row for each group, with ones at its values."""
        matrix = np.zeros((self.size, self.values))
        matrix[list(self.labels), np.arange(self.values)] = 1.0
        return matrix

    def write_operator(self) -> LinearOperator:
        """The sums of groups as a public operator of the kernel."""
        if self.size == self.values and list(self.labels) == list(range(self.values)):
            return Identity(self.values)
        labels = np.array(self.labels)
        groups = [np.flatnonzero(labels == group).tolist() for group in range(self.size)]
        operators = tuple(
            self._add_up(list(alike), is_range) for is_range, alike in groupby(groups, _is_range)
        )
        return operators[0] if len(operators) == 1 else Stack(operators)

    def _add_up(self, groups: list[list[int]], is_range: bool) -> LinearOperator:
        """The sums of some groups: by their ends where they are ranges, else entry by entry.

        Entries are few then, which the kernel demands: only the group of rare labels has gaps.
        """
        if is_range:
            return Ranges(self.values, tuple((group[0], group[-1]) for group in groups))
        members = [set(group) for group in groups]
        return Dense(
            tuple(tuple(int(value in group) for value in range(self.values)) for group in members)
        )


def _is_range(group: list[int]) -> bool:
    return group[-1] - group[0] + 1 == len(group)


def keep_all(values: int) -> ValueGrouping:
    """Every value is a group of its own."""
    return ValueGrouping(tuple(range(values)))


def group_ordered(counts: Table, groups: int, smallest: float) -> ValueGrouping:
    """Neighbouring values put together into about `groups` groups of about equal counts, each
    aimed at no fewer than `smallest` rows. A value with many rows is a group of its own.

    >>> group_ordered(np.array([5.0, 5, 0, 0, 20, 10]), 4, 1.0).labels
    (0, 0, 0, 0, 1, 2)
    """
    positive = np.maximum(counts, 0.0)
    share = max(float(positive.sum()) / groups, smallest)
    labels = []
    label = 0
    gathered = 0.0
    for count in positive.tolist():
        if gathered and gathered + count / 2 > share:
            label += 1
            gathered = 0.0
        labels.append(label)
        gathered += count
    if label and gathered < smallest:
        labels = [min(number, label - 1) for number in labels]
    return ValueGrouping(tuple(labels))


def group_rare(counts: Table, smallest: float) -> ValueGrouping:
    """Labels below `smallest` rows put together into one group, which comes last.

    >>> group_rare(np.array([5.0, 100, 7, 50]), 20.0).labels
    (2, 0, 2, 1)
    """
    is_rare = counts < smallest
    if is_rare.sum() <= 1:
        return keep_all(len(counts))
    labels = np.cumsum(~is_rare) - 1
    labels[is_rare] = int((~is_rare).sum())
    return ValueGrouping(tuple(int(label) for label in labels))


def spread_groups(table: Table, groupings: list[ValueGrouping], singles: list[Table]) -> Table:
    """A table over groups as one over values: inside a group the shares are those of the single
    attributes."""
    for axis, (grouping, single) in enumerate(zip(groupings, singles, strict=True)):
        table = np.moveaxis(
            np.tensordot(share_groups(grouping, single).T, table, axes=(1, axis)), 0, axis
        )
    return table


def share_groups(grouping: ValueGrouping, single: Table) -> Table:
    """Of every group (rows) the shares of the values (columns); flat where nothing is known."""
    inside = grouping.matrix * np.maximum(single, 0.0)
    sums = inside.sum(axis=1, keepdims=True)
    flat = grouping.matrix / grouping.matrix.sum(axis=1, keepdims=True)
    shares: Table = np.where(sums > 0, inside / np.where(sums > 0, sums, 1.0), flat)
    return shares
