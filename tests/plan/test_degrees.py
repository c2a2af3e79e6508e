"""Degrees of plans: one analysis of an inner join graph, and claims against brute force."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import pytest

from dither.catalog import parse
from dither.data.lower.plan import plan_sql
from dither.plan import carry_degrees
from dither.plan.algebra import (
    Call,
    Column,
    Compare,
    Filter,
    Join,
    Named,
    PerUnit,
    Plan,
    Project,
    Scan,
    UnionAll,
)
from dither.plan.analyse import FIRST_RULES, AnalysedNodes, analyse, analyse_node
from dither.plan.conditions import columns_of
from dither.plan.facts import NO_FACTS
from dither.plan.stability import Owned
from dither.plan.stability.degrees import Degree, RowDegrees, join_degrees, scan_degrees
from tests.case_lists import mark_between
from tests.plan.small_databases import HEAD, SmallTable, search_violation

POOL = ("k", "l", "m", "n")


def draw_graph(draws: random.Random, size: int) -> tuple[SmallTable, ...]:
    """Tables that share columns of a pool: a natural join of them means the same in every order."""
    tables = []
    for number in range(size):
        columns = tuple(sorted(draws.sample(POOL, draws.choice([1, 2, 2, 3]))))
        keys = {
            tuple(sorted(draws.sample(columns, draws.randint(0, len(columns))))): None
            for _ in range(draws.choice([0, 1, 1, 2]))
        }
        own = f"own{number}"
        limit = draws.choice([1, 3, 10, 40])
        table = SmallTable(f"t{number}", (*columns, own), frozenset(), tuple(keys), limit)
        tables.append(table)
    return tuple(tables)


def list_trees(tables: tuple[SmallTable, ...]) -> Iterator[Plan]:
    """Every order and bracketing of the natural join of some tables; equal subtrees are shared."""
    columns: dict[frozenset[str], frozenset[str]] = {}
    trees: dict[frozenset[str], list[Plan]] = {}
    for table in tables:
        names = frozenset((table.name,))
        columns[names] = frozenset(table.columns)
        trees[names] = [Scan(table.name)]
    everything = frozenset(table.name for table in tables)
    for size in range(2, len(tables) + 1):
        for chosen in map(frozenset, combinations(sorted(everything), size)):
            columns[chosen] = frozenset().union(*(columns[frozenset((name,))] for name in chosen))
            trees[chosen] = [
                Join(left, right, pair_columns(columns[first], columns[chosen - first]), "inner")
                for first in list_parts(chosen)
                for left in trees[first]
                for right in trees[chosen - first]
            ]
    yield from trees[everything]


def list_parts(names: frozenset[str]) -> list[frozenset[str]]:
    """The sets of names that are neither empty nor all."""
    return [
        frozenset(chosen)
        for size in range(1, len(names))
        for chosen in combinations(sorted(names), size)
    ]


def pair_columns(left: frozenset[str], right: frozenset[str]) -> tuple[tuple[str, str], ...]:
    return tuple((name, name) for name in sorted(left & right))


def describe_rows(node: Owned, columns: list[str]) -> tuple[object, ...]:
    """All that a claim of any question is made from."""
    groups = [
        (node.groups(keys), node.rows_per_group(keys))
        for size in (1, 2)
        for keys in combinations(columns, size)
    ]
    return node.rows, node.distinct, node.most, groups


def list_analyses(tables: tuple[SmallTable, ...]) -> set[str]:
    """What is claimed of the natural join of some tables, over all orders and bracketings."""
    written = "".join(table.write() for table in tables)
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + written)
    nodes: AnalysedNodes = {}
    claims = set()
    for plan in list_trees(tables):
        rows = analyse_node(plan, catalog, NO_FACTS, nodes)
        assert isinstance(rows.node, Owned)
        claims.add(str(describe_rows(rows.node, sorted(rows.columns))))
    return claims


@pytest.mark.parametrize("seed", range(6))
def test_an_inner_join_has_one_analysis_in_every_order_and_bracketing(seed):
    draws = random.Random(seed)
    assert len(list_analyses(draw_graph(draws, draws.choice([2, 3, 4])))) == 1


@pytest.mark.all
@pytest.mark.parametrize("seed", range(8))
def test_five_tables_have_one_analysis_in_every_order_and_bracketing(seed):
    assert len(list_analyses(draw_graph(random.Random(seed), 5))) == 1


def test_the_first_rules_depend_on_the_order():
    """The check above can fail: release 0.1 had two analyses for one graph."""
    text = HEAD.replace("NEIGHBOURS", "add_remove") + CHAIN
    catalog = parse(text)
    pair = (("okey", "okey"),)
    rows = [
        analyse(plan, catalog, rules=FIRST_RULES).node.rows
        for plan in (
            Join(Join(Scan("customer"), Scan("orders"), (), "inner"), LINES, pair, "inner"),
            Join(Join(LINES, Scan("orders"), pair, "inner"), Scan("customer"), (), "inner"),
        )
    ]
    assert rows == [6400, 160]


CHAIN = "".join(
    table.write()
    for table in (
        SmallTable("customer", ("segment",), frozenset(), ((),), 1),
        SmallTable("orders", ("okey", "day"), frozenset(), (("okey",),), 40),
        SmallTable("lineitem", ("okey", "line", "cost"), frozenset(), (("okey", "line"),), 160),
    )
)
LINES = Scan("lineitem")


def test_the_lines_of_a_customers_orders_are_the_lines_of_a_customer():
    """customer JOIN orders JOIN lineitem has 160 rows a person in every order, not 6,400."""
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + CHAIN)
    pair = (("okey", "okey"),)
    first = Join(Join(Scan("customer"), Scan("orders"), (), "inner"), LINES, pair, "inner")
    last = Join(Join(LINES, Scan("orders"), pair, "inner"), Scan("customer"), (), "inner")
    for plan in (first, last):
        node = analyse(plan, catalog).node
        assert (node.rows, node.groups(("segment",)), node.groups(("okey",))) == (160, 1, 40)
        assert node.rows_per_group(("okey", "line")) == 1


def test_a_where_leaves_rows_outside_out_before_it_moves_values():
    """Values that were only moved into narrowed bounds could make two different keys equal."""
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + CHAIN)
    plan = Filter(LINES, Compare("line", "<", Fraction(2)))
    rows = analyse(plan, catalog)
    kept = plan_sql(rows).split(" WHERE ")[1]
    assert '"line" BETWEEN 0 AND 1' in kept
    assert rows.node.rows_per_group(("okey", "line")) == 1


def test_a_union_and_a_computed_column_end_a_key():
    """Two copies of a row share its key; okey + line can be the same for two lines."""
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + CHAIN)
    twice = UnionAll(LINES, LINES)
    assert analyse(twice, catalog).node.rows_per_group(("okey", "line")) == 320
    total = Call("add", (Column("okey"), Column("line")))
    mixed = Project(LINES, (Named("mixed", total), Named("cost", Column("cost"))))
    assert analyse(mixed, catalog).node.rows_per_group(("mixed",)) == 160


def test_unmatched_rows_share_one_null_key():
    """40 orders without a line have one null key of lines: 40 rows of it, and 40 more that meet
    nothing when lines are joined by that key."""
    catalog = parse(HEAD.replace("NEIGHBOURS", "add_remove") + CHAIN)
    names = (Named("line_okey", Column("okey")), Named("line", Column("line")))
    lines = Project(LINES, names)
    joined = Join(Scan("orders"), lines, (("okey", "line_okey"),), "left")
    node = analyse(joined, catalog).node
    assert node.rows == 200
    assert node.rows_per_group(("line_okey", "line")) >= 40
    assert node.rows_per_match(("line_okey", "line")) == 1


@pytest.mark.parametrize("seed", mark_between(range(4), step=2))
def test_no_unit_has_more_rows_or_values_than_claimed(seed):
    assert search_violation(seed, 8) is None


@pytest.mark.all
@pytest.mark.parametrize("seed", range(100, 160))
def test_no_unit_of_many_has_more_rows_or_values_than_claimed(seed):
    assert search_violation(seed, 20) is None


# -- planted bugs: each is a rule that P13 of the review forbids, and brute force catches each


def keep_keys_of_the_null_side(
    left: RowDegrees, right: RowDegrees, on: tuple[tuple[str, str], ...], kind: str, matches: int
) -> RowDegrees:
    """Unmatched rows share one null key: it is taken for a key like any other."""
    joined = join_degrees(left, right, on, kind, matches)
    moved = [
        Degree(degree.given << left.size, degree.then << left.size, degree.limit)
        for degree in right.degrees
    ]
    return joined.add(*moved)


def equate_columns_of_outer_joins(
    left: RowDegrees, right: RowDegrees, on: tuple[tuple[str, str], ...], kind: str, matches: int
) -> RowDegrees:
    """The null of an unmatched row is taken for the left column's value."""
    joined = join_degrees(left, right, on, kind, matches)
    for left_column, right_column in on:
        first = 1 << left.names[left_column]
        second = 1 << (right.names[right_column] + left.size)
        joined = joined.add(Degree(second, first, 1))
    return joined


