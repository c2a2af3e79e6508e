"""Analysis of a plan: for each node its stability and the domains of its columns. Whatever has no
rule is refused.

The tree that is analysed here is the tree that `data/lower` lowers, node by node.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from dither.catalog import Catalog
from dither.catalog.scalars import is_name
from dither.errors import RefusedError
from dither.plan.algebra import (
    Column,
    Distinct,
    Filter,
    Group,
    Join,
    LimitGroups,
    LimitTotal,
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
    sources_of,
)
from dither.plan.carry_degrees import carry_degrees, count_public_values
from dither.plan.carry_sums import carry_sums
from dither.plan.conditions import check_condition
from dither.plan.domain import Columns
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.functions import domain_of
from dither.plan.narrow import narrow_columns
from dither.plan.refine import Means, find_means, refine_domain
from dither.plan.stability.distinct import distinct_public, distinct_rows
from dither.plan.stability.filter import filter_columns, filter_rows
from dither.plan.stability.group import (
    bound_public_rows,
    check_public_keys,
    group_public,
    group_rows,
)
from dither.plan.stability.join import (
    count_public_matches,
    join_columns,
    join_public_total,
    join_rows,
)
from dither.plan.stability.limit_groups import check_keys, limit_rows
from dither.plan.stability.limit_total import limit_total_columns, limit_total_rows
from dither.plan.stability.owned import Node, Owned, Public
from dither.plan.stability.per_unit import per_unit_columns, per_unit_rows, total_columns
from dither.plan.stability.project import project_columns, project_rows
from dither.plan.stability.sample_units import sample_rows
from dither.plan.stability.scan import scan_columns, scan_rows
from dither.plan.stability.union_all import union_columns, union_rows
from dither.rules import PrivacyRule

MAX_NODES = 500
FIRST_RULES = 1
"""The rules of release 0.1, under which its answers are found again."""
NEWEST_RULES = 2
"""The rules with degrees. Both are sound; these claim less noise."""


@dataclass(frozen=True)
class Analysed:
    """A node of a plan with its distance between neighbours, its columns, and its analysed sources.

    It is a tree of the same shape as the plan. `data/lower` lowers this tree, so that what runs is
    what was analysed.
    """

    plan: Plan
    node: Node
    columns: Columns
    sources: tuple[Analysed, ...] = ()


AnalysedNodes = dict[int, Analysed]
"""Nodes analysed before in the same call, by the id of their plan; each keeps its plan alive."""


def analyse(
    plan: Plan,
    catalog: Catalog,
    facts: Facts = NO_FACTS,
    analysed_nodes: AnalysedNodes | None = None,
    rules: int = NEWEST_RULES,
) -> Analysed:
    """Stability and domains of a plan; refused unless its rows depend on a private table."""
    return refuse_public(analyse_node(plan, catalog, facts, analysed_nodes, rules=rules))


def refuse_public(rows: Analysed) -> Analysed:
    """Raise RefusedError if the rows depend on no private table; else return them."""
    if isinstance(rows.node, Public):
        raise RefusedError(
            f"{rows.node.table} is not a private table", rule=PrivacyRule.REGISTERED_TABLES
        )
    return rows


MAX_ROWS_PER_UNIT = 100_000
MAX_ROWS = 10**12
_NODES = (
    Scan,
    Join,
    UnionAll,
    Filter,
    Project,
    Distinct,
    PerUnit,
    Group,
    SampleUnits,
    LimitGroups,
    LimitTotal,
)


def check_size(plan: Plan) -> None:
    """Raise RefusedError unless the plan has only nodes of the eleven known types, and not too
    many."""
    level = [plan]
    nodes = 0
    while level:
        nodes += len(level)
        if unknown := [node for node in level if type(node) not in _NODES]:
            raise RefusedError(f"no rule for {type(unknown[0]).__name__}", rule=PrivacyRule.NO_RULE)
        if nodes > MAX_NODES:
            raise RefusedError(
                f"a plan of more than {MAX_NODES} nodes", rule=PrivacyRule.BOUNDED_WORK
            )
        level = [source for node in level for source in sources_of(node)]


def analyse_node(
    plan: Plan,
    catalog: Catalog,
    facts: Facts,
    analysed_nodes: AnalysedNodes | None = None,
    rules: int = NEWEST_RULES,
) -> Analysed:
    """As `analyse`, and public rows are taken too.

    `analysed_nodes` holds what one caller analysed before, and takes what is analysed now.
    """
    check_size(plan)
    nodes = {} if analysed_nodes is None else analysed_nodes
    if rules == FIRST_RULES and facts.ranges:
        facts = replace(facts, ranges=())
    return _analyse_tree(plan, catalog, facts, nodes, rules)


def _analyse_tree(
    plan: Plan, catalog: Catalog, facts: Facts, analysed_nodes: AnalysedNodes, rules: int
) -> Analysed:
    """Analyse a plan from its leaves up, and return what is known of its rows.

    `analysed_nodes` holds, by `id`, what was analysed before; each new node is added. `rules` says
    which version of the rules of stability applies.
    """
    earlier = analysed_nodes.get(id(plan))
    if earlier is not None and earlier.plan is plan:
        return earlier
    sources = tuple(
        _analyse_tree(source, catalog, facts, analysed_nodes, rules) for source in sources_of(plan)
    )
    rows = _apply_rule(plan, sources, catalog, facts, rules)
    if rules > FIRST_RULES:
        rows = replace(rows, node=_carry(rows, catalog, facts))
    rows = _check_node(rows)
    analysed_nodes[id(plan)] = rows
    return rows


def _carry(rows: Analysed, catalog: Catalog, facts: Facts) -> Node:
    """Add to a node what the newest rules know of it: degrees, and sums of columns."""
    node = rows.node
    below = tuple((source.node, source.columns) for source in rows.sources)
    if isinstance(node, Public) and isinstance(rows.plan, Filter):
        return count_public_values(rows.plan, node, rows.columns)
    if isinstance(node, Owned):
        node = carry_degrees(rows.plan, node, rows.columns, below, catalog, facts)
    return carry_sums(rows.plan, node, *below[0]) if below else node


def analyse_projection(plan: Project, source: Analysed) -> Analysed:
    """A projection of rows that are analysed already."""
    return _check_node(_project(plan, source, NEWEST_RULES))


def _check_node(analysed: Analysed) -> Analysed:
    """Raise RefusedError unless a node has plain names and bounded work; return it unchanged.

    Engines ignore case, and the lowering keeps names that start with dither_ for itself: a plan
    that used either would run as another plan than the one analysed. Rows per unit are bounded
    because a self-join multiplies them, and one person's work would show in the time of an answer.
    """
    low = [name.lower() for name in analysed.columns]
    if len(set(low)) != len(low) or not all(is_name(name) for name in analysed.columns):
        raise RefusedError(
            f"columns named {', '.join(analysed.columns)}", rule=PrivacyRule.PLAIN_NAMES
        )
    if not analysed.columns and not isinstance(analysed.node, Owned):
        raise RefusedError("rows with neither columns nor an owner", rule=PrivacyRule.NO_RULE)
    rows = analysed.node.rows if isinstance(analysed.node, Owned) else 0
    if rows > MAX_ROWS_PER_UNIT or getattr(analysed.node, "most", 0) > MAX_ROWS:
        raise RefusedError(
            f"a plan in which one unit can have {rows} rows, or all units "
            f"{getattr(analysed.node, 'most', 0)}: at most "
            f"{MAX_ROWS_PER_UNIT} and {MAX_ROWS}",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return analysed


def _apply_rule(
    plan: Plan, sources: tuple[Analysed, ...], catalog: Catalog, facts: Facts, rules: int
) -> Analysed:
    if isinstance(plan, Scan):
        return _scan(plan, catalog, facts)
    if isinstance(plan, Join):
        return _join(plan, sources[0], sources[1], catalog, facts)
    if isinstance(plan, UnionAll):
        left, right = sources
        columns = union_columns(left.columns, right.columns)
        distinct = _count_distinct(left, right)
        return Analysed(plan, union_rows(left.node, right.node, distinct), columns, sources)
    (source,) = sources
    if isinstance(plan, Filter):
        check_condition(plan.condition, source.columns)
        narrow = filter_columns if rules == FIRST_RULES else narrow_columns
        columns = narrow(source.columns, plan.condition)
        return Analysed(plan, filter_rows(source.node), columns, sources)
    if isinstance(plan, Project):
        return _project(plan, source, rules)
    if isinstance(plan, Distinct):
        if isinstance(source.node, Public) and not plan.per_unit:
            return Analysed(
                plan, distinct_public(source.node, source.columns), source.columns, sources
            )
        return Analysed(plan, distinct_rows(source.node, plan.per_unit), source.columns, sources)
    if isinstance(plan, SampleUnits):
        return Analysed(plan, sample_rows(source.node, plan.rate), source.columns, sources)
    if isinstance(plan, Group) and isinstance(source.node, Public):
        return _group_public(plan, source, source.node, facts)
    if not isinstance(plan, (PerUnit, Group, LimitGroups, LimitTotal)):
        raise RefusedError(f"no rule for {type(plan).__name__}", rule=PrivacyRule.NO_RULE)
    check_keys(plan.keys, source.columns, inside_unit=isinstance(plan, PerUnit))
    if isinstance(plan, LimitGroups):
        return Analysed(
            plan, limit_rows(source.node, plan.keys, plan.groups), source.columns, sources
        )
    if isinstance(plan, LimitTotal):
        node = limit_total_rows(source.node, plan.keys, plan.column)
        columns = limit_total_columns(source.columns, node.rows, plan.column, plan.total)
        return Analysed(plan, node, columns, sources)
    if isinstance(plan, PerUnit):
        node = per_unit_rows(source.node, plan.keys, source.columns)
        assert isinstance(source.node, Owned)
        rows_per_group = source.node.rows_per_group(plan.keys)
        return Analysed(
            plan,
            node,
            per_unit_columns(source.columns, plan.keys, plan.columns, rows_per_group),
            sources,
        )
    loose = group_rows(source.node, plan.keys)
    return Analysed(
        plan, loose, per_unit_columns(source.columns, plan.keys, plan.columns, loose.most), sources
    )


def _group_public(plan: Group, source: Analysed, public: Public, facts: Facts) -> Analysed:
    """Analyse GROUP BY of public rows: they are the same in every database, and so are these."""
    check_public_keys(plan.keys, source.columns)
    rows = bound_public_rows(public, source.columns, facts)
    list_columns = per_unit_columns if plan.keys else total_columns
    columns = list_columns(source.columns, plan.keys, plan.columns, rows)
    return Analysed(plan, group_public(public, plan.keys), columns, (source,))


def _scan(plan: Scan, catalog: Catalog, facts: Facts) -> Analysed:
    """Analyse a scan.

    Raises RefusedError for a table that is not declared under this exact name.
    """
    try:
        table = catalog.table(plan.table)
    except KeyError:
        raise RefusedError(f"no table {plan.table}", rule=PrivacyRule.DECLARED_NAMES) from None
    if table.name != plan.table:
        raise RefusedError(f"write {table.name}, not {plan.table}", rule=PrivacyRule.DECLARED_NAMES)
    owner = catalog.owner_column(table) if table.kind == "private" else None
    return Analysed(plan, scan_rows(table), scan_columns(table, facts, owner))


def _project(plan: Project, source: Analysed, rules: int) -> Analysed:
    """Analyse a projection; the newest rules also bound quotients that are averages."""
    find_domain = domain_of
    if rules > FIRST_RULES:
        find_domain = partial(refine_domain, means=list_means(source))
    columns = project_columns(source.columns, plan.columns, find_domain)
    return Analysed(plan, project_rows(source.node, plan.columns), columns, (source,))


def list_means(rows: Analysed) -> Means:
    """The quotients of columns that are averages inside a group."""
    while isinstance(rows.plan, Filter):
        rows = rows.sources[0]
    return find_means(rows.plan, rows.sources[0].columns) if rows.sources else {}


def _count_distinct(*sides: Analysed) -> int:
    """Bound the different rows of a unit in a union of these inputs.

    Each different source counts once, however often it is repeated.
    """
    sources: dict[Plan, Node] = {}
    level = list(sides)
    while level:
        rows = level.pop()
        if isinstance(rows.plan, UnionAll):
            level += rows.sources
        else:
            sources[rows.plan] = rows.node
    return sum(node.distinct for node in sources.values() if isinstance(node, Owned))


def _join(plan: Join, left: Analysed, right: Analysed, catalog: Catalog, facts: Facts) -> Analysed:
    """Analyse a join with the private input on the left.

    Raises RefusedError for other kinds than inner and left, and for two private tables whose rows
    have no common owner.
    """
    if plan.kind not in ("inner", "left"):
        raise RefusedError(
            f"a {plan.kind} join: the private side is the preserved one", rule=PrivacyRule.ONE_OWNER
        )
    if isinstance(right.node, Public):
        matches = count_public_matches(right.node, tuple(key for _, key in plan.on), facts)
        node = (
            join_public_total(left.node, right.node, tuple(left.columns))
            if isinstance(left.node, Public)
            else join_rows(
                left.node, right.node, plan.kind, right_per_left=matches, left_per_right=0
            )
        )
        return Analysed(
            plan, node, join_columns(left.columns, right.columns, plan.on, plan.kind), (left, right)
        )
    if catalog.unit.kind == "row":
        raise RefusedError(
            "two private tables under {kind: row}: no two rows have one owner",
            rule=PrivacyRule.ONE_OWNER,
        )
    per_right = _count_matches(
        plan.left, tuple(left_key for left_key, _ in plan.on), left.node, catalog
    )
    per_left = _count_matches(
        plan.right, tuple(right_key for _, right_key in plan.on), right.node, catalog
    )
    node = join_rows(
        left.node, right.node, plan.kind, right_per_left=per_left, left_per_right=per_right
    )
    return Analysed(
        plan, node, join_columns(left.columns, right.columns, plan.on, plan.kind), (left, right)
    )


def _count_matches(plan: Plan, columns: tuple[str, ...], node: Node, catalog: Catalog) -> int:
    """Bound how many rows of one owner can have the same value of the columns.

    It is 1 where registration made them unique. Below a projection the columns are those that it
    passes on unchanged, under the names they have there: rows that agree above agree on them below.
    A column that it computes says nothing.
    """
    names = set(columns)
    while isinstance(plan, (Filter, SampleUnits, LimitGroups, Project)):
        if isinstance(plan, Project):
            names = {
                named.of.name
                for named in plan.columns
                if named.name in names and isinstance(named.of, Column)
            }
        plan = plan.source
    if isinstance(plan, Scan):
        table = catalog.table(plan.table)
        owner = catalog.owner_column(table)
        if any(
            {key_column for key_column in key if key_column != owner} <= names
            for key in table.unique
        ):
            return 1
    return node.rows_per_match(columns) if isinstance(node, Owned) else 0
