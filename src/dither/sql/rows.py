"""Binds FROM, WHERE and subqueries: SQL that describes rows becomes a relation."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from dither.plan.algebra import (
    Call,
    Column,
    Count,
    Distinct,
    Filter,
    Named,
    PerUnit,
    Plan,
    Project,
    UnionAll,
)
from dither.plan.stability import Owned
from dither.rules import PrivacyRule
from dither.sql.conditions import resolve_condition
from dither.sql.constants import truth
from dither.sql.expressions import flatten_chain, resolve_expression
from dither.sql.joins import bind_join
from dither.sql.key_codes import period_of
from dither.sql.lent_ids import refuse_kept
from dither.sql.names import name_output
from dither.sql.per_unit import bind_grouped, has_aggregates
from dither.sql.public_filters import join_conditions
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Context, Field, Relation, Scope, fresh_name
from dither.sql.subqueries import Bind, is_subquery, semi_join, subqueries_in
from dither.sql.tables import bind_table, check_plain, find_table
from dither.sql.unions import align_sides, join_lists

_ROW_CLAUSES = {
    "kind",
    "expressions",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "distinct",
    "with_",
    "order",
    "hint",
}


@dataclass
class Cte:
    """A query under a name (WITH), bound when it is first used, among the names that it may use."""

    query: exp.Query
    names: Names
    columns: tuple[str, ...] = ()
    bound: Relation | None = None


Names = dict[str, Cte]


def bind_rows(query: exp.Expr, context: Context, names: Names) -> Relation:
    """Bind a subquery to a relation: its plan and its fields.

    Its rows are those of people, values per person, or rows that belong to nobody.
    """
    if isinstance(query, exp.Subquery):
        if any(query.args.get(clause) for clause in ("limit", "offset", "fetch")):
            raise make_refusal("inner limit", context, query)
        return bind_rows(query.this, context, add_names(query, context, names))
    if isinstance(query, exp.SetOperation):
        return _bind_union(query, context, add_names(query, context, names))
    if not isinstance(query, exp.Select):
        raise make_refusal("from", context, query)
    names = add_names(query, context, names)
    check_clauses(query, context)
    source = bind_from(query, context, names)
    if source.public_rows:
        raise make_refusal("public preserved", context, query.args["from_"])
    if query.args.get("group") or has_aggregates(query):
        relation = bind_grouped(query, source, context)
    else:
        if query.args.get("having"):
            raise context.error("HAVING needs GROUP BY: write WHERE", query.args["having"])
        relation = _select_fields(query, source, context)
    if distinct := query.args.get("distinct"):
        if distinct.args.get("on"):
            raise make_refusal("distinct on", context, query)
        relation = make_distinct(relation, context, query)
    return relation


def check_clauses(select: exp.Select, context: Context, *, is_outer: bool = False) -> None:
    """Refuse clauses that have no rule. LIMIT is answered at the end of the question only."""
    answered_clauses = _ROW_CLAUSES | ({"limit", "offset", "fetch"} if is_outer else set())
    for clause, value in select.args.items():
        if not value or clause in answered_clauses:
            continue
        node = value if isinstance(value, exp.Expr) else None
        if clause in ("limit", "offset", "fetch"):
            raise make_refusal("inner limit", context, node)
        if clause in ("windows", "qualify"):
            raise make_refusal("window", context, node)
        if clause == "sample":
            raise make_refusal("sample", context, node)
        name = {"laterals": "LATERAL", "into": "INTO"}.get(clause, clause.rstrip("_").upper())
        raise context.error(f"{name} is not answered: remove it {PrivacyRule.NO_RULE.label}", node)
    if select.args.get("kind") or select.args.get("hint"):
        raise context.error(
            "SELECT AS STRUCT, SELECT AS VALUE and hints are not answered: remove them", select
        )


def add_names(query: exp.Expr, context: Context, names: Names) -> Names:
    """Add the names of WITH to those known before; each query of WITH sees the names before it."""
    with_clause = query.args.get("with_")
    if not with_clause:
        return names
    if with_clause.args.get("recursive"):
        raise make_refusal("recursive", context, with_clause)
    for cte in with_clause.expressions:
        alias = cte.args.get("alias")
        columns = (
            tuple(column.name for column in (alias.args.get("columns") or ())) if alias else ()
        )
        names = {**names, cte.alias.lower(): Cte(cte.this, names, columns)}
    return names


def bind_from(select: exp.Select, context: Context, names: Names) -> Relation:
    """Bind FROM, joins and WHERE to a relation."""
    from_clause = select.args.get("from_")
    if from_clause is None:
        raise context.error("a question needs FROM and a table", None)
    relation = bind_source(from_clause.this, select, context, names)
    for node in select.args.get("joins") or ():
        relation = _add_join(relation, node, select, context, names)
    where = select.args.get("where")
    return _filter_rows(relation, where.this, context, names) if where else relation


def _add_join(
    relation: Relation, node: exp.Join, select: exp.Expr, context: Context, names: Names
) -> Relation:
    """Join the next table of FROM. Raises QueryError where two tables have one name."""
    right = bind_source(node.this, select, context, names)
    left_names = {(field.source or "").lower() for field in relation.fields}
    if left_names & {(field.source or "").lower() for field in right.fields}:
        raise context.error(
            "two tables of one name: give one an alias, as in JOIN visits AS b", node.this
        )
    return bind_join(relation, right, node, select, context)


def bind_source(node: exp.Expr, select: exp.Expr, context: Context, names: Names) -> Relation:
    """Bind what follows FROM or JOIN: a table, a name of WITH, or a subquery."""
    if isinstance(node, exp.Paren):
        return bind_source(node.this, select, context, names)
    if isinstance(node, exp.Table):
        check_plain(node, context)
        cte = names.get(node.name.lower())
        if cte is None:
            relation = bind_table(find_table(node, context), context)
        else:
            if cte.bound is None:
                cte.bound = bind_rows(cte.query, context, cte.names)
            relation = _rename_columns(cte.bound, cte.columns, context, node)
        relation = relation.rename_source(node.alias or node.name)
    elif isinstance(node, exp.Subquery):
        is_join = isinstance(node.this, exp.Table)  # (a JOIN b ON ...)
        relation = (
            bind_source(node.this, select, context, names)
            if is_join
            else bind_rows(node, context, names)
        )
        alias = node.args.get("alias")
        columns = (
            tuple(column.name for column in (alias.args.get("columns") or ())) if alias else ()
        )
        relation = _rename_columns(relation, columns, context, node)
        if node.alias or not isinstance(node.this, exp.Table):
            relation = relation.rename_source(node.alias or "subquery")
        if node.args.get("sample") or node.args.get("pivots"):
            raise make_refusal("sample", context, node)
    else:
        raise make_refusal("from", context, node)
    alias = node.args.get("alias")
    if isinstance(node, exp.Table) and alias and alias.args.get("columns"):
        relation = _rename_columns(
            relation, tuple(column.name for column in alias.args["columns"]), context, node
        )
    for join in node.args.get("joins") or ():
        relation = _add_join(relation, join, select, context, names)
    return relation


def _rename_columns(
    relation: Relation, columns: tuple[str, ...], context: Context, node: exp.Expr
) -> Relation:
    """Give the first fields other names, as in `AS t (a, b)`."""
    if len(columns) > len(relation.fields):
        raise context.error(f"{len(columns)} names for {len(relation.fields)} columns", node)
    names = [*columns, *(field.name for field in relation.fields[len(columns) :])]
    fields = tuple(
        replace(field, name=name) for field, name in zip(relation.fields, names, strict=True)
    )
    return replace(relation, fields=fields)


def _filter_rows(relation: Relation, node: exp.Expr, context: Context, names: Names) -> Relation:
    """Filter a relation by WHERE: plain conditions first, then IN and EXISTS as joins."""
    terms = flatten_chain(node, exp.And)
    plain_terms = [term for term in terms if not subqueries_in(term)]
    if len(plain_terms) == len(terms):
        return replace(
            relation, plan=Filter(relation.plan, resolve_condition(node, Scope(context, relation)))
        )
    if plain_terms:
        conditions = [resolve_condition(term, Scope(context, relation)) for term in plain_terms]
        relation = replace(relation, plan=Filter(relation.plan, join_conditions(conditions)))
    for term in terms:
        if not subqueries_in(term):
            continue
        bare_term = term.unnest()
        is_negated = False
        while isinstance(bare_term, exp.Not):
            bare_term = bare_term.this.unnest()
            is_negated = not is_negated
        if is_subquery(bare_term):
            relation, _ = semi_join(
                relation,
                bare_term,
                context,
                _make_binder(context, names),
                "not" if is_negated else "only",
            )
            continue
        values = {}
        for subquery in subqueries_in(term):
            relation, value = semi_join(
                relation, subquery, context, _make_binder(context, names), "value"
            )
            values[id(subquery)] = value
        scope = Scope(context, relation, values)
        relation = replace(relation, plan=Filter(relation.plan, resolve_condition(term, scope)))
    return relation


def _make_binder(context: Context, names: Names) -> Bind:
    """Make the function that binds a subquery of WHERE: whole, or its FROM with some conditions."""

    def bind(query: exp.Expr, kept_conditions: list[exp.Expr] | None) -> Relation:
        if kept_conditions is None:
            return bind_rows(query, context, names)
        assert isinstance(query, exp.Select)
        check_clauses(query, context)
        bare = query.copy()
        bare.set("where", None)
        relation = bind_from(bare, context, add_names(query, context, names))
        for kept_condition in kept_conditions:
            relation = _filter_rows(relation, kept_condition, context, names)
        return relation

    return bind


def _select_fields(select: exp.Select, relation: Relation, context: Context) -> Relation:
    """Select fields without aggregates: new names for expressions, computed where they are used."""
    scope = Scope(context, relation)
    fields: list[Field] = []
    for position, column in enumerate(select.expressions, 1):
        node = column.this if isinstance(column, exp.Alias) else column
        if isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        ):
            star = node if isinstance(node, exp.Star) else node.this
            if any(star.args.values()):
                raise context.error(
                    "* with EXCLUDE, REPLACE or RENAME is not answered: name the columns", node
                )
            table = node.table.lower() if isinstance(node, exp.Column) else ""
            table_name = node.table if isinstance(node, exp.Column) else "table"
            selected = [
                field
                for field in relation.fields
                if not table or (field.source or "").lower() == table
            ]
            if not selected:
                raise context.error(f"no table {table_name} in this FROM", node)
            fields += [
                replace(field, qualified=False)
                for field in selected
                if table or not field.qualified
            ]
            continue
        name = column.alias if isinstance(column, exp.Alias) else name_output(node, position)
        if isinstance(node, exp.Column):
            fields.append(replace(scope.field(node), name=name, qualified=False))
            continue
        if isinstance(node, exp.Null):
            raise make_refusal("null constant", context, node)
        value = resolve_expression(node, scope)
        fields.append(Field(None, name, value, period=period_of(value)))
    return replace(relation, fields=tuple(fields))


def materialise(relation: Relation, context: Context, node: exp.Expr) -> Relation:
    """Make exactly the fields of a relation the columns of its plan, each under a name of its
    own."""
    taken: set[str] = set()
    columns: list[Named] = []
    fields: list[Field] = []
    for field in relation.fields:
        own_field = replace(field, qualified=False)
        if field.marker is not None:
            name = fresh_name("matched", taken)
            columns.append(
                Named(name, Call("case", (Call("is_not_null", (field.marker,)), truth(True))))
            )
            own_field = replace(own_field, marker=Column(name))
        if field.of is not None:
            name = fresh_name(field.name, taken)
            columns.append(Named(name, field.of))
            own_field = replace(own_field, of=Column(name))
        fields.append(own_field)
    if not columns:
        columns.append(Named(fresh_name("present", taken), truth(True)))
    plan = Project(relation.plan, tuple(columns))
    context.analyse(plan, node)
    return Relation(plan, tuple(fields))


def make_distinct(relation: Relation, context: Context, node: exp.Expr) -> Relation:
    """Keep each row once per owner where the owner is selected, else once in all.

    Rows that are kept once in all belong to nobody.
    """
    kept_ids = [field.of for field in relation.fields if not field.is_lent]
    # beside the id that lends its value, the marker tells rows apart
    refuse_kept((field for field in relation.fields if field.of not in kept_ids), node, context)
    owned = any(field.is_owner for field in relation.fields)
    only = all(field.is_owner and field.marker is None for field in relation.fields)
    if owned and only and isinstance(context.analyse(relation.plan, node).node, Owned):
        return replace(relation, plan=PerUnit(relation.plan, (), (Named("present", Count()),)))
    materialised = materialise(relation, context, node)
    plan: Plan = Distinct(materialised.plan, owned)
    context.analyse(plan, node)
    return replace(materialised, plan=plan)


def _bind_union(query: exp.SetOperation, context: Context, names: Names) -> Relation:
    """Bind UNION and UNION ALL: rows of two queries with the same columns, in one relation."""
    if not isinstance(query, exp.Union):
        raise make_refusal("set operation", context, query)
    if any(query.args.get(clause) for clause in ("limit", "offset", "fetch")):
        raise make_refusal("inner limit", context, query)
    if query.args.get("by_name") or query.args.get("on"):
        raise make_refusal("union by name", context, query)
    operands = [bind_rows(operand, context, names) for operand in (query.this, query.expression)]
    kinds = [tuple(field.is_owner for field in relation.fields) for relation in operands]
    if len(kinds[0]) != len(kinds[1]):
        raise make_refusal("union by name", context, query)
    if kinds[0] != kinds[1]:
        raise make_refusal("id", context, query)
    left, right = (
        materialise(aligned, context, query)
        for aligned in align_sides(operands[0], operands[1], context, query)
    )
    assert isinstance(left.plan, Project) and isinstance(right.plan, Project)
    names_left = [column.name for column in left.plan.columns]
    if len(names_left) != len(right.plan.columns):
        raise make_refusal("union by name", context, query)
    columns = tuple(
        Named(name, column.of) for name, column in zip(names_left, right.plan.columns, strict=True)
    )
    plan = UnionAll(left.plan, Project(right.plan.source, columns))
    context.analyse(plan, query)
    fields = tuple(
        replace(
            left_field,
            anchor=left_field.anchor if left_field.anchor == right_field.anchor else None,
            is_reference=left_field.is_reference and right_field.is_reference,
            period=left_field.period if left_field.period == right_field.period else "",
            texts=join_lists(left_field.texts, right_field.texts),
        )
        for left_field, right_field in zip(left.fields, right.fields, strict=True)
    )
    relation = Relation(plan, fields)
    return make_distinct(relation, context, query) if query.args.get("distinct") else relation
