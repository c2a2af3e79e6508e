"""`FROM a, b WHERE a.x = b.x` is `FROM a JOIN b ON a.x = b.x`; so is `a CROSS JOIN b WHERE ...`.

An equality that every branch of an OR repeats is one condition before it: `(e AND x) OR (e AND y)`
is `e AND (x OR y)`, also where a side is unknown.
"""

from __future__ import annotations

from sqlglot import exp

from dither.catalog import Catalog
from dither.sql.resolve import flatten_chain
from dither.sql.rewrites.sources import (
    TableSource,
    find_source,
    list_selects,
    list_sources,
)


def rewrite_comma_joins(query: exp.Query, catalog: Catalog) -> exp.Query:
    """Give the tables of a list the equalities of WHERE that join them.

    Inner joins may be taken in any order: each table is joined when an equality ties it to one
    before it. A table that nothing ties stays in the list, and is refused; so do two tables of one
    name, and those whose order `*` would show.
    """
    for select in list_selects(query):
        joins = select.args.get("joins") or []
        where = select.args.get("where")
        is_list = joins and select.args.get("from_") is not None
        if where is not None and is_list and all(map(_has_no_condition, joins)):
            is_chain = isinstance(where.this, exp.And)
            terms = list(where.this.flatten()) if is_chain else [where.this]
            if not _join_list(select, joins, terms, catalog):
                split_terms = [
                    condition for term in terms for condition in _take_shared_equalities(term)
                ]
                _join_list(select, joins, split_terms, catalog)
    return query


def _has_no_condition(join: exp.Join) -> bool:
    """Whether a table stands after a comma or CROSS JOIN: no condition joins it."""
    is_cross = str(join.kind or "").upper() in ("", "CROSS")
    return is_cross and not any(
        join.args.get(clause) for clause in ("on", "using", "side", "method")
    )


def _join_list(
    select: exp.Select, joins: list[exp.Join], conditions: list[exp.Expr], catalog: Catalog
) -> bool:
    """Join the tables by the conditions that tie them; False, and no change, where some are not."""
    sources = list_sources(select, catalog)
    ties = [(condition, _find_ends(condition, sources)) for condition in conditions]
    if len({source.name for source in sources}) < len(sources):
        return False
    waiting = dict(zip((source.name for source in sources[1:]), joins, strict=True))
    joined = {sources[0].name}
    ordered: list[tuple[exp.Join, list[exp.Expr]]] = []
    used: list[exp.Expr] = []
    while waiting:
        name = next((name for name in waiting if _list_ties(ties, name, joined)), None)
        if name is None:
            return False
        on = _list_ties(ties, name, joined)
        used += on
        ordered.append((waiting.pop(name), on))
        joined.add(name)
    is_moved = any(join is not before for (join, _), before in zip(ordered, joins, strict=True))
    if is_moved and any(isinstance(output, exp.Star) for output in select.expressions):
        return False
    for join, on in ordered:
        join.set("kind", None)
        join.set("on", exp.and_(*on, copy=True))
    rest = [condition for condition in conditions if not any(condition is tie for tie in used)]
    select.set("joins", [join for join, _ in ordered])
    select.set("where", exp.Where(this=exp.and_(*rest, copy=True)) if rest else None)
    return True


def _take_shared_equalities(condition: exp.Expr) -> list[exp.Expr]:
    """An OR as the equalities that all its branches repeat, and the OR of what is left of them."""
    branches = [
        [term.unnest() for term in flatten_chain(branch.unnest(), exp.And)]
        for branch in flatten_chain(condition.unnest(), exp.Or)
    ]
    shared: list[exp.Expr] = [
        term
        for term in branches[0]
        if isinstance(term, exp.EQ) and all(term in branch for branch in branches[1:])
    ]
    if len(branches) == 1 or not shared:
        return [condition]
    rests = [[term for term in branch if term not in shared] for branch in branches]
    if not all(rests):  # a branch that is the equality alone makes the others idle
        return shared
    return [*shared, exp.or_(*(exp.and_(*rest, copy=True) for rest in rests), copy=True)]


def _find_ends(condition: exp.Expr, sources: list[TableSource]) -> frozenset[str]:
    """Return the names of the two sources that an equality of columns ties; empty for other
    conditions."""
    columns = [
        column
        for column in (condition.this, condition.args.get("expression"))
        if isinstance(column, exp.Column)
    ]
    if not isinstance(condition, exp.EQ) or len(columns) != 2:
        return frozenset()
    names = {find_source(column, sources) for column in columns}
    return frozenset(name for name in names if name) if None not in names else frozenset()


def _list_ties(
    ties: list[tuple[exp.Expr, frozenset[str]]], name: str, joined: set[str]
) -> list[exp.Expr]:
    """List the equalities between a source and those that are joined already."""
    return [
        condition
        for condition, ends in ties
        if len(ends) == 2 and name in ends and ends - {name} <= joined
    ]
