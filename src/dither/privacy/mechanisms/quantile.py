"""A quantile on a public grid: the exponential mechanism over integer rank distances.

With q = a/b in lowest terms, L rows below cell g, E in it and R above, n = L + E + R, the score of
g is -max(0, b L - a n, b R - (b - a) n): zero exactly if g is a q-quantile, else minus b times the
rows by which it misses. One row moves it by max(a, b - a) under add/remove and by b under replace,
so with k rows per unit scale = 2 k max(a, b - a) / epsilon (or 2 k b / epsilon). The scores are not
monotone. `by_rows` counts rows that leave and rows that come one by one: scale = k row_range(q) /
epsilon. A cell is drawn exactly, in a few steps (`quantile_levels`); empty data gives a uniform
cell. Guarantee: BoundedRange(epsilon). `FlippedQuantile` draws by permute-and-flip instead:
Pure(epsilon), and a smaller error. Proof: docs/proofs/quantiles.md#one-quantile.

>>> median = Quantile(Fraction(1, 2), epsilon=1)
>>> median.release([0, 0, 10_000, 0]), median.loss()
(2, BoundedRange(epsilon=1, neighbours='add_remove', unit='unit'))
>>> median.release_sparse([3, 10**15], [5000, 9000], cells=10**16)
1000000000000000
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

from dither.canonical import Number, exact, number_text, positive, quote
from dither.error_terms import ErrorTerms
from dither.errors import ParameterError
from dither.privacy.losses import BoundedRange, Loss, Neighbours, Pure
from dither.privacy.mechanisms.protocol import (
    SparseHistogram,
    check_filled_cells,
    sparse_histogram,
)
from dither.privacy.mechanisms.quantile_levels import (
    GridRows,
    RankLevels,
    by_flips,
    by_weight,
    list_levels,
    put_on_grid,
)
from dither.privacy.noise import Words
from dither.privacy.noise.source import check_source

_LARGEST_PART = 1 << 20


def check_share(q: Number, name: str = "q") -> Fraction:
    """Read a share in [0, 1] with a denominator of at most 2**20; ParameterError for others."""
    share = exact(q, name)
    if not 0 <= share <= 1 or share.denominator > _LARGEST_PART:
        raise ParameterError(
            f"{name} must lie in [0, 1] with a denominator of at most 2**20, got {q}"
        )
    return share


def check_rows(rows_per_unit: int) -> None:
    """Refuses a number of rows that is no positive integer."""
    if isinstance(rows_per_unit, bool) or not isinstance(rows_per_unit, int) or rows_per_unit < 1:
        raise ParameterError(
            f"rows_per_unit must be a positive integer, got {quote(rows_per_unit)}"
        )


def rank_sensitivity(q: Fraction, neighbours: Neighbours) -> int:
    """How far one row moves the score of any cell: max(a, b - a), or b if it is replaced."""
    a, b = q.as_integer_ratio()
    return b if neighbours == "replace" else max(a, b - a)


def row_range(q: Fraction) -> int:
    """How far one row moves the difference of two scores (docs/proofs/quantiles.md)."""
    return 1 if q in (0, 1) else 2 * rank_sensitivity(q, "add_remove")


class RowsOfUnits(ABC):
    """A mechanism that chooses quantiles; one unit moves at most `rows_per_unit` rows."""

    @property
    @abstractmethod
    def rows_per_unit(self) -> int:
        """How many rows one unit moves."""

    def column_sensitivity(self, column: int = 0) -> None:
        """A quantile has none: its rank moves, not its value."""
        return None

    def describe_sensitivity(self) -> str:
        """How many rows one unit moves, in words."""
        return f"{self.rows_per_unit:,} rows"

    def sensitivity_document(self) -> Mapping[str, Any]:
        """Nothing: the loss says it."""
        return {}


@dataclass(frozen=True)
class Quantile(RowsOfUnits):
    """One q-quantile for one price."""

    stored_name: ClassVar[str] = "Quantile"  # in digests of stored releases: never changes
    _chosen_by: ClassVar[str] = "exponential mechanism"

    q: Fraction
    epsilon: Fraction
    rows_per_unit: int = 1
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"
    by_rows: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "q", check_share(self.q))
        object.__setattr__(self, "epsilon", positive(self.epsilon, "epsilon"))
        check_rows(self.rows_per_unit)
        self.loss()

    @property
    def scale(self) -> Fraction:
        """Scores are divided by this before noise is added."""
        if self.by_rows:
            return self.rows_per_unit * row_range(self.q) / self.epsilon
        return 2 * self.rows_per_unit * rank_sensitivity(self.q, self.neighbours) / self.epsilon

    def loss(self) -> Loss:
        """What one quantile costs."""
        return BoundedRange(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> ErrorTerms:
        """How far the rank of the answer may be off."""
        return ErrorTerms(
            "quantile_error", {"scale": self.scale, "denominator": self.q.denominator}
        )

    @property
    def shares(self) -> tuple[Fraction, ...]:
        """The share, as the only one."""
        return (self.q,)

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The scale of the choice."""
        return {"scale": self.scale}

    def describe(self) -> str:
        """Describe the choice and its scale in words."""
        return (
            f"{self._chosen_by} of scale {number_text(self.scale)} over ranks, for the "
            f"{self.q} quantile"
        )

    def release_exact(self, exact: SparseHistogram, source: Words) -> list[int]:
        """The chosen cell, as the only one."""
        return [self.release_sparse(exact.filled, exact.counts, cells=exact.cells, source=source)]

    def release(self, counts: Any, *, source: Words | None = None) -> int:
        """The chosen cell; `counts` are the rows in every cell of the public grid."""
        return self.release_exact(sparse_histogram(counts), check_source(source))[0]

    def release_sparse(
        self, filled_cells: Any, counts: Any, *, cells: int, source: Words | None = None
    ) -> int:
        """Choose a cell as `release` does, given the cells that hold rows, in order."""
        filled, rows = check_filled_cells(filled_cells, counts, cells)
        grid = put_on_grid(filled, rows, 0, cells - 1)
        return choose_quantile(self, grid, check_source(source))

    @property
    def _draw(self) -> Draw:
        return by_weight


