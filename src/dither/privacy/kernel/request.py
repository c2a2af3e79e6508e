"""Requests: what the untrusted layers may ask of the kernel.

A request can state neither a scale nor a sensitivity.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, TypeAlias

from dither.canonical import digest, fraction_text, number_text
from dither.errors import ParameterError
from dither.plan.algebra import Cells, Query, to_json

Family: TypeAlias = str
"""The name of a registered family of mechanisms (`families.py`); a request that names another is
refused."""
Context = Literal["asked", "dry_run"]
MOST_PRICE = 10**100
"""The largest price; 1 / MOST_PRICE is the smallest. Nothing is bought beyond either, and floats
hold both."""


@dataclass(frozen=True)
class Price:
    """A ceiling on the loss of the whole request, all steps composed: an epsilon or a rho.

    What a pot takes is computed from the loss by the pot's own rule; a delta is never the asker's
    to choose: it is the share that the pot states.
    """

    epsilon: Fraction | None = None
    rho: Fraction | None = None

    def __post_init__(self) -> None:
        """Check that the price is one positive number, epsilon or rho, between 1e-100 and 1e100."""
        if (self.epsilon is None) == (self.rho is None):
            raise ParameterError("a price is either epsilon= or rho=: choose e.g. epsilon=0.5")
        if self.value <= 0:
            raise ParameterError(
                f"{self.name} must be positive, got {number_text(self.value)}: "
                f"choose e.g. {self.name}=0.5, or run preview() to see what it buys"
            )
        if not 1 <= self.value * MOST_PRICE <= MOST_PRICE**2:
            raise ParameterError(
                f"{self.name} must lie between 1e-100 and 1e100, got {number_text(self.value)}: "
                f"choose e.g. {self.name}=0.5, or run preview() to see what it buys"
            )

    @property
    def name(self) -> str:
        return "rho" if self.epsilon is None else "epsilon"

    @property
    def value(self) -> Fraction:
        """The number of the price, in epsilon or rho, whichever was stated."""
        number = self.rho if self.epsilon is None else self.epsilon
        assert number is not None
        return number


@dataclass(frozen=True)
class Step:
    """Numbers that share one noise: columns of a measured query, their family of mechanisms, their
    share of the price.

    Steps that name the same `measured` query are answered by one statement. `columns` are indexes
    of its columns; None means all that it has.
    """

    measured: Query
    family: Family
    weight: Fraction
    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        """Check that the weight is positive and the columns are different ones of the query."""
        if self.weight <= 0:
            raise ParameterError(f"the weight of a step must be positive, got {self.weight}")
        if self.columns is not None:
            width = len(self.measured.columns) if isinstance(self.measured, Cells) else 0
            numbers = [
                column for column in self.columns if type(column) is int and 0 <= column < width
            ]
            if not numbers or len(set(numbers)) != len(self.columns):
                raise ParameterError(
                    f"a step has different columns of its query, which has {width}"
                )

    @cached_property
    def query(self) -> Query:
        """What this step answers: the measured query with the columns of the step alone."""
        if self.columns is None:
            return self.measured
        assert isinstance(self.measured, Cells)
        chosen = tuple(self.measured.columns[column] for column in self.columns)
        return Cells(self.measured.plan, self.measured.keys, chosen)


@dataclass(frozen=True)
class Request:
    """Steps answered together for one price out of one pot."""

    steps: tuple[Step, ...]
    price: Price
    pot: str
    context: Context = "asked"

    def __post_init__(self) -> None:
        if not self.steps:
            raise ParameterError("a request needs at least one step")

    def to_json(self) -> dict[str, Any]:
        """Write the request as the canonical dict that the ledger hashes."""
        return {
            "type": "request",
            "v": 1,
            "steps": [
                {
                    "query": to_json(step.query),
                    "family": step.family,
                    "weight": fraction_text(step.weight),
                }
                for step in self.steps
            ],
            "price": {self.price.name: fraction_text(self.price.value)},
            "pot": self.pot,
            "context": self.context,
        }

    @property
    def hash(self) -> str:
        return digest(self.to_json())
