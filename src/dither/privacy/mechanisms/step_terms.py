"""What a family builds a mechanism from: one query, a share of the price, public facts."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple, TypeAlias

from dither.plan.algebra import Query
from dither.plan.analysed_query import AnalysedQuery
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms.protocol import Mechanism

Measure: TypeAlias = Literal["epsilon", "rho"]


@dataclass(frozen=True)
class StepTerms:
    """One step of a request, and what it may cost.

    `share` is an epsilon or a rho, by `measure`; `delta` is for its selection of keys.
    """

    analysed: AnalysedQuery
    measure: Measure
    share: Fraction
    delta: Fraction
    unit: str

    @property
    def query(self) -> Query:
        """What the step asks for."""
        return self.analysed.query

    @property
    def adjacency(self) -> Adjacency:
        """Whom the guarantee protects, from what change."""
        return Adjacency(self.analysed.neighbours, self.unit)


class Built(NamedTuple):
    """A mechanism, and how often its loss counts: once, or for each cell of one unit.

    A fraction multiplies its rho.
    """

    mechanism: Mechanism
    copies: int | Fraction = 1
