"""Integer noise for several numbers of each cell at once: the K-norm mechanism whose K is a box.

A row adds at most side_i to number i of its cell, so what a row adds lies in one box, and the rows
of a unit move all cells together by at most `rows` boxes: sum over cells of max_i(|change_i| /
side_i) <= rows. Or side_i is what a unit moves in one cell, and `rows` is its number of cells
(`UnitBox`). Noise that falls with that norm pays for a row once, not once for each number: for d
numbers its variance is (d+1)(d+2)/3 (side_i scale)^2 where d Laplaces that share the price have 2
d^2. Half for two numbers, and less for more. Guarantee: Pure(rows / scale). Hardt and Talwar 2010;
Awan and Slavkovic 2021. Proof: docs/proofs/box-noise.md.

>>> both = IntegerBox.for_epsilon(1, sides=(1, 500), rows=10)
>>> both.scale, both.loss()
(Fraction(10, 1), Pure(epsilon=1, neighbours='add_remove', unit='unit'))
>>> both.error_terms(0).scale, both.error_terms(1).scale, both.release([[100, 2000]]).shape
(Fraction(10, 1), Fraction(5000, 1), (1, 2))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from numpy.typing import NDArray

from dither.canonical import Number, number_text, positive, quote
from dither.error_terms import NoiseTerms
from dither.errors import ParameterError
from dither.plan.norms import Sensitivity
from dither.privacy.losses import ADD_REMOVE, Adjacency, Loss, Neighbours, Pure
from dither.privacy.mechanisms.additive import add, exact_integers, round_up
from dither.privacy.noise.box import box_noise
from dither.privacy.noise.samplers import LARGEST, SMALLEST
from dither.privacy.noise.source import Words, check_source

MOST_SIDES = 4
"""Of d! / d^d proposals one is kept: one in two for two numbers, one in eleven for four."""


@dataclass(frozen=True)
class IntegerBox:
    """Adds noise to the numbers of each cell together, independently of other cells."""

    stored_name: ClassVar[str] = "IntegerBox"  # in digests of stored releases: never changes

    scale: Fraction
    sides: tuple[int, ...]
    rows: int
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Check the sides, and that noise of this scale can be drawn."""
        object.__setattr__(self, "scale", positive(self.scale, "scale"))
        if not isinstance(self.sides, (tuple, list)) or not 2 <= len(self.sides) <= MOST_SIDES:
            raise ParameterError(f"a box has 2 to {MOST_SIDES} sides, got {quote(self.sides)}")
        object.__setattr__(self, "sides", tuple(_whole(length, "a side") for length in self.sides))
        _whole(self.rows, "rows")
        if self.scale < SMALLEST:
            raise ParameterError(f"scale must be at least 1/1000, got {number_text(self.scale)}")
        if len(self.sides) * max(self.sides) * self.scale > LARGEST:
            raise ParameterError(
                "more noise than can be drawn: a side times the scale must stay below 2**58"
            )
        self.loss()  # refuses neighbours and units that mean nothing, before anything is drawn

    @classmethod
    def for_epsilon(
        cls,
        epsilon: Number,
        sides: tuple[int, ...],
        rows: int,
        adjacency: Adjacency = ADD_REMOVE,
    ) -> IntegerBox:
        """Make the least noise that meets epsilon: scale = rows / epsilon.

        It is rounded up to 20 significant bits.
        """
        price = positive(
            epsilon, "epsilon", "choose e.g. epsilon=0.5, or run preview() to see what it buys"
        )
        return cls(max(SMALLEST, round_up(_whole(rows, "rows") / price)), sides, rows, *adjacency)

    def loss(self) -> Loss:
        """What one release costs."""
        return Pure(self.rows / self.scale, neighbours=self.neighbours, unit=self.unit)

    def error_terms(self, column: int = 0) -> NoiseTerms:
        """State the law of the error of one number of each cell, whatever the others are."""
        if column not in range(len(self.sides)):
            raise ParameterError(f"a box of {len(self.sides)} sides has no number {quote(column)}")
        return NoiseTerms(
            "box_error",
            {"sides": self.sides, "scale": self.scale, "column": column},
            self.sides[column] * self.scale,
        )

    def column_sensitivity(self, column: int = 0) -> Sensitivity:
        """How far one unit moves one number over all cells."""
        moved = self.sides[column] * self.rows
        return Sensitivity.of(cells=self.rows, largest=moved, l1=moved)

    @property
    def parameters(self) -> Mapping[str, Fraction]:
        """The scale of the box."""
        return {"scale": self.scale}

    def describe(self) -> str:
        """Describe the noise and its parameter in words."""
        scale = number_text(self.scale)
        return (
            f"box noise of scale {scale} on {len(self.sides)} counts or sums of each cell together"
        )

    def describe_sensitivity(self) -> str:
        """How far one unit moves the numbers of all cells together, in words."""
        return (
            f"{self.rows:,} rows of at most ({', '.join(f'{length:,}' for length in self.sides)})"
        )

    def sensitivity_document(self) -> Mapping[str, Any]:
        """How far one unit moves the numbers of all cells together."""
        return {"rows": self.rows, "sides": list(self.sides)}

    def release_exact(self, exact: Any, source: Words) -> list[int]:
        """The numbers of all cells plus noise, cell by cell."""
        return list(self.release(exact, source=source).ravel().tolist())

    def release(self, values: Any, *, source: Words | None = None) -> NDArray[Any]:
        """Add noise to `values`, one row for each cell: integers of the same shape."""
        cells = exact_integers(values)
        if cells.shape == (0,):  # no cells at all, which must never be an error
            cells = cells.reshape(0, len(self.sides))
        if cells.ndim != 2 or cells.shape[1] != len(self.sides):
            raise ParameterError(
                f"a box of {len(self.sides)} sides takes rows of so many numbers, got {cells.shape}"
            )
        return add(cells, box_noise(self.sides, self.scale, len(cells), check_source(source)))


@dataclass(frozen=True)
class UnitBox(IntegerBox):
    """The same noise. A side is what one unit moves in one cell, and `rows` counts its cells."""

    stored_name: ClassVar[str] = "UnitBox"  # in digests of stored releases: never changes

    def describe_sensitivity(self) -> str:
        """How far one unit moves the numbers of all cells together, in words."""
        return (
            f"{self.rows:,} cells by at most ({', '.join(f'{length:,}' for length in self.sides)})"
        )


def _whole(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(f"{name} must be a whole number from 1 on, got {quote(value)}")
    return value
