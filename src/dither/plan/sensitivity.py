"""How far one unit can move a vector of integers: exact, in every norm that a mechanism may need."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.errors import ParameterError


@dataclass(frozen=True)
class Sensitivity:
    """Bounds over all neighbours of the change in a vector of integers: cells changed, L1, squared L2, Linf.

    Cells are integers, so every bound is one too: a rational bound is floored, never rounded up. `of` fills in what
    follows from the cells changed and the largest change of one cell.

    >>> Sensitivity.of(cells=3, largest=2)
    Sensitivity(l0=3, l1=6, l2_squared=12, linf=2)
    """

    l0: int
    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        for name in ("l0", "l1", "l2_squared", "linf"):
            value = getattr(self, name)
            if isinstance(value, Fraction):
                object.__setattr__(self, name, value.numerator // value.denominator)
            elif isinstance(value, bool) or not isinstance(value, int):
                raise ParameterError(f"sensitivity {name} must be an exact integer or Fraction, got {value!r}")
            if getattr(self, name) < 0:
                raise ParameterError(f"sensitivity {name} must not be negative, got {value}")

    @classmethod
    def of(cls, *, cells: int = 1, largest: int | Fraction = 1, l1: int | Fraction | None = None) -> Sensitivity:
        """At most `cells` cells change, each by at most `largest`, together by at most `l1` if that is known."""
        linf = largest.numerator // largest.denominator if isinstance(largest, Fraction) else largest
        if isinstance(linf, float) or isinstance(cells, float):
            raise ParameterError("sensitivity must be an exact integer or Fraction, got a float")
        total = cells * linf if l1 is None else min(cells * linf, l1.numerator // l1.denominator)
        return cls(l0=min(cells, total), l1=total, l2_squared=min(total * linf, total * total), linf=min(linf, total))
