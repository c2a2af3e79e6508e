"""Buy the limits of a question: noisy histograms of what each person adds, and the best clamp.

Every person is in one bin of each histogram, so a histogram costs what one count costs. Its bins
are magnitudes: each is twice as wide as the one before. The clamp is chosen from the released
counts alone, by `choose_limits`.

There are two kinds of limits. For one aggregate priced in epsilon, what a person adds to all groups
together is clamped. Laplace noise grows with that total (the L1 norm), and the total is never more
than the largest number times the groups; it also needs one histogram instead of two. For several
aggregates, or a price in rho, the largest number that a person adds to a group is clamped and the
number of groups is limited. Gaussian noise grows with the L2 norm, and several aggregates share the
noise of a group.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from typing import TYPE_CHECKING, Any

from dither.answer.choose_limits import (
    BoughtHistogram,
    ChosenClamp,
    choose_limits,
    list_group_edges,
    list_magnitude_edges,
)
from dither.answer.noises import Noises, list_noises
from dither.answer.possible_cells import count_possible_cells
from dither.answer.suggest import add_terms, compare_threshold
from dither.errors import ParameterError
from dither.figures import write_figure
from dither.laws import HasErrorTerms
from dither.plan.algebra import (
    Aggregate,
    Call,
    Cells,
    Column,
    Count,
    Maximum,
    Named,
    PerUnit,
    Plan,
    Project,
    Sum,
    Value,
)
from dither.plan.analyse import Analysed
from dither.plan.analysed_query import Analyses
from dither.plan.domain import Domain
from dither.plan.keys import bounds_in
from dither.plan.stability import Node, Owned
from dither.privacy.kernel.request import Price
from dither.publish.text import render_text
from dither.question.expressions import Noisy
from dither.question.recipe import Atom, GroupingSet, KeyColumn, Output, Recipe
from dither.question.unit_limits import (
    UnitClamp,
    UnitLimits,
    can_be_limited,
    list_unit_rows,
    name_numbers,
)
from dither.surfaces import make_rich_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

BIN = "bin"
LARGEST = "largest"
GROUPS = "groups_of_unit"
"""Names of columns that the plans of histograms compute."""


@dataclass(frozen=True)
class LimitWish:
    """The histograms that are to be bought for a question, and the values between their bins.

    `columns` has the column of its query for every aggregate. `units`, `edges`, `has_negatives` and
    `row_bounds` have one entry for every column. `cells` are those that can hold rows. `is_total`
    says that the histogram is of what a person adds to all groups together.
    """

    sql: str
    recipe: Recipe
    aggregates: tuple[str, ...]
    columns: tuple[int, ...]
    units: tuple[Fraction, ...]
    edges: tuple[tuple[int, ...], ...]
    has_negatives: tuple[bool, ...]
    row_bounds: tuple[int, ...]
    group_edges: tuple[int, ...]
    cells: int
    is_total: bool = False


@dataclass(frozen=True)
class LimitSuggestion:
    """Bought limits of one question; pass them as `limits=` to `sql` and `preview`."""

    sql: str
    limits: UnitLimits
    provenance: str
    info: dict[str, Any]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from map(make_rich_text, self.lines())

    def lines(self) -> list[str]:
        """The limits in words, one line for each, and where they come from."""
        lines = [
            f"{clamp.aggregate}: one person adds {write_figure(float(clamp.low), 6)} to "
            f"{write_figure(float(clamp.high), 6)} to "
            f"{'all groups together' if self.limits.is_total else 'a group'}"
            + ("" if clamp.size else "; too few people add anything to be told from none")
            for clamp in self.limits.clamps
        ]
        if self.limits.max_groups is not None:
            lines.append(f"one person counts in at most {self.limits.max_groups} groups")
        return [*lines, self.provenance, "ask with con.sql(sql, limits=limits)"]

    def __str__(self) -> str:
        return render_text(self)


def _find_deviation(noises: Noises) -> float:
    """Find the standard deviation of the noise of a histogram's counts."""
    law = noises.laws[0]
    assert law is not None
    return float(law.deviation)


