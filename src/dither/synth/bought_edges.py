"""Edges of bins at bought quantiles: where the rows are, for a stated share of the lease.

Quantiles are the first steps of the lease, so what they cost is in its one charge. Edges follow
from the quantiles that were released and from the catalog alone. Proof:
docs/proofs/synthetic-tables.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.answer.curator_access import Pricer
from dither.answer.leased import write_request
from dither.answer.quantile_intervals import count_rank_rows
from dither.errors import ParameterError
from dither.plan.algebra import Quantiles, Scan
from dither.plan.analysed_query import Analyses
from dither.privacy.kernel.request import Price
from dither.privacy.ledger import LedgerView
from dither.synth.edges import Bins, BoughtEdges, count_bought_bins
from dither.synth.steps import ReleasedStep, StepLease
from dither.synth.synthesize import SynthPrice, find_table
from dither.synth.synthetic import Synthetic

COLUMN_SHARE = Fraction(1, 20)
"""The share of the price for the edges of one column."""
MOST_SHARE = Fraction(1, 5)
"""The largest share of the price for the edges of all columns together."""
_LEVEL = Fraction(95, 100)
"""The confidence of the stated errors of ranks."""


@dataclass(frozen=True)
class EdgeWish:
    """A column whose edges are to be bought, and by how many rows their ranks will be off."""

    table: str
    name: str
    bins: int
    price: SynthPrice
    rank_error: int = 0

    @property
    def query(self) -> Quantiles:
        """The quantiles that cut the rows into so many equal parts."""
        shares = tuple(Fraction(number, self.bins) for number in range(1, self.bins))
        return Quantiles(Scan(self.table), (), self.name, shares)


def list_edge_wishes(
    columns: Mapping[str, Sequence[str]], bins: Mapping[str, Bins], price: SynthPrice
) -> tuple[EdgeWish, ...]:
    """List what is to be bought, by table, each with its share of the price."""
    wished = [
        (table, name, count_bought_bins(name, wish))
        for table, names in columns.items()
        for name, wish in bins[table].items()
        if isinstance(wish, str) and name in names
    ]
    if not wished:
        return ()
    share = min(COLUMN_SHARE, MOST_SHARE / len(wished))
    share_price = replace(price, value=price.value * share)
    return tuple(EdgeWish(table, name, count, share_price) for table, name, count in wished)


def find_rank_errors(
    wishes: Sequence[EdgeWish], kernel: Pricer, pot: str, view: LedgerView
) -> tuple[EdgeWish, ...]:
    """Find by how many rows the ranks of bought edges will be off; return the wishes with that.

    It follows from the catalog and the price alone. Raises ParameterError where it is more than the
    declared number of rows.
    """
    with_errors = []
    for wish in wishes:
        measure = wish.price.measure
        price = Price(**{measure: wish.price.value})
        request = write_request(wish.query, price, pot, None, measure == "epsilon")
        priced = kernel.price_at(request, view)
        cells = kernel.version.analyses.analyse_query(wish.query).points.count
        error = count_rank_rows(priced.steps[0].mechanism, cells, _LEVEL)
        most_rows = find_table(kernel.version.catalog, wish.table).max_rows
        if most_rows is not None and error > most_rows:
            raise ParameterError(
                f"{wish.price.asked} is below what bought bins need: edges of {wish.name} would "
                f"be off by about {error:,} rows, and {wish.table} has at most {most_rows:,}. Pay "
                f"more, buy fewer bins, or name the edges"
            )
        with_errors.append(replace(wish, rank_error=error))
    return tuple(with_errors)


@dataclass(frozen=True)
class BoughtBins:
    """What a lease released of edges: by table and column, and the steps by table."""

    edges: Mapping[str, Mapping[str, BoughtEdges]]
    steps: Mapping[str, tuple[ReleasedStep, ...]]

    def replace_wishes(self, table: str, bins: Bins) -> Bins:
        """Return the bins of a table with bought edges instead of the wishes for them."""
        return {**bins, **self.edges.get(table, {})}

    def add_steps(self, made: Synthetic) -> Synthetic:
        """Return a table with the steps that bought its edges after its other steps."""
        steps = self.steps.get(made.facts["table"], ())
        return replace(made, released=(*made.released, *steps))


def buy_edges(wishes: Sequence[EdgeWish], lease: StepLease, analyses: Analyses) -> BoughtBins:
    """Buy the edges of all wishes out of a lease."""
    edges: dict[str, dict[str, BoughtEdges]] = {}
    steps: dict[str, tuple[ReleasedStep, ...]] = {}
    for wish in wishes:
        before = lease.left
        price = wish.price
        values = lease.release(wish.query, **{price.measure: price.value})
        grid = place_edges(values, wish, analyses)
        edges.setdefault(wish.table, {})[wish.name] = BoughtEdges(grid)
        cost = float(before - lease.left)
        step = ReleasedStep("edges", (wish.name,), len(values), cost, float(wish.rank_error))
        steps[wish.table] = (*steps.get(wish.table, ()), step)
    return BoughtBins(edges, steps)


def place_edges(values: Sequence[int], wish: EdgeWish, analyses: Analyses) -> tuple[int, ...]:
    """Make edges of released quantiles: at most as many as there are quantiles, and at least one.

    A value that several quantiles share, or that is the lower bound, has a bin of its own, which
    ends where the next point of the quantiles' grid begins.
    """
    low, high = analyses.analyse_rows(wish.query.plan).columns[wish.name].listed
    step = analyses.analyse_query(wish.query).points.step
    edges: set[int] = set()
    for value, count in Counter(values).items():
        edges.add(value)
        if count > 1 or value <= low:
            edges.add(value + step)
    return tuple(sorted(edge for edge in edges if low < edge <= high))


def reuse_edges(bins: Bins, start: object) -> Bins:
    """Return bins with the edges that an earlier table bought: they are not paid for again."""
    if not isinstance(start, Synthetic):
        return bins
    earlier = {
        column.name: BoughtEdges(column.edges)
        for column in start.columns
        if column.has_bought_edges
    }
    return {
        name: earlier.get(name, wish) if isinstance(wish, str) else wish
        for name, wish in bins.items()
    }
