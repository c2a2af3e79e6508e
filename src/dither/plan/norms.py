"""How far one unit can move a vector of integers: exact, in every norm that a mechanism may
need."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from dither.canonical import quote
from dither.errors import ParameterError


@dataclass(frozen=True)
class Sensitivity:
    """Bounds over all neighbours of the change in a vector of integers: cells changed, L1, squared
    L2, Linf.

    Cells are integers, so every bound is one too: a rational bound is floored, never rounded up.
    Bounds that follow from the others are drawn, so that all four agree. `of` needs only the cells
    changed and the largest change of one.

    >>> Sensitivity.of(cells=3, largest=2)
    Sensitivity(l0=3, l1=6, l2_squared=12, linf=2)
    >>> Sensitivity(l0=1, l1=9, l2_squared=4, linf=3)
    Sensitivity(l0=1, l1=2, l2_squared=4, linf=2)
    """

    l0: int
    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        """Check that all norms are exact integers of at least 0, and lower each as far as others
        imply."""
        for name in ("l0", "l1", "l2_squared", "linf"):
            value = getattr(self, name)
            if isinstance(value, Fraction):
                object.__setattr__(self, name, value.numerator // value.denominator)
            elif isinstance(value, bool) or not isinstance(value, int):
                raise ParameterError(
                    f"sensitivity {name} must be an exact integer or Fraction, got {quote(value)}"
                )
            if value < 0:
                raise ParameterError(f"sensitivity {name} must not be negative, got {quote(value)}")
        before = None
        bounds = (self.l0, self.l1, self.l2_squared, self.linf)
        while before != bounds:
            before = bounds
            l0, l1, l2_squared, linf = bounds
            bounds = (
                min(l0, l1),  # a change of an integer is at least 1
                min(l1, l0 * linf, l2_squared),
                min(l2_squared, l1 * linf),
                min(linf, l1, isqrt(l2_squared)) if l0 else 0,
            )
        for name, bound in zip(("l0", "l1", "l2_squared", "linf"), bounds, strict=True):
            object.__setattr__(self, name, bound)

    @classmethod
    def of(
        cls, *, cells: int = 1, largest: int | Fraction = 1, l1: int | Fraction | None = None
    ) -> Sensitivity:
        """Make the sensitivity of `cells` cells that each change by at most `largest`.

        Together they change by at most `l1`, if that is known.
        """
        for value in (cells, largest, 0 if l1 is None else l1):
            if isinstance(value, bool) or not isinstance(value, (int, Fraction)):
                raise ParameterError(
                    f"sensitivity must be an exact integer or Fraction, got {quote(value)}"
                )
        linf = largest.numerator // largest.denominator
        total = cells * linf if l1 is None else l1.numerator // l1.denominator
        return cls(l0=cells, l1=total, l2_squared=total * total, linf=linf)