def read_limit_wish(
    sql: str, bound: Recipe, analyses: Analyses, *, allow_total: bool = True
) -> LimitWish:
    """Plan the histograms that are bought for a question; refuse one that cannot have limits.

    With one aggregate and `allow_total` there is one histogram: what each person adds to all groups
    together. Otherwise there is one for every aggregate, of the largest number that a person adds
    to a group, and one of how many groups a person has.
    """
    query = bound.queries[0]
    is_one_query = len(bound.sets) == 1 and len(bound.queries) == 1
    if not can_be_limited(bound) or not is_one_query or not isinstance(query, Cells):
        raise ParameterError(
            "limits are bought for counts, sums and their ratios by declared keys: ask for "
            "averages, for sums beside counts, and for ROLLUP in questions of their own"
        )
    rows, limited = list_unit_rows(query)
    unit_rows = analyses.analyse_rows(rows)
    columns = unit_rows.columns
    before = analyses.analyse_rows(rows.source)
    row_bounds = tuple(_find_row_bound(column, before) for column in query.columns)
    if isinstance(before.node, Owned) and before.node.rows * max(row_bounds) <= 1:
        raise ParameterError(
            "nothing to buy: one person adds at most 1 to one group of this question, and no limit "
            "is smaller"
        )
    cells = count_possible_cells(before, query.keys, analyses.facts)
    plans: list[Plan] = []
    edges: list[tuple[int, ...]] = []
    names = name_numbers(query)
    counted = PerUnit(rows, (), (Named(GROUPS, Count()),))
    most_groups = analyses.analyse_rows(counted).columns[GROUPS].high
    most_groups = most_groups if limited is None else min(most_groups, limited)
    has_groups = bool(query.keys) and most_groups > 1
    is_total = allow_total and has_groups and len(names) == 1
    for name in names:
        domain = columns[name]
        edges.append(list_magnitude_edges(_find_largest(domain, name, unit_rows.node, is_total)))
        largest = PerUnit(
            Project(rows, (Named(LARGEST, Call("abs", (Column(name),))),)),
            (),
            (Named(LARGEST, Sum(LARGEST) if is_total else Maximum(LARGEST)),),
        )
        plans.append(_bin_rows(largest, LARGEST, edges[-1], domain.step))
    group_edges: tuple[int, ...] = ()
    if has_groups and not is_total:
        group_edges = list_group_edges(most_groups)
        plans.append(_bin_rows(counted, GROUPS, group_edges, Fraction(1)))
    return LimitWish(
        sql,
        _make_recipe(plans, analyses),
        tuple(atom.aggregate for atom in bound.atoms),
        tuple(column for _, column in bound.sets[0].positions),
        tuple(columns[name].step for name in names),
        tuple(edges),
        tuple(columns[name].low < 0 for name in names),
        row_bounds,
        group_edges,
        cells,
        is_total,
    )


def _find_largest(domain: Domain, name: str, node: Node, is_total: bool) -> int:
    """Find the most that one person can add to one group, or to all together, in grid steps."""
    if not is_total:
        return domain.largest
    assert isinstance(node, Owned)
    return min(node.rows * domain.largest, node.sums.get(name, node.rows * domain.largest))


def _find_row_bound(aggregate: Aggregate, rows: Analysed) -> int:
    """Find the most that one row can add to an aggregate, in grid steps."""
    return bounds_in(aggregate.column, rows.columns).largest if isinstance(aggregate, Sum) else 1


def _bin_rows(plan: Plan, name: str, edges: tuple[int, ...], step: Fraction) -> Plan:
    """Add the bin of a value as a column: the number of edges that it exceeds."""
    tests = tuple(compare_threshold(name, edge * step) for edge in edges)
    value = add_terms(tests) if tests else Value("number", Fraction(0))
    return Project(plan, (Named(BIN, value),))


def _make_recipe(plans: Sequence[Plan], analyses: Analyses) -> Recipe:
    """Make the recipe that counts every plan's rows by bin."""
    queries = tuple(Cells(plan, (BIN,), (Count(),)) for plan in plans)
    keys = tuple(KeyColumn(BIN, analyses.analyse_rows(plan).columns[BIN]) for plan in plans)
    sets = tuple(GroupingSet((i,), None, ((i, 0),)) for i in range(len(plans)))
    output = Output("n", Noisy(0), "value", "COUNT(*)")
    return Recipe("suggest limits", queries, keys, (Atom("COUNT(*)"),), sets, (output,))


def make_limit_suggestion(
    wish: LimitWish,
    values: Sequence[Sequence[int]],
    mechanisms: Sequence[HasErrorTerms],
    price: Price,
    info: dict[str, Any],
) -> LimitSuggestion:
    """Choose limits by the released histograms: those of least error at nine times the price."""
    deviations = [_find_deviation(noises) for noises in list_noises(wish.recipe, mechanisms)]
    ninefold = 9 * float(price.value)
    epsilon = ninefold if price.name == "epsilon" else sqrt(2 * ninefold)
    histograms = [
        BoughtHistogram(edges, tuple(counts), deviation)
        for edges, counts, deviation in zip(wish.edges, values, deviations, strict=False)
    ]
    groups = None
    if wish.group_edges:
        groups = BoughtHistogram(wish.group_edges, tuple(values[-1]), deviations[-1])
    share = epsilon / sqrt(len(histograms))
    chosen, max_groups = choose_limits(histograms, groups, share, wish.cells)
    clamps = tuple(
        _make_clamp(wish, aggregate, column, chosen[column])
        for aggregate, column in zip(wish.aggregates, wish.columns, strict=True)
    )
    limits = UnitLimits(clamps, max_groups, wish.is_total)
    paid = f"{price.name} {float(price.value):g}, for one {info['unit']}"
    provenance = f"bought: release {info['release_id']}, {paid}"
    return LimitSuggestion(wish.sql, limits, provenance, info)


def _make_clamp(wish: LimitWish, aggregate: str, column: int, chosen: ChosenClamp) -> UnitClamp:
    """Make the clamp of an aggregate in its own units.

    Where no clamp was chosen, it is the most that one row can add.
    """
    unit = wish.units[column]
    high = (wish.row_bounds[column] if chosen.clamp is None else chosen.clamp) * unit
    low = -high if wish.has_negatives[column] else Fraction(0)
    return UnitClamp(aggregate, low, high, Fraction(chosen.total) * unit / wish.cells)
