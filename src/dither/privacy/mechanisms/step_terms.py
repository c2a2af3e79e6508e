"""What a family builds a mechanism from: one query, a share of the price, public facts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, TypeAlias

from dither.catalog import Catalog
from dither.plan.algebra import Cells, Query
from dither.plan.facts import Facts
from dither.plan.grids import Points
from dither.plan.norms import Sensitivity
from dither.plan.sensitivity import sensitivity
from dither.privacy.mechanisms.protocol import Mechanism

Measure: TypeAlias = Literal["epsilon", "rho"]


@dataclass(frozen=True)
class StepTerms:
    """One step of a request: `share` is an epsilon or a rho, by `measure`; `delta` is what its
    selection of keys has.

    `points` is the grid of a quantile.
    """

    query: Query
    measure: Measure
    share: Fraction
    delta: Fraction
    catalog: Catalog
    facts: Facts
    points: Points | None = None

    @property
    def adjacency(self) -> dict[str, Any]:
        """Whom the guarantee protects, from what change."""
        return {"neighbours": self.catalog.neighbours, "unit": self.catalog.unit.label}

    def sensitivity(self) -> Sensitivity:
        """How far one unit moves the counts and sums."""
        assert isinstance(self.query, Cells)
        return sensitivity(self.query, self.catalog, self.facts)


class Built(NamedTuple):
    """A mechanism, and how often its loss counts: once, or for each cell of one unit."""

    mechanism: Mechanism
    copies: int = 1
