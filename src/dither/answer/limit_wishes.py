"""Which histograms are bought for the limits of a question: plans that count people by bin.

Every person is in one bin of each histogram, so a histogram costs what one count costs. Its bins
are magnitudes: each is twice as wide as the one before. The clamp is chosen from the released
counts alone, by `choose_limits`.

There are two kinds of limits. For one aggregate priced in epsilon, what a person adds to all groups
together is clamped. Laplace noise grows with that total (the L1 norm), and the total is never more
than the largest number times the groups; it also needs one histogram instead of two. For several
aggregates, or a price in rho, the largest number that a person adds to a group is clamped and the
number of groups is limited. Gaussian noise grows with the L2 norm, and several aggregates share the
noise of a group. An average has a histogram of the rows of a person in a group, and one of groups:
its rows are limited, and a person with more rows counts with the average of all of them.

Where a condition on a public table leaves few of its rows, few people add anything, and their
histogram is noise. A wider question is bought beside it: the same without that condition, with one
row of the public table for each person. It has the shape, and the share of the public rows that the
condition leaves says how many people of the question have such a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.answer.choose_limits import (
    list_group_edges,
    list_magnitude_edges,
)
from dither.answer.possible_cells import count_possible_cells
from dither.answer.suggest import add_terms, compare_threshold
from dither.errors import ParameterError
from dither.plan.algebra import (
    Aggregate,
    Call,
    Cells,
    Column,
    Count,
    LimitGroups,
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
from dither.question.expressions import Noisy
from dither.question.recipe import Atom, GroupingSet, KeyColumn, Output, Recipe
from dither.question.unit_limits import (
    can_be_limited,
    find_counters,
    list_unit_rows,
    name_numbers,
)

BIN = "bin"
LARGEST = "largest"
GROUPS = "groups_of_unit"
"""Names of columns that the plans of histograms compute."""


@dataclass(frozen=True)
class WiderQuestion:
    """A question without its condition on a public table, by a key of that table as well.

    `share` is the part of the table's rows that the condition leaves.
    """

    recipe: Recipe
    share: Fraction


@dataclass(frozen=True)
class WiderWish:
    """The histograms of a wider question: one for every bought column, and one of how many pairs of
    groups and public rows a person has."""

    plans: tuple[Plan, ...]
    edges: tuple[tuple[int, ...], ...]
    pair_edges: tuple[int, ...]
    share: Fraction


@dataclass(frozen=True)
class LimitWish:
    """The histograms that are to be bought for a question, and the values between their bins.

    `columns` has the column of its query for every aggregate. `units`, `edges`, `has_negatives` and
    `row_bounds` have one entry for every column. `cells` are those that can hold rows. `is_total`
    says that the histogram is of what a person adds to all groups together. `counted_by` has the
    column of the count for every column that is averaged, which has no histogram; else None.
    `wholes` has the column that a sum over some of its rows is a part of, or None.
    """

    sql: str
    plans: tuple[Plan, ...]
    aggregates: tuple[str, ...]
    columns: tuple[int, ...]
    units: tuple[Fraction, ...]
    edges: tuple[tuple[int, ...], ...]
    has_negatives: tuple[bool, ...]
    row_bounds: tuple[int, ...]
    group_edges: tuple[int, ...]
    cells: int
    is_total: bool = False
    counted_by: tuple[int | None, ...] = ()
    wholes: tuple[int | None, ...] = ()
    wider: WiderWish | None = None

    @property
    def bought(self) -> tuple[int, ...]:
        """The columns that have a histogram."""
        return tuple(i for i, counter in enumerate(self.counted_by) if counter is None)

    @property
    def all_plans(self) -> tuple[Plan, ...]:
        """The rows of every histogram by bin, those of the wider question last."""
        return self.plans + (() if self.wider is None else self.wider.plans)


def read_limit_wish(
    sql: str,
    bound: Recipe,
    analyses: Analyses,
    *,
    allow_total: bool = True,
    wider: WiderQuestion | None = None,
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
            "limits are bought for counts, sums and their ratios, and for averages, by declared "
            "keys: ask for sums beside counts, and for ROLLUP in questions of their own"
        )
    rows, limited = list_unit_rows(query)
    unit_rows = analyses.analyse_rows(rows)
    columns = unit_rows.columns
    before = analyses.analyse_rows(rows.source)
    row_bounds = tuple(_find_row_bound(column, before) for column in query.columns)
    counters = find_counters(bound)
    counted_by = tuple(counters.get((0, column)) for column in range(len(row_bounds)))
    most = max(
        row_bound
        for row_bound, counter in zip(row_bounds, counted_by, strict=True)
        if counter is None
    )
    if isinstance(before.node, Owned) and before.node.rows * most <= 1:
        raise ParameterError(
            "nothing to buy: one person adds at most 1 to one group of this question, and no limit "
            "is smaller"
        )
    names = name_numbers(query)
    counted = PerUnit(rows, (), (Named(GROUPS, Count()),))
    most_groups = analyses.analyse_rows(counted).columns[GROUPS].high
    most_groups = most_groups if limited is None else min(most_groups, limited)
    has_groups = bool(query.keys) and most_groups > 1
    is_total = allow_total and has_groups and len(names) == 1
    wish = LimitWish(
        sql,
        (),
        tuple(atom.aggregate for atom in bound.atoms),
        tuple(column for _, column in bound.sets[0].positions),
        tuple(columns[name].step for name in names),
        (),
        tuple(columns[name].low < 0 for name in names),
        row_bounds,
        list_group_edges(most_groups) if has_groups and not is_total else (),
        count_possible_cells(before, query.keys, analyses.facts),
        is_total,
        counted_by,
        _find_wholes(query),
    )
    plans: list[Plan] = []
    edges: list[tuple[int, ...]] = []
    for name in (names[column] for column in wish.bought):
        domain = columns[name]
        edges.append(list_magnitude_edges(_find_largest(domain, name, unit_rows.node, is_total)))
        largest = PerUnit(
            Project(rows, (Named(LARGEST, Call("abs", (Column(name),))),)),
            (),
            (Named(LARGEST, Sum(LARGEST) if is_total else Maximum(LARGEST)),),
        )
        plans.append(_bin_rows(largest, LARGEST, edges[-1], domain.step))
    if wish.group_edges:
        plans.append(_bin_rows(counted, GROUPS, wish.group_edges, Fraction(1)))
    own_wider = None if wider is None else _read_wider_wish(wish, wider, analyses)
    return replace(wish, plans=tuple(plans), edges=tuple(edges), wider=own_wider)


def _read_wider_wish(wish: LimitWish, wider: WiderQuestion, analyses: Analyses) -> WiderWish | None:
    """Plan the histograms of a wider question: what a person adds to one group and public row."""
    (query,) = wider.recipe.queries
    if not isinstance(query, Cells) or len(query.columns) != len(wish.units):
        return None
    rows, _ = list_unit_rows(query)
    columns = analyses.analyse_rows(rows).columns
    names = name_numbers(query)
    one_row = LimitGroups(rows, query.keys, 1)
    plans: list[Plan] = []
    edges: list[tuple[int, ...]] = []
    for column in wish.bought:
        name = names[column]
        if columns[name].step != wish.units[column]:
            return None
        edges.append(list_magnitude_edges(columns[name].largest))
        magnitude = Project(one_row, (Named(LARGEST, Call("abs", (Column(name),))),))
        plans.append(_bin_rows(magnitude, LARGEST, edges[-1], columns[name].step))
    counted = PerUnit(rows, (), (Named(GROUPS, Count()),))
    pair_edges = list_group_edges(analyses.analyse_rows(counted).columns[GROUPS].high)
    plans.append(_bin_rows(counted, GROUPS, pair_edges, Fraction(1)))
    return WiderWish(tuple(plans), tuple(edges), pair_edges, wider.share)


def _find_largest(domain: Domain, name: str, node: Node, is_total: bool) -> int:
    """Find the most that one person can add to one group, or to all together, in grid steps."""
    if not is_total:
        return domain.largest
    assert isinstance(node, Owned)
    return min(node.rows * domain.largest, node.sums.get(name, node.rows * domain.largest))


def _find_wholes(query: Cells) -> tuple[int | None, ...]:
    """For each SUM(CASE WHEN ... THEN x ELSE 0 END) the column of SUM(x), if there is one: a row
    adds no more to the first than to the second."""
    plan = query.plan
    while isinstance(plan, LimitGroups):
        plan = plan.source
    computed = {named.name: named.of for named in plan.columns} if isinstance(plan, Project) else {}
    summed = [
        computed.get(column.column) if isinstance(column, Sum) else None for column in query.columns
    ]
    wholes: list[int | None] = []
    for expression in summed:
        match expression:
            case Call("case", (_, value)) | Call("case", (_, value, Value("number", 0))):
                wholes.append(summed.index(value) if value in summed else None)
            case _:
                wholes.append(None)
    return tuple(wholes)


def _find_row_bound(aggregate: Aggregate, rows: Analysed) -> int:
    """Find the most that one row can add to an aggregate, in grid steps."""
    return bounds_in(aggregate.column, rows.columns).largest if isinstance(aggregate, Sum) else 1


def _bin_rows(plan: Plan, name: str, edges: tuple[int, ...], step: Fraction) -> Plan:
    """Add the bin of a value as a column: the number of edges that it exceeds."""
    tests = tuple(compare_threshold(name, edge * step) for edge in edges)
    value = add_terms(tests) if tests else Value("number", Fraction(0))
    return Project(plan, (Named(BIN, value),))


def make_wish_recipe(wishes: Sequence[LimitWish], analyses: Analyses) -> Recipe:
    """Make the recipe that counts the rows of all plans of some wishes by bin."""
    plans = [plan for wish in wishes for plan in wish.all_plans]
    queries = tuple(Cells(plan, (BIN,), (Count(),)) for plan in plans)
    keys = tuple(KeyColumn(BIN, analyses.analyse_rows(plan).columns[BIN]) for plan in plans)
    sets = tuple(GroupingSet((i,), None, ((i, 0),)) for i in range(len(plans)))
    output = Output("n", Noisy(0), "value", "COUNT(*)")
    return Recipe("suggest limits", queries, keys, (Atom("COUNT(*)"),), sets, (output,))
