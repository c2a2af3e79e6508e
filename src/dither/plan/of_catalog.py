"""What follows from a query and a catalog, analysed anew each time: for audits and tests.

Questions carry their analysis (`plan/analysed_query.py`).
"""

from __future__ import annotations

from math import prod

from dither.catalog import Catalog
from dither.plan.algebra import Aggregate, Cells, Quantiles, Query
from dither.plan.analyse import analyse
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.grids import Points, points_of_rows
from dither.plan.keys import KeyDomain, key_domains_in, open_keys_in
from dither.plan.norms import Sensitivity
from dither.plan.sensitivity import (
    Box,
    Reach,
    box_in,
    largest_value_in,
    sensitivity_in,
    touched_in,
    unit_box_in,
)


def sensitivity(query: Cells, catalog: Catalog, facts: Facts = NO_FACTS) -> Sensitivity:
    """Exact bounds over all neighbours of the registered tables."""
    return sensitivity_in(query, analyse(query.plan, catalog, facts), catalog.neighbours)


def box(query: Cells, catalog: Catalog, facts: Facts = NO_FACTS) -> Box:
    """How far one unit moves the numbers of all cells together, in boxes of what one row can add to
    its cell."""
    return box_in(query, analyse(query.plan, catalog, facts), catalog.neighbours)


def unit_box(query: Cells, catalog: Catalog, facts: Facts = NO_FACTS) -> Box:
    """How far one unit moves the numbers of all cells together, in boxes of what one unit moves in
    one cell."""
    return unit_box_in(query, analyse(query.plan, catalog, facts), catalog.neighbours)


def touched(query: Query, catalog: Catalog, facts: Facts = NO_FACTS) -> Reach:
    """How far the rows of one unit reach in a query that is answered cell by cell: quantiles, key
    selection.

    As `sensitivity`, under replace: a unit leaves its cells and joins others. Rows without an owner
    may come and go together, so that a replaced unit changes twice as many of one cell. Keys are
    counted by owners: they need one.
    """
    return touched_in(query, analyse(query.plan, catalog, facts), catalog.neighbours)


def largest_value(
    aggregate: Aggregate, query: Cells, catalog: Catalog, facts: Facts = NO_FACTS
) -> int:
    """The public bound of |aggregate|: the plan's largest number of rows times what one adds."""
    return largest_value_in(aggregate, analyse(query.plan, catalog, facts))


def open_keys(query: Query, catalog: Catalog, facts: Facts = NO_FACTS) -> tuple[str, ...]:
    """The keys of a query that have no list of values: which of them are shown is decided by
    private key selection."""
    return open_keys_in(query.keys, analyse(query.plan, catalog, facts).columns)


def key_domains(query: Query, catalog: Catalog, facts: Facts = NO_FACTS) -> tuple[KeyDomain, ...]:
    """The domains of all listed keys; refused when their product is too large to return whole."""
    return key_domains_in(query.keys, analyse(query.plan, catalog, facts).columns)


def shape(query: Cells | Quantiles, catalog: Catalog, facts: Facts = NO_FACTS) -> tuple[int, int]:
    """(cells of listed keys, numbers in each): public; what is measured for each value of the other
    keys, if any."""
    width = query.width if isinstance(query, Quantiles) else len(query.columns)
    return prod(domain.codes for domain in key_domains(query, catalog, facts)), width


def points_of(query: Quantiles, catalog: Catalog, facts: Facts = NO_FACTS) -> Points:
    """The grid of a query; refused where the column has no bounds."""
    return points_of_rows(query, analyse(query.plan, catalog, facts))
