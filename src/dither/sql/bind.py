"""Binds a SELECT: queries over plans, and a recipe for the columns that a person asked for.

Rows first (FROM, WHERE, subqueries), then keys and outputs, then one query per grouping set and
distinct aggregate. Whatever has no rule is refused with its position in the text (allow-list).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dither.canonical import shorten
from dither.catalog import OTHER, Catalog
from dither.errors import QueryError
from dither.plan.analyse import NEWEST_RULES
from dither.plan.analysed_query import Analyses
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.stability import Owned, Public
from dither.question.expressions import Apply, Constant, Formula, KeyValue, Noisy
from dither.question.recipe import Order, Output, Recipe
from dither.sql.aggregates import note_counts, read_aggregate, read_histogram
from dither.sql.centred import write_sql
from dither.sql.formulas import Outer, check_size, read_condition, read_formula
from dither.sql.groups import Sets, read_grouping_sets
from dither.sql.key_codes import KeyEncoding
from dither.sql.kinds import settle_kinds
from dither.sql.known_functions import check_functions
from dither.sql.names import name_output
from dither.sql.parse import parse, read_whole
from dither.sql.per_unit import has_aggregates
from dither.sql.queries import QuestionQueries, make_queries
from dither.sql.question import Key, QuestionDraft
from dither.sql.refusals.offered import offer_rewrite
from dither.sql.refusals.reasons import add_offer, gather_reasons
from dither.sql.refusals.refuse import make_refusal
from dither.sql.refusals.syntax import describe_unreadable
from dither.sql.refusals.table import REFUSALS
from dither.sql.rewrites import rewrite
from dither.sql.rows import Names, add_names, bind_from, check_clauses
from dither.sql.scope import Context, Scope
from dither.sql.shape import check_shape
from dither.sql.tables import check_private, check_tables
from dither.sql.tree_nodes import list_nodes

MAX_COLUMNS = 50


def bind(
    sql: str,
    catalog: Catalog,
    facts: Facts = NO_FACTS,
    max_groups: int | None = None,
    analyses: Analyses | None = None,
    rules: int = NEWEST_RULES,
) -> Recipe:
    """Turn the text of a question into its recipe: queries and output columns.

    Raises QueryError, with a rewrite where there is one. `max_groups` limits in how many groups one
    unit counts: less noise, at the price of rows left out. `analyses` receive the plans of all
    queries, so that they are analysed once.
    """
    context = Context(sql, catalog, facts, rules)
    parsed = parse(sql)
    try:
        recipe = _bind(parsed, context, max_groups)
        if analyses is not None:
            for query in recipe.queries:
                analyses.analyse_rows(query.plan, context.analyses)
        return recipe
    except QueryError as error:
        # Binding changed the tree: reasons are looked for in the text as it was written.
        raise _explain_refusal(error, parse(sql), context, max_groups) from None
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None
    except SqlglotError:
        raise describe_unreadable(sql) from None


def _explain_refusal(
    error: QueryError, query: exp.Query, context: Context, max_groups: int | None
) -> QueryError:
    """Add to an error its other reasons and, if there is one, a question that means the same."""

    def bind_again(changed: exp.Query) -> Recipe:
        return _bind(changed, Context(context.sql, context.catalog, context.facts), max_groups)

    offer = offer_rewrite(query, context.catalog, bind_again)
    # Of a list of tables the equalities that join them are no conditions that can be left out.
    joined = rewrite(query.copy(), context.catalog)
    return add_offer(gather_reasons(error, joined, bind_again), offer)


@dataclass
class _ReadQuestion:
    """A question as far as it is read: what it releases, and what is done to the result."""

    draft: QuestionDraft
    sets: Sets
    outputs: list[Output]
    having: list[Formula]
    orders: tuple[Order, ...]
    limit: int | None
    offset: int

    def __post_init__(self) -> None:
        columns = [output.formula for output in self.outputs]
        check_size([*columns, *self.having, *(order.formula for order in self.orders)], self.draft)


def _bind(query: exp.Query, context: Context, max_groups: int | None) -> Recipe:
    """Rewrite, check and read a parsed question, and build the queries that it needs."""
    query = rewrite(query, context.catalog)
    nodes = list_nodes(query)
    check_tables(nodes, context)
    check_functions(nodes, context)
    check_shape(nodes, context)
    question = _read_query(query, context, {}, max_groups)
    built = make_queries(question.draft, question.sets, context)
    having = [*question.having, *_require_public_keys(question.draft, built)]
    recipe = Recipe(
        sql=context.sql,
        queries=built.queries,
        keys=built.keys,
        atoms=tuple(question.draft.atoms.values()),
        sets=built.sets,
        outputs=tuple(question.outputs),
        having=None
        if not having
        else having[0]
        if len(having) == 1
        else Apply("and", tuple(having)),
        order=question.orders,
        limit=question.limit,
        offset=question.offset,
    )
    return settle_kinds(recipe)


def _read_query(
    query: exp.Expr, context: Context, names: Names, max_groups: int | None
) -> _ReadQuestion:
    """Read a SELECT over rows, or over the answer of an aggregated subquery."""
    if isinstance(query, exp.SetOperation):
        raise make_refusal(
            "outer union" if isinstance(query, exp.Union) else "set operation", context, query
        )
    assert isinstance(query, exp.Select)
    names = add_names(query, context, names)
    check_private(query, context, names)
    check_clauses(query, context, is_outer=True)
    if inner := _find_answer_in_from(query, context, names):
        return _read_outer_select(query, _read_query(*inner, max_groups), context)
    scope = Scope(context, bind_from(query, context, names))
    _check_rows(scope, query, max_groups)
    return _read_select(query, QuestionDraft(scope, groups=max_groups))


def _find_answer_in_from(
    query: exp.Select, context: Context, names: Names
) -> tuple[exp.Expr, Context, Names] | None:
    """Find the aggregated subquery that a SELECT without aggregates rearranges, or None."""
    if has_aggregates(query) or any(
        query.args.get(clause) for clause in ("group", "having", "joins")
    ):
        return None
    node = query.args["from_"].this if query.args.get("from_") else None
    if isinstance(node, exp.Table) and not node.args.get("joins") and node.name.lower() in names:
        cte = names[node.name.lower()]
        select = cte.query
        inner_names = cte.names
    elif isinstance(node, exp.Subquery) and not node.args.get("joins"):
        select = node.this
        inner_names = add_names(node, context, names)
    else:
        return None
    alias = node.args.get("alias")
    if not isinstance(select, exp.Select) or (alias is not None and alias.args.get("columns")):
        return None
    if isinstance(node, exp.Table) and names[node.name.lower()].columns:
        return None
    if select.args.get("group") or has_aggregates(select):
        return select, context, inner_names
    deeper = _find_answer_in_from(select, context, add_names(select, context, inner_names))
    return (select, context, inner_names) if deeper is not None else None


def _check_rows(scope: Scope, query: exp.Select, max_groups: int | None) -> None:
    """Raise QueryError for public tables alone, or `max_groups` of rows without an owner."""
    node = scope.context.analyse(scope.relation.plan, query.args["from_"]).node
    if isinstance(node, Public):
        raise make_refusal("public only", scope.context, query.args["from_"])
    if max_groups is not None and not isinstance(node, Owned):
        raise make_refusal("max groups", scope.context)


def _read_select(query: exp.Select, question: QuestionDraft) -> _ReadQuestion:
    """Read the clauses of a SELECT whose rows are bound: keys, outputs, HAVING, ORDER, LIMIT."""
    context = question.scope.context
    distinct = query.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise make_refusal("distinct on", context, query)
    if distinct is not None and not has_aggregates(query) and not query.args.get("group"):
        query.set("group", exp.Group(all=True))
    sets = read_grouping_sets(query, question)
    if len(query.expressions) > MAX_COLUMNS:
        raise context.error(f"at most {MAX_COLUMNS} columns in one question")
    having = query.args.get("having")
    ordered = query.args.get("order")
    later = [having.this] if having else []
    note_counts([*query.expressions, *later, *([ordered] if ordered else [])], question)
    outputs = _read_outputs(query, question, sets)
    by_name = {output.name.lower(): output.formula for output in outputs}
    conditions = [read_condition(having.this, Outer(question, by_name))] if having else []
    last = Outer(question, by_name, outputs_first=True)
    orders = tuple(
        _read_order(ordering, outputs, last)
        for ordering in (ordered.expressions if ordered else ())
    )
    _check_outputs(query, question, outputs, sets, distinct is not None)
    return _ReadQuestion(question, sets, outputs, conditions, orders, *_read_limits(query, context))


def _read_limits(query: exp.Select, context: Context) -> tuple[int | None, int]:
    limit = _read_limit(query.args.get("limit") or query.args.get("fetch"), context)
    return limit, _read_limit(query.args.get("offset"), context) or 0


def _read_outer_select(query: exp.Select, inner: _ReadQuestion, context: Context) -> _ReadQuestion:
    """SELECT ... FROM (an answer): WHERE, ORDER BY and LIMIT on the noisy result."""
    if inner.limit is not None or inner.offset:
        raise make_refusal("inner limit", context, query.args["from_"])
    if query.args.get("distinct"):
        raise make_refusal("distinct answers", context, query.expressions[0])
    by_name = {output.name.lower(): output for output in inner.outputs}
    outer = Outer(
        inner.draft, {name: output.formula for name, output in by_name.items()}, outputs_only=True
    )
    outputs: list[Output] = []
    for position, column in enumerate(query.expressions, 1):
        node = column.this if isinstance(column, exp.Alias) else column
        if isinstance(node, exp.Star) or (
            isinstance(node, exp.Column) and isinstance(node.this, exp.Star)
        ):
            outputs += inner.outputs
            continue
        name = column.alias if isinstance(column, exp.Alias) else name_output(node, position)
        inner_output = by_name.get(node.name.lower()) if isinstance(node, exp.Column) else None
        value = read_formula(node, outer)
        if inner_output is not None:
            outputs.append(replace(inner_output, name=name))
        else:
            outputs.append(
                Output(name, value, "value", write_sql(node))
                if _is_noisy(value)
                else Output(name, value, "key")
            )
    _check_names(outputs, context)
    where = query.args.get("where")
    conditions = [read_condition(where.this, outer)] if where else []
    ordered = query.args.get("order")
    renamed = {**outer.outputs, **{output.name.lower(): output.formula for output in outputs}}
    last = Outer(inner.draft, renamed, outputs_only=True)
    orders = (
        tuple(_read_order(ordering, outputs, last) for ordering in ordered.expressions)
        if ordered
        else inner.orders
    )
    return _ReadQuestion(
        inner.draft,
        inner.sets,
        outputs,
        [*inner.having, *conditions],
        orders,
        *_read_limits(query, context),
    )


def _read_outputs(query: exp.Select, question: QuestionDraft, sets: Sets) -> list[Output]:
    """Read the columns that are shown: keys and noisy values, each under its name."""
    outputs: list[Output] = []
    for position, column in enumerate(query.expressions, 1):
        node = column.this if isinstance(column, exp.Alias) else column
        if isinstance(node, exp.Star):
            raise make_refusal("rows", question.scope.context, node)
        name = column.alias if isinstance(column, exp.Alias) else name_output(node, position)
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "histogram":
            outputs += _read_histogram(node, name, question, sets)
            continue
        question.notes.clear()
        value = read_formula(node, Outer(question))
        if _is_noisy(value):
            outputs.append(
                Output(
                    name, value, "value", write_sql(node), "; ".join(dict.fromkeys(question.notes))
                )
            )
        else:
            outputs.append(Output(name, value, "key"))
    _check_names(outputs, question.scope.context)
    return outputs


def _check_names(outputs: list[Output], context: Context) -> None:
    """Raise QueryError where two columns of the table would have one name, in any case."""
    taken: set[str] = set()
    for output in outputs:
        for name in output.names:
            if name.lower() in taken:
                raise context.error(f"two columns would be called {name}: rename one with AS")
            taken.add(name.lower())


def _read_histogram(
    node: exp.Anonymous, name: str, question: QuestionDraft, sets: Sets
) -> list[Output]:
    """Read HISTOGRAM as two outputs: the bin's lower edge, a key of all `sets`, and its count."""
    _, key, low = read_histogram(node, question)
    if any(existing.name == "bin" for existing in question.keys):
        raise question.scope.context.error("one HISTOGRAM in a question", node)
    question.keys.append(Key(key, KeyEncoding(key), "bin"))
    index = len(question.keys) - 1
    sets[:] = [(*indexes, index) for indexes in sets]
    edge: Formula = KeyValue(index)
    edge = Apply("add", (edge, Constant(low))) if low else edge
    counted = read_aggregate(exp.Count(this=exp.Star()), question)
    return [
        Output("bin", edge, "key"),
        Output(name, counted, "value", write_sql(node), "each bin starts at its lower edge"),
    ]