def match_once(
    left: RowDegrees, right: RowDegrees, on: tuple[tuple[str, str], ...], kind: str, matches: int
) -> RowDegrees:
    """Each row of a left join is taken to find at most one."""
    return join_degrees(left, right, on, kind, 1)


def keep_keys_of_unions(
    columns: tuple[str, ...], unique: list[list[str]], *, rows: int, limit: int
) -> RowDegrees:
    """The rows of a union are taken to differ in some column."""
    return scan_degrees(columns, unique or [list(columns)], rows=rows, limit=limit)


def let_computed_columns_be_keys(plan: Plan, source: RowDegrees, *columns: object) -> RowDegrees:
    """A computed column is taken to tell the values apart that it is computed from."""
    carried = carry_degrees._carry(plan, source, *columns)
    if isinstance(plan, Project):
        for named in plan.columns:
            symbols = source.mask(columns_of(named.of))
            carried = carried.add(Degree(carried.mask((named.name,)), symbols, 1))
    return carried


def forget_a_key_of_groups(plan: Plan, source: RowDegrees, *columns: object) -> RowDegrees:
    """One row per owner and first key is claimed where there are two keys."""
    carried = carry_degrees._carry(plan, source, *columns)
    if isinstance(plan, PerUnit):
        carried = carried.add(Degree(source.mask(plan.keys[:1]), source.row, 1))
    return carried


