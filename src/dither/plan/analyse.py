"""Analysis of a plan: for each node its stability and the domains of its columns. Whatever has no rule is refused.

The tree that is analysed here is the tree that `data/lower` lowers, node by node.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    PerUnit,
    Plan,
    Project,
    SampleUnits,
    Scan,
    UnionAll,
    sources_of,
)
from dither.plan.conditions import check_condition
from dither.plan.domain import Columns
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.stability.distinct import distinct_public, distinct_rows
from dither.plan.stability.filter import filter_columns, filter_rows
from dither.plan.stability.group import group_rows
from dither.plan.stability.join import join_columns, join_rows
from dither.plan.stability.limit_groups import check_keys, limit_rows
from dither.plan.stability.owned import Node, Owned, Public
from dither.plan.stability.per_unit import per_unit_columns, per_unit_rows
from dither.plan.stability.project import project_columns, project_rows
from dither.plan.stability.sample_units import sample_rows
from dither.plan.stability.scan import scan_columns, scan_rows
from dither.plan.stability.union_all import union_columns, union_rows

MAX_NODES = 500


@dataclass(frozen=True)
class Analysed:
    """A node's distance between neighbours, and its columns."""

    node: Node
    columns: Columns


Seen = dict[int, tuple[Plan, Analysed]]
"""By the id of a node; the node is kept so that the id stays its own."""


_recent: dict[tuple[int, int, int], tuple[Plan, Catalog, Facts, Analysed]] = {}
_MOST_RECENT = 64


def analyse(plan: Plan, catalog: Catalog, facts: Facts = NO_FACTS) -> Analysed:
    """Stability and domains of a plan; refused unless its rows depend on a private table.

    A question asks this dozens of times of the same objects, which are frozen: recent results are kept with them.
    """
    ids = (id(plan), id(catalog), id(facts))
    known = _recent.get(ids)
    if known is None or known[0] is not plan or known[1] is not catalog or known[2] is not facts:
        known = (plan, catalog, facts, analyse_node(plan, catalog, facts, {}))
        if len(_recent) >= _MOST_RECENT:
            _recent.clear()
        _recent[ids] = known
    found = known[3]
    if isinstance(found.node, Public):
        raise RefusedError(f"{found.node.table} is not a private table", rule="plans read registered private tables")
    return found


MAX_ROWS_PER_UNIT = 100_000
MAX_ROWS = 10**12
_NODES = (Scan, Join, UnionAll, Filter, Project, Distinct, PerUnit, Group, SampleUnits, LimitGroups)


def _check_size(plan: Plan) -> None:
    """Nodes of the ten known types, exactly, and not too many of them."""
    level, nodes = [plan], 0
    while level:
        nodes += len(level)
        if unknown := [node for node in level if type(node) not in _NODES]:
            raise RefusedError(f"no rule for {type(unknown[0]).__name__}", rule="a node without a rule is refused")
        if nodes > MAX_NODES:
            raise RefusedError(f"a plan of more than {MAX_NODES} nodes", rule="work is bounded")
        level = [source for node in level for source in sources_of(node)]


def analyse_node(plan: Plan, catalog: Catalog, facts: Facts, seen: Seen) -> Analysed:
    """As `analyse`, for nodes inside a plan, public ones included. `seen` holds what was analysed before."""
    if not seen:
        _check_size(plan)
    if id(plan) not in seen:
        seen[id(plan)] = (plan, _checked(_analyse(plan, catalog, facts, seen)))
    return seen[id(plan)][1]


def _checked(found: Analysed) -> Analysed:
    """What every node must meet, whatever made it: names that the engine and we read alike, and bounded work.

    Engines ignore case, and the lowering keeps names that start with dither_ for itself: a plan that used either would
    run as another plan than the one analysed. Rows per unit are bounded because a self-join multiplies them, and one
    person's work would show in the time of an answer.
    """
    low = [name.lower() for name in found.columns]
    if len(set(low)) != len(low) or not all(is_name(name) for name in found.columns):
        raise RefusedError(f"columns named {', '.join(found.columns)}", rule="names are plain and differ beyond case")
    if not found.columns and not isinstance(found.node, Owned):
        raise RefusedError("rows with neither columns nor an owner", rule="a node without a rule is refused")
    rows = found.node.rows if isinstance(found.node, Owned) else 0
    if rows > MAX_ROWS_PER_UNIT or getattr(found.node, "most", 0) > MAX_ROWS:
        raise RefusedError(
            f"a plan in which one unit can have {rows} rows, or all units {getattr(found.node, 'most', 0)}: at most "
            f"{MAX_ROWS_PER_UNIT} and {MAX_ROWS}",
            rule="work is bounded",
        )
    return found


