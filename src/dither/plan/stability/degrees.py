"""Degrees: how many values of some columns one unit can have beside one value of other columns.

A key that is unique per owner, a limit of groups and the matches of a join are all degrees, and a
bound of rows or groups is the least product of degrees along a path. The degrees of an inner join
are those of its sides and the equal columns, so that its order does not matter. Proof:
docs/proofs/stability.md#degrees.

>>> rows = scan_degrees(("visit", "ward"), (("visit",),), rows=20, limit=1000)
>>> rows.count_rows(("visit",)), rows.count_rows(("ward",)), rows.count_values(("ward",))
(1, 20, 20)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heappop, heappush

MOST_STATES = 256
"""Sets of columns that one search looks at. After them it gives up: the caller has its own
bound."""
UNBOUNDED = 10**40

Mask = int
"""A set of symbols, as the bits of an integer. A symbol is a column, or the row of a table."""


@dataclass(frozen=True)
class Degree:
    """One value of `given` goes with at most `limit` values of `then` among the rows of a unit.

    It goes with `for_null` more where a symbol of `given` is null.
    """

    given: Mask
    then: Mask
    limit: int
    for_null: int = 0

    @property
    def bound(self) -> int:
        """At most so many values of `then`, whatever the value of `given`."""
        return self.limit + self.for_null


@dataclass(frozen=True)
class RowDegrees:
    """Degrees of the rows of a plan's node. They hold in every subset of those rows too.

    `row` are the symbols that tell the rows of a unit apart, `sure` those of them that no outer
    join can make null, `names` the symbol of each column. `totals`: all units together have at
    most so many values of these symbols. `size` symbols are in use. `moments` are columns that hold
    a time inside the one window of the unit, never null.
    """

    size: int
    row: Mask
    sure: Mask
    names: Mapping[str, int]
    degrees: tuple[Degree, ...]
    totals: tuple[tuple[Mask, int], ...]
    moments: Mask = 0

    def mask(self, columns: Iterable[str]) -> Mask:
        """The symbols of some columns."""
        return sum({1 << self.names[column] for column in columns})

    def count_rows(self, columns: Iterable[str] = ()) -> int:
        """How many rows of a unit can share a value of the columns; all its rows without any.

        A name that is no column says nothing: a plan that joins by it is refused later.
        """
        return self.search(self.mask(set(columns) & set(self.names)), self.row)

    def count_values(self, columns: Iterable[str]) -> int:
        """How many values of the columns the rows of a unit can have."""
        return self.search(0, self.mask(columns))

    def count_total(self) -> int:
        """How many rows all units together can have."""
        return min(limit * self.search(symbols, self.row) for symbols, limit in self.totals)

    def search(self, given: Mask, goal: Mask) -> int:
        """Find the least product of degrees on a path from the symbols `given` to all of `goal`.

        UNBOUNDED where no path is found within MOST_STATES steps. Masks are sets of symbols as
        bits.
        """
        free, costly = self._by_cost
        heap = [(1, _close(given, free))]
        visited: set[Mask] = set()
        while heap and len(visited) < MOST_STATES:
            product, reached = heappop(heap)
            if not goal & ~reached:
                return product
            if reached in visited:
                continue
            visited.add(reached)
            for degree in costly:
                if not degree.given & ~reached and degree.then & ~reached:
                    heappush(heap, (product * degree.bound, _close(reached | degree.then, free)))
        return UNBOUNDED

    @cached_property
    def _by_cost(self) -> tuple[list[Degree], list[Degree]]:
        """The degrees of one value, and those of more, the smallest first."""
        rising = sorted(self.degrees, key=lambda degree: degree.bound)
        free = sum(degree.bound <= 1 for degree in rising)
        return rising[:free], rising[free:]

    def without_nulls(self, columns: Iterable[str]) -> RowDegrees:
        """Return the degrees of the rows in which these columns are not null."""
        present = self.mask(set(columns) & set(self.names))
        degrees = (
            degree if degree.given & ~present else replace(degree, for_null=0)
            for degree in self.degrees
        )
        return replace(self, degrees=tuple(degrees))

    def add(self, *degrees: Degree) -> RowDegrees:
        """These degrees too."""
        return replace(self, degrees=self.degrees + degrees)

    def select(self, passed: Mapping[str, str], computed: Mapping[str, Mask]) -> RowDegrees:
        """Return the degrees after a projection.

        `passed` maps new names to the names before. `computed` maps new names to the symbols that
        they are computed from: a value of those symbols fixes that of the computed column.
        """
        names = {name: self.names[source] for name, source in passed.items()} | {
            name: symbol for symbol, name in enumerate(computed, self.size)
        }
        fixed = (Degree(given, 1 << names[name], 1) for name, given in computed.items())
        return replace(self.add(*fixed), size=self.size + len(computed), names=names)


def _close(reached: Mask, free: list[Degree]) -> Mask:
    """Add to `reached` all symbols that have one value where those of `reached` have one."""
    before = -1
    while before != reached:
        before = reached
        for degree in free:
            if not degree.given & ~reached:
                reached |= degree.then
    return reached


def scan_degrees(
    columns: Iterable[str], unique: Iterable[Iterable[str]], *, rows: int, limit: int
) -> RowDegrees:
    """A table of which a unit has at most `rows` rows, one for each value of a unique key.

    A key is given by its columns without the owner.
    """
    table = list_degrees(columns)
    keys = (Degree(table.mask(key), table.row, 1) for key in unique)
    return replace(table.add(Degree(0, table.row, rows), *keys), totals=((table.row, limit),))


def list_degrees(columns: Iterable[str]) -> RowDegrees:
    """Rows of which nothing is known but that each has one value in every column."""
    names = {name: symbol for symbol, name in enumerate(columns, 1)}
    size = 1 + len(names)
    return RowDegrees(size, 1, 1, names, (Degree(1, (1 << size) - 2, 1),), ())


def join_degrees(
    left: RowDegrees, right: RowDegrees, on: tuple[tuple[str, str], ...], kind: str, matches: int
) -> RowDegrees:
    """The pairs of a left row and a right one of its owner that agree on all pairs of columns.

    A left join pairs a left row without a match with a row of nulls: null on the right can go with
    one more value than before, and with every value on the left. `matches` bounds the
    right rows of one value of the left columns.

    >>> orders = scan_degrees(("okey",), (("okey",),), rows=10, limit=90)
    >>> lines = scan_degrees(("okey",), (), rows=40, limit=900)
    >>> joined = join_degrees(orders, lines, (("okey", "okey"),), "inner", 40)
    >>> joined.count_rows(), joined.count_rows(("okey",)), joined.count_total()
    (40, 40, 900)
    >>> joined = join_degrees(lines, orders, (("okey", "okey"),), "left", 1)
    >>> joined.count_rows(), joined.count_total()
    (40, 900)
    """
    is_outer = kind == "left"
    right = right.without_nulls(column for _, column in on)
    left = left if is_outer else left.without_nulls(column for column, _ in on)
    shift = left.size
    left_on = left.mask(column for column, _ in on)
    right_on = right.mask(column for _, column in on) << shift
    moved = tuple(
        _move(degree, shift, int(is_outer and not degree.given & right.sure))
        for degree in right.degrees
    )
    pairs: tuple[Degree, ...]
    if is_outer:
        pairs = (
            Degree(left_on, right_on, 1),
            Degree(right_on, left_on, 1, left.search(0, left_on)),
            Degree(left_on, right.row << shift, max(1, matches)),
        )
    else:
        pairs = tuple(
            degree
            for left_column, right_column in on
            for degree in _equate(
                1 << left.names[left_column], 1 << right.names[right_column] + shift
            )
        )
    paired = {right_column for left_column, right_column in on if left_column == right_column}
    names = {name: symbol + shift for name, symbol in right.names.items() if name not in paired}
    return RowDegrees(
        left.size + right.size,
        left.row | (right.row << shift),
        left.sure | (0 if is_outer else right.sure << shift),
        {**left.names, **names},
        left.degrees + moved + pairs,
        left.totals
        + tuple((symbols << shift, limit) for symbols, limit in right.totals if not is_outer),
        left.moments | (0 if is_outer else right.moments << shift),
    )


def _move(degree: Degree, shift: int, more: int) -> Degree:
    """A degree of the right side of a join, with `more` values where a row of nulls may be."""
    if not degree.given:
        return Degree(0, degree.then << shift, degree.bound + more)
    return Degree(degree.given << shift, degree.then << shift, degree.limit, degree.for_null + more)


def _equate(first: Mask, second: Mask) -> tuple[Degree, Degree]:
    """Two symbols that have the same value in every row."""
    return Degree(first, second, 1), Degree(second, first, 1)
