"""Bins of numbers and times as the asker wishes them: how many of equal width, at which values they
begin, or how many of about equal counts are to be bought.

A wish is checked against the catalog alone, before anything is read or charged. Edges that the
asker names are public; bought ones are released quantiles (`bought_edges.py`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class BoughtEdges:
    """Edges made of quantiles that a lease released: integers of the column's grid at which bins
    after the first begin."""

    grid: tuple[int, ...]


Bins: TypeAlias = Mapping[str, int | str | Sequence[Edge] | BoughtEdges]
"""By column a number of bins of equal width, the values at which bins after the first begin, or
"buy" and "buy:12" for edges at bought quantiles."""
BOUGHT_BINS = 16
"""How many bins "buy" buys."""
_BUY = re.compile(r"buy(?::([0-9]{1,4}))?")


def check_bins(bins: object, names: Sequence[str]) -> None:
    """Refuse bins of other columns, and what is neither a number of bins nor a list of edges."""
    if not isinstance(bins, Mapping):
        raise ParameterError("bins are by column: bins={'cost': 40, 'age': [18, 30, 65]}")
    for name, wish in bins.items():
        if name not in names:
            raise ParameterError(
                f"bins name {quote(name)}, which is none of the columns: {', '.join(names)}"
            )
        if isinstance(wish, str) and _BUY.fullmatch(wish):
            count_bought_bins(name, wish)
        elif type(wish) is not int and not isinstance(wish, (list, tuple, BoughtEdges)):
            raise ParameterError(
                f"the bins of {name} are a whole number, or a list of the values at which bins "
                f"begin, or 'buy' for edges at bought quantiles, got {quote(wish)}"
            )


def refuse_bought_edges(bins: object) -> None:
    """Refuse edges from outside that say that they were bought: a lease buys them itself."""
    if not isinstance(bins, Mapping):
        return
    for name, wish in bins.items():
        if isinstance(wish, BoughtEdges):
            raise ParameterError(
                f"the bins of {name} say that they were bought: ask for 'buy' to buy them out of "
                f"the lease, or list the values at which bins begin"
            )


def count_bought_bins(name: str, wish: str) -> int:
    """Count the bins of a wish such as "buy" or "buy:12".

    >>> count_bought_bins("age", "buy"), count_bought_bins("age", "buy:12")
    (16, 12)
    """
    matched = _BUY.fullmatch(wish)
    assert matched is not None
    bins = int(matched[1] or BOUGHT_BINS)
    if not 2 <= bins <= MOST_EDGES + 1:
        raise ParameterError(f"{name} takes 2 to {MOST_EDGES + 1} bought bins, got {bins}")
    return bins


def invent_edges(name: str, domain: Domain, wish: str) -> tuple[int, ...]:
    """Invent evenly spaced edges, as many as may be bought, to check a plan before the charge."""
    bins = count_bought_bins(name, wish)
    _check_order(name, domain)
    low, high = domain.listed
    values = high - low + 1
    if values < bins:
        raise ParameterError(
            f"{name} has {values} values, too few for {bins} bought bins: leave it out of bins, "
            f"and every value is kept apart"
        )
    return tuple(low + number * values // bins for number in range(1, bins))


def _check_order(name: str, domain: Domain) -> None:
    if domain.kind not in ORDERED:
        raise ParameterError(f"{name} is a {domain.kind} and has no order: leave it out of bins")


def read_edges(name: str, domain: Domain, edges: Sequence[Edge]) -> tuple[int, ...]:
    """Read edges as integers of a column's grid. Raises ParameterError, which says what to change.

    A bin begins at every edge; the first one begins at the lower bound, which is no edge.
    """
    _check_order(name, domain)
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


def write_bins(bins: Bins) -> dict[str, int | str | list[str]]:
    """Write bins as the terms of a job: edges as texts, which `read_edges` reads alike."""
    return {name: _write_wish(name, wish) for name, wish in bins.items()}


def _write_wish(name: str, wish: int | str | Sequence[Edge] | BoughtEdges) -> int | str | list[str]:
    assert not isinstance(wish, BoughtEdges), "a job buys its own edges"
    if isinstance(wish, (int, str)):
        return wish
    return [_write_edge(name, edge) for edge in wish]


def _write_edge(name: str, edge: Edge) -> str:
    if isinstance(edge, (str, date)):
        return str(edge)
    number: Fraction = exact(edge, f"an edge of {name}")
    return fraction_text(number)