def _is_noisy(value: Formula) -> bool:
    if isinstance(value, Apply):
        return any(_is_noisy(argument) for argument in value.arguments)
    return isinstance(value, Noisy)


def _read_order(node: exp.Expr, outputs: list[Output], outer: Outer) -> Order:
    """Read one term of ORDER BY: a position, an output, or an expression; nulls last."""
    ordered = node.this.unnest()
    descending = bool(node.args.get("desc"))
    first = bool(node.args.get("nulls_first"))
    if isinstance(ordered, exp.Literal) and not ordered.is_string:
        position = read_whole(ordered)
        if position is None or not 1 <= position <= len(outputs):
            context = outer.question.scope.context
            raise context.error(
                f"there is no column {shorten(ordered.this)}: the positions are 1 to "
                f"{len(outputs)}",
                ordered,
            )
        return Order(outputs[position - 1].formula, descending, first)
    return Order(read_formula(ordered, outer), descending, first)


def _check_outputs(
    query: exp.Select, question: QuestionDraft, outputs: list[Output], sets: Sets, is_distinct: bool
) -> None:
    """Raise QueryError for no noise, an unclear DISTINCT, or a public table without keys."""
    context = question.scope.context
    is_open = any(question.scope.domain(key.value).undeclared for key in question.keys)
    if not question.atoms and not is_open:
        raise make_refusal("rows", context)
    shown_keys = {output.formula.key for output in outputs if isinstance(output.formula, KeyValue)}
    if (
        is_distinct
        and question.atoms
        and (len(sets) > 1 or not {key for indexes in sets for key in indexes} <= shown_keys)
    ):
        raise make_refusal("distinct answers", context, query.expressions[0])
    if question.scope.relation.public_rows and not any(key.is_public for key in question.keys):
        raise make_refusal("public preserved", context, query.args["from_"])


def _require_public_keys(question: QuestionDraft, built: QuestionQueries) -> list[Formula]:
    """List conditions that keys of `public LEFT JOIN private` are the public table's."""
    conditions: list[Formula] = []
    for index, key in enumerate(built.keys):
        if key.column not in question.scope.relation.listed:
            continue
        if key.domain.nullable:
            conditions.append(Apply("not", (Apply("is_null", (KeyValue(index),)),)))
        if key.domain.kind == "category" and OTHER in key.domain.labels:
            conditions.append(Apply("ne", (KeyValue(index), Constant(OTHER))))
    return conditions


def _read_limit(node: exp.Expr | None, context: Context) -> int | None:
    """Read the whole number of LIMIT, OFFSET or FETCH; None without one, QueryError for others."""
    if node is None:
        return None
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    whole = read_whole(value)
    if whole is None or whole >= 2**63:
        raise context.error("LIMIT and OFFSET take a whole number below 2**63", node)
    if node.args.get("limit_options") is not None and node.args["limit_options"].args.get(
        "percent"
    ):
        raise context.error("LIMIT and OFFSET take a whole number", node)
    return whole