def _analyse(plan: Plan, catalog: Catalog, facts: Facts, seen: Seen) -> Analysed:
    if isinstance(plan, Scan):
        try:
            table = catalog.table(plan.table)
        except KeyError:
            raise RefusedError(f"no table {plan.table}", rule="tables are declared") from None
        if table.name != plan.table:
            raise RefusedError(f"write {table.name}, not {plan.table}", rule="plans use declared names")
        owner = catalog.owner_column(table) if table.kind == "private" else None
        return Analysed(scan_rows(table), scan_columns(table, facts, owner))
    if isinstance(plan, Join):
        return _join(plan, catalog, facts, seen)
    if isinstance(plan, UnionAll):
        left, right = (analyse_node(side, catalog, facts, seen) for side in (plan.left, plan.right))
        columns = union_columns(left.columns, right.columns)
        return Analysed(union_rows(left.node, right.node, _different(plan, catalog, facts, seen)), columns)
    if not isinstance(plan, (Filter, Project, Distinct, PerUnit, Group, SampleUnits, LimitGroups)):
        raise RefusedError(f"no rule for {type(plan).__name__}", rule="a node without a rule is refused")
    source = analyse_node(plan.source, catalog, facts, seen)
    if isinstance(plan, Filter):
        check_condition(plan.condition, source.columns)
        return Analysed(filter_rows(source.node), filter_columns(source.columns, plan.condition))
    if isinstance(plan, Project):
        return Analysed(project_rows(source.node, plan.columns), project_columns(source.columns, plan.columns))
    if isinstance(plan, Distinct):
        if isinstance(source.node, Public) and not plan.per_unit:
            return Analysed(distinct_public(source.node, source.columns), source.columns)
        return Analysed(distinct_rows(source.node, plan.per_unit), source.columns)
    if isinstance(plan, SampleUnits):
        return Analysed(sample_rows(source.node, plan.rate), source.columns)
    check_keys(plan.keys, source.columns)
    if isinstance(plan, LimitGroups):
        return Analysed(limit_rows(source.node, plan.keys, plan.groups), source.columns)
    if isinstance(plan, PerUnit):
        node = per_unit_rows(source.node, plan.keys, source.columns)
        assert isinstance(source.node, Owned)
        most = source.node.rows_per_group(plan.keys)
        return Analysed(node, per_unit_columns(source.columns, plan.keys, plan.columns, most))
    loose = group_rows(source.node, plan.keys)
    return Analysed(loose, per_unit_columns(source.columns, plan.keys, plan.columns, loose.most))


def _different(plan: Plan, catalog: Catalog, facts: Facts, seen: Seen) -> int:
    """Different rows of a unit in a union: each different source counts once, however often it is repeated."""
    parts: dict[Plan, None] = {}
    level = [plan]
    while level:
        node = level.pop()
        if isinstance(node, UnionAll):
            level += [node.left, node.right]
        else:
            parts[node] = None
    nodes = (analyse_node(part, catalog, facts, seen).node for part in parts)
    return sum(node.distinct for node in nodes if isinstance(node, Owned))


def _join(plan: Join, catalog: Catalog, facts: Facts, seen: Seen) -> Analysed:
    left, right = (analyse_node(side, catalog, facts, seen) for side in (plan.left, plan.right))
    if plan.kind not in ("inner", "left"):
        raise RefusedError(f"a {plan.kind} join: the private side is the preserved one", rule="every row has one owner")
    if isinstance(right.node, Public):
        keys = tuple(key for _, theirs in plan.on if (key := right.node.original(theirs)))
        once = right.node.unique is not None and right.node.unique <= {theirs for _, theirs in plan.on}
        most = 1 if once else facts.multiplicity(right.node.table, keys)
        node = join_rows(left.node, right.node, plan.kind, right_per_left=most, left_per_right=0)
        return Analysed(node, join_columns(left.columns, right.columns, plan.on, plan.kind))
    if catalog.unit.kind == "row":
        raise RefusedError("two private tables under {kind: row}: no two rows have one owner", rule="one owner per row")
    per_right = _matches(plan.left, tuple(mine for mine, _ in plan.on), left.node, catalog)
    per_left = _matches(plan.right, tuple(theirs for _, theirs in plan.on), right.node, catalog)
    node = join_rows(left.node, right.node, plan.kind, right_per_left=per_left, left_per_right=per_right)
    return Analysed(node, join_columns(left.columns, right.columns, plan.on, plan.kind))


def _matches(plan: Plan, columns: tuple[str, ...], node: Node, catalog: Catalog) -> int:
    """How many rows of one owner can have the same value of the columns: 1 where registration made them unique.

    Below a projection the columns are those that it passes on unchanged, under the names they have there: rows that
    agree above agree on them below. A column that it computes says nothing.
    """
    known = set(columns)
    while isinstance(plan, (Filter, SampleUnits, LimitGroups, Project)):
        if isinstance(plan, Project):
            known = {each.of.name for each in plan.columns if each.name in known and isinstance(each.of, Column)}
        plan = plan.source
    if isinstance(plan, Scan):
        table = catalog.table(plan.table)
        owner = catalog.owner_column(table)
        if any({part for part in key if part != owner} <= known for key in table.unique):
            return 1
    return node.rows_per_group(columns) if isinstance(node, Owned) else 0