@dataclass(frozen=True)
class FlippedQuantile(Quantile):
    """One q-quantile by permute-and-flip, which has no bounded range.

    For one epsilon its expected miss is never larger than that of `Quantile`.

    >>> median = FlippedQuantile(Fraction(1, 2), epsilon=1)
    >>> median.release([0, 0, 10_000, 0]), median.loss()
    (2, Pure(epsilon=1, neighbours='add_remove', unit='unit'))
    """

    stored_name: ClassVar[str] = "FlippedQuantile"  # in digests of stored releases: never changes
    _chosen_by: ClassVar[str] = "permute-and-flip"

    def loss(self) -> Loss:
        """What one quantile costs, and nothing tighter."""
        return Pure(self.epsilon, neighbours=self.neighbours, unit=self.unit)

    @property
    def _draw(self) -> Draw:
        return by_flips


Draw: TypeAlias = Callable[[RankLevels, Words], int]
"""How a cell is chosen from the levels of its scores."""


def choose_quantile(quantile: Quantile, grid: GridRows, source: Words) -> int:
    """Choose a cell of rows that were checked, as the quantile says."""
    return choose(grid, quantile.q, quantile.scale, source, draw=quantile._draw)


def choose(
    grid: GridRows,
    q: Fraction,
    scale: Fraction,
    source: Words,
    shift: int = 0,
    draw: Draw = by_weight,
) -> int:
    """Choose a cell of a grid by the rank scores of the rows there.

    `shift` aims so many rows above the share, or below: as if as many rows that nobody has stood in
    the highest cell, or in the lowest, so that some cell always is right. The number is public.
    """
    return draw(list_levels(grid, q, scale, shift), source)