@pytest.mark.parametrize(
    ("name", "planted"),
    mark_between(
        [
            ("join_degrees", keep_keys_of_the_null_side),
            ("join_degrees", equate_columns_of_outer_joins),
            ("join_degrees", match_once),
            ("scan_degrees", keep_keys_of_unions),
            ("_carry", let_computed_columns_be_keys),
            ("_carry", forget_a_key_of_groups),
        ],
        step=3,
    ),
)
def test_brute_force_catches_a_planted_bug(
    name: str, planted: Callable[..., RowDegrees], monkeypatch: pytest.MonkeyPatch
) -> None:
    true_rule = getattr(carry_degrees, name)
    rule = replace_recursion(planted, true_rule) if name == "_carry" else planted
    monkeypatch.setattr(carry_degrees, name, rule)
    assert any(search_violation(seed, 10) for seed in range(6))


def replace_recursion(
    planted: Callable[..., RowDegrees], true_rule: Callable[..., RowDegrees]
) -> Callable[..., RowDegrees]:
    """The planted rule, which calls the true one and not itself."""

    def rule(*arguments: object) -> RowDegrees:
        planted_name = carry_degrees._carry
        carry_degrees._carry = true_rule
        try:
            return planted(*arguments)
        finally:
            carry_degrees._carry = planted_name

    return rule


def test_a_search_that_gives_up_claims_nothing():
    """Past so many sets of columns the bound of the rule itself is used, which is looser."""
    rows = scan_degrees(("x",), (), rows=5, limit=50)
    lonely = replace(rows, degrees=())
    assert lonely.count_rows() >= 10**40
