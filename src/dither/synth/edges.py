"""Bins of numbers and times as the asker wishes them: how many of equal width, or where they begin.

Edges are public: a wish is checked against the catalog alone, before anything is read or charged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeAlias

from dither.canonical import Number, exact, fraction_text, number_text, quote
from dither.errors import ParameterError
from dither.plan.domain import Domain

MOST_EDGES = 49
"""One CASE tells 50 conditions apart, and a missing value takes one of them."""
EPOCH = date(1970, 1, 1)
ORDERED = ("number", "date", "timestamp")

Edge: TypeAlias = Number | date
Bins: TypeAlias = Mapping[str, int | Sequence[Edge]]
"""By column a number of bins of equal width, or the values at which bins after the first begin."""


def check_bins(bins: object, names: Sequence[str]) -> None:
    """Refuse bins of other columns, and what is neither a number of bins nor a list of edges."""
    if not isinstance(bins, Mapping):
        raise ParameterError("bins are by column: bins={'cost': 40, 'age': [18, 30, 65]}")
    for name, wish in bins.items():
        if name not in names:
            raise ParameterError(
                f"bins name {quote(name)}, which is none of the columns: {', '.join(names)}"
            )
        if type(wish) is not int and not isinstance(wish, (list, tuple)):
            raise ParameterError(
                f"the bins of {name} are a whole number, or a list of the values at which bins "
                f"begin, got {quote(wish)}"
            )


def read_edges(name: str, domain: Domain, edges: Sequence[Edge]) -> tuple[int, ...]:
    """Read edges as integers of a column's grid. Raises ParameterError, which says what to change.

    A bin begins at every edge; the first one begins at the lower bound, which is no edge.
    """
    if domain.kind not in ORDERED:
        raise ParameterError(f"{name} is a {domain.kind} and has no order: leave it out of bins")
    if not 1 <= len(edges) <= MOST_EDGES:
        raise ParameterError(
            f"{name} takes 1 to {MOST_EDGES} edges of bins, got {len(edges)}; a number in place of "
            f"a list makes bins of equal width"
        )
    grid = tuple(_read_edge(name, domain, edge) for edge in edges)
    if any(later <= earlier for earlier, later in pairwise(grid)):
        raise ParameterError(f"the edges of {name} must increase: list each once, in order")
    low, high = domain.listed
    if grid[0] <= low or grid[-1] > high:
        raise ParameterError(
            f"the edges of {name} lie above the lower bound of the catalog, where the first bin "
            f"begins, and not above the upper one: leave out those that do not"
        )
    return grid


def _read_edge(name: str, domain: Domain, edge: Any) -> int:
    """Read one edge as an integer of the grid."""
    if domain.kind == "number":
        grid = exact(edge, f"an edge of {name}") / domain.step
        if grid.denominator != 1:
            raise ParameterError(
                f"{quote(edge)} is no value of {name}, which goes in steps of "
                f"{number_text(domain.step)}: round it to one"
            )
        return int(grid)
    if domain.kind == "date":
        return (_read_date(name, edge) - EPOCH).days
    return _read_second(name, edge)


def _read_date(name: str, edge: Any) -> date:
    if type(edge) is date:
        return edge
    try:
        return date.fromisoformat(edge)
    except (TypeError, ValueError):
        raise ParameterError(
            f"an edge of {name} is a date such as '2021-03-01', got {quote(edge)}"
        ) from None


def _read_second(name: str, edge: Any) -> int:
    try:
        moment = edge if isinstance(edge, datetime) else datetime.fromisoformat(edge)
    except (TypeError, ValueError):
        moment = None
    if moment is None or moment.microsecond:
        raise ParameterError(
            f"an edge of {name} is a time in whole seconds such as '2021-03-01 08:00:00', in UTC "
            f"unless it names a zone, got {quote(edge)}"
        )
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp())


def write_bins(bins: Bins) -> dict[str, int | list[str]]:
    """Write bins as the terms of a job: edges as texts, which `read_edges` reads alike."""
    return {
        name: wish if isinstance(wish, int) else [_write_edge(name, edge) for edge in wish]
        for name, wish in bins.items()
    }


def _write_edge(name: str, edge: Edge) -> str:
    if isinstance(edge, (str, date)):
        return str(edge)
    number: Fraction = exact(edge, f"an edge of {name}")
    return fraction_text(number)
