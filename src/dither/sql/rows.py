"""FROM and WHERE, and subqueries: SQL that speaks of rows becomes a relation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dither.plan.algebra import Call, Column, Count, Distinct, Filter, Named, PerUnit, Plan, Project, UnionAll
from dither.plan.stability import Owned
from dither.rules import PrivacyRule
from dither.sql.conditions import condition
from dither.sql.constants import truth
from dither.sql.expressions import expression, flattened
from dither.sql.joins import all_of, joined
from dither.sql.key_codes import period_of
from dither.sql.names import output_name
from dither.sql.per_unit import grouped, has_aggregates
from dither.sql.refusals.refuse import refused
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name
from dither.sql.subqueries import Bind, is_subquery, semi_join, subqueries_in
from dither.sql.tables import check_plain, find_table, table_relation
from dither.sql.unions import aligned

_ROW_PARTS = {"kind", "expressions", "from_", "joins", "where", "group", "having", "distinct", "with_", "order", "hint"}


@dataclass
class Cte:
    """A query under a name (WITH), bound when it is first used, among the names that it may use."""

    query: exp.Query
    names: Names
    columns: tuple[str, ...] = ()
    bound: Relation | None = None


Names = dict[str, Cte]


def rows(query: exp.Expr, at: Context, names: Names) -> Relation:
    """The relation of a subquery: rows of people, values per person, or rows that belong to nobody."""
    if isinstance(query, exp.Subquery):
        if any(query.args.get(part) for part in ("limit", "offset", "fetch")):
            raise refused("inner limit", at, query)
        return rows(query.this, at, with_names(query, at, names))
    if isinstance(query, exp.SetOperation):
        return _union(query, at, with_names(query, at, names))
    if not isinstance(query, exp.Select):
        raise refused("from", at, query)
    names = with_names(query, at, names)
    check_parts(query, at)
    source = filtered(query, at, names)
    if source.public_rows:
        raise refused("public preserved", at, query.args["from_"])
    if query.args.get("group") or has_aggregates(query):
        made = grouped(query, source, at)
    else:
        if query.args.get("having"):
            raise at.error("HAVING needs GROUP BY: write WHERE", query.args["having"])
        made = _selected(query, source, at)
    if found := query.args.get("distinct"):
        if found.args.get("on"):
            raise refused("distinct on", at, query)
        made = distinct(made, at, query)
    return made


def check_parts(select: exp.Select, at: Context, *, outer: bool = False) -> None:
    """Parts of a SELECT that have a rule: LIMIT at the end of the question only."""
    known = _ROW_PARTS | ({"limit", "offset", "fetch"} if outer else set())
    for part, value in select.args.items():
        if not value or part in known:
            continue
        node = value if isinstance(value, exp.Expr) else None
        if part in ("limit", "offset", "fetch"):
            raise refused("inner limit", at, node)
        if part in ("windows", "qualify"):
            raise refused("window", at, node)
        if part == "sample":
            raise refused("sample", at, node)
        name = {"laterals": "LATERAL", "into": "INTO"}.get(part, part.rstrip("_").upper())
        raise at.error(f"{name} is not answered: remove it {PrivacyRule.NO_RULE.label}", node)
    if select.args.get("kind") or select.args.get("hint"):
        raise at.error("SELECT AS STRUCT, SELECT AS VALUE and hints are not answered: remove them", select)


def with_names(query: exp.Expr, at: Context, names: Names) -> Names:
    """The names that WITH adds; each sees those before it."""
    found = query.args.get("with_")
    if not found:
        return names
    if found.args.get("recursive"):
        raise refused("recursive", at, found)
    for each in found.expressions:
        alias = each.args.get("alias")
        columns = tuple(part.name for part in (alias.args.get("columns") or ())) if alias else ()
        names = {**names, each.alias.lower(): Cte(each.this, names, columns)}
    return names


def filtered(select: exp.Select, at: Context, names: Names) -> Relation:
    """FROM, joins and WHERE."""
    found = select.args.get("from_")
    if found is None:
        raise at.error("a question needs FROM and a table", None)
    relation = source(found.this, select, at, names)
    for node in select.args.get("joins") or ():
        relation = _with_join(relation, node, select, at, names)
    where = select.args.get("where")
    return _where(relation, where.this, at, names) if where else relation


def _with_join(relation: Relation, node: exp.Join, select: exp.Expr, at: Context, names: Names) -> Relation:
    right = source(node.this, select, at, names)
    mine = {(each.source or "").lower() for each in relation.fields}
    if mine & {(each.source or "").lower() for each in right.fields}:
        raise at.error("two tables of one name: give one an alias, as in JOIN visits AS b", node.this)
    return joined(relation, right, node, select, at)


def source(node: exp.Expr, select: exp.Expr, at: Context, names: Names) -> Relation:
    """What stands in FROM or after JOIN: a table, a name of WITH, a subquery."""
    if isinstance(node, exp.Paren):
        return source(node.this, select, at, names)
    if isinstance(node, exp.Table):
        check_plain(node, at)
        known = names.get(node.name.lower())
        if known is None:
            relation = table_relation(find_table(node, at), at)
        else:
            if known.bound is None:
                known.bound = rows(known.query, at, known.names)
            relation = _called(known.bound, known.columns, at, node)
        relation = relation.renamed(node.alias or node.name)
    elif isinstance(node, exp.Subquery):
        is_join = isinstance(node.this, exp.Table)  # (a JOIN b ON ...)
        relation = source(node.this, select, at, names) if is_join else rows(node, at, names)
        alias = node.args.get("alias")
        columns = tuple(part.name for part in (alias.args.get("columns") or ())) if alias else ()
        relation = _called(relation, columns, at, node)
        if node.alias or not isinstance(node.this, exp.Table):
            relation = relation.renamed(node.alias or "subquery")
        if node.args.get("sample") or node.args.get("pivots"):
            raise refused("sample", at, node)
    else:
        raise refused("from", at, node)
    alias = node.args.get("alias")
    if isinstance(node, exp.Table) and alias and alias.args.get("columns"):
        relation = _called(relation, tuple(part.name for part in alias.args["columns"]), at, node)
    for each in node.args.get("joins") or ():
        relation = _with_join(relation, each, select, at, names)
    return relation


def _called(relation: Relation, columns: tuple[str, ...], at: Context, node: exp.Expr) -> Relation:
    """The first fields under other names, as in `AS t (a, b)`."""
    if len(columns) > len(relation.fields):
        raise at.error(f"{len(columns)} names for {len(relation.fields)} columns", node)
    names = [*columns, *(each.name for each in relation.fields[len(columns) :])]
    fields = tuple(replace(each, name=name) for each, name in zip(relation.fields, names, strict=True))
    return replace(relation, fields=fields)


def _where(relation: Relation, node: exp.Expr, at: Context, names: Names) -> Relation:
    """Plain conditions first, then IN and EXISTS as joins."""
    parts = flattened(node, exp.And)
    plain = [part for part in parts if not subqueries_in(part)]
    if len(plain) == len(parts):
        return replace(relation, plan=Filter(relation.plan, condition(node, Scope(at, relation))))
    if plain:
        found = [condition(each, Scope(at, relation)) for each in plain]
        relation = replace(relation, plan=Filter(relation.plan, all_of(found)))
    for part in parts:
        if not subqueries_in(part):
            continue
        inner, negated = part.unnest(), False
        while isinstance(inner, exp.Not):
            inner, negated = inner.this.unnest(), not negated
        if is_subquery(inner):
            relation, _ = semi_join(relation, inner, at, _bound(at, names), "not" if negated else "only")
            continue
        values = {}
        for each in subqueries_in(part):
            relation, value = semi_join(relation, each, at, _bound(at, names), "value")
            values[id(each)] = value
        scope = Scope(at, relation, values)
        relation = replace(relation, plan=Filter(relation.plan, condition(part, scope)))
    return relation


def _bound(at: Context, names: Names) -> Bind:
    """How a subquery in WHERE is bound: whole, or its FROM with some of its conditions."""

    def bind(query: exp.Expr, some: list[exp.Expr] | None) -> Relation:
        if some is None:
            return rows(query, at, names)
        assert isinstance(query, exp.Select)
        check_parts(query, at)
        bare = query.copy()
        bare.set("where", None)
        relation = filtered(bare, at, with_names(query, at, names))
        for each in some:
            relation = _where(relation, each, at, names)
        return relation

    return bind


def _selected(select: exp.Select, relation: Relation, at: Context) -> Relation:
    """SELECT without aggregates: new names for expressions, computed where they are used."""
    scope = Scope(at, relation)
    fields: list[Field] = []
    for place, item in enumerate(select.expressions, 1):
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            star = node if isinstance(node, exp.Star) else node.this
            if any(star.args.values()):
                raise at.error("* with EXCLUDE, REPLACE or RENAME is not answered: name the columns", node)
            table = node.table.lower() if isinstance(node, exp.Column) else ""
            shown = node.table if isinstance(node, exp.Column) else "table"
            known = [each for each in relation.fields if not table or (each.source or "").lower() == table]
            if not known:
                raise at.error(f"no table {shown} in this FROM", node)
            fields += [replace(each, qualified=False) for each in known if table or not each.qualified]
            continue
        name = item.alias if isinstance(item, exp.Alias) else output_name(node, place)
        if isinstance(node, exp.Column):
            fields.append(replace(scope.field(node), name=name, qualified=False))
            continue
        if isinstance(node, exp.Null):
            raise refused("null constant", at, node)
        value = expression(node, scope)
        fields.append(Field(None, name, value, period=period_of(value)))
    return replace(relation, fields=tuple(fields))


def materialised(relation: Relation, at: Context, node: exp.Expr) -> Relation:
    """The relation with exactly its fields as columns of its plan, each under a name of its own."""
    taken: set[str] = set()
    columns: list[Named] = []
    fields: list[Field] = []
    for each in relation.fields:
        made = replace(each, qualified=False)
        if each.marker is not None:
            name = fresh_name("matched", taken)
            columns.append(Named(name, Call("case", (Call("is_not_null", (each.marker,)), truth(True)))))
            made = replace(made, marker=Column(name))
        if each.of is not None:
            name = fresh_name(each.name, taken)
            columns.append(Named(name, each.of))
            made = replace(made, of=Column(name))
        fields.append(made)
    if not columns:
        columns.append(Named(fresh_name("present", taken), truth(True)))
    plan = Project(relation.plan, tuple(columns))
    at.analysed(plan, node)
    return Relation(plan, tuple(fields))


def distinct(relation: Relation, at: Context, node: exp.Expr) -> Relation:
    """Each row once per owner where the owner is selected, else once in all, after which nobody owns it."""
    owned = any(each.is_owner for each in relation.fields)
    only = all(each.is_owner and each.marker is None for each in relation.fields)
    if owned and only and isinstance(at.analysed(relation.plan, node).node, Owned):
        return replace(relation, plan=PerUnit(relation.plan, (), (Named("present", Count()),)))
    made = materialised(relation, at, node)
    plan: Plan = Distinct(made.plan, owned)
    at.analysed(plan, node)
    return replace(made, plan=plan)


def _union(query: exp.SetOperation, at: Context, names: Names) -> Relation:
    if not isinstance(query, exp.Union):
        raise refused("set operation", at, query)
    if any(query.args.get(part) for part in ("limit", "offset", "fetch")):
        raise refused("inner limit", at, query)
    if query.args.get("by_name") or query.args.get("on"):
        raise refused("union by name", at, query)
    sides = [rows(each, at, names) for each in (query.this, query.expression)]
    kinds = [tuple(each.is_owner for each in side.fields) for side in sides]
    if len(kinds[0]) != len(kinds[1]):
        raise refused("union by name", at, query)
    if kinds[0] != kinds[1]:
        raise refused("id", at, query)
    left, right = (materialised(side, at, query) for side in aligned(sides[0], sides[1], at, query))
    assert isinstance(left.plan, Project) and isinstance(right.plan, Project)
    names_left = [each.name for each in left.plan.columns]
    if len(names_left) != len(right.plan.columns):
        raise refused("union by name", at, query)
    columns = tuple(Named(name, each.of) for name, each in zip(names_left, right.plan.columns, strict=True))
    plan = UnionAll(left.plan, Project(right.plan.source, columns))
    at.analysed(plan, query)
    fields = tuple(
        replace(
            one,
            anchor=one.anchor if one.anchor == two.anchor else None,
            is_reference=one.is_reference and two.is_reference,
            period=one.period if one.period == two.period else "",
        )
        for one, two in zip(left.fields, right.fields, strict=True)
    )
    made = Relation(plan, fields)
    return distinct(made, at, query) if query.args.get("distinct") else made
