"""A SELECT becomes queries over plans and a recipe for the columns a person asked for.

Rows first (FROM, WHERE, subqueries), then keys and outputs, then one query per grouping set and distinct aggregate.
Whatever has no rule is refused with its place in the text (allow-list).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.errors import SqlglotError

from dither.canonical import shorten
from dither.catalog import OTHER, Catalog
from dither.errors import QueryError
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.stability import Owned, Public
from dither.question.expressions import Apply, Constant, Formula, KeyValue, Noisy
from dither.question.recipe import Order, Output, Recipe
from dither.sql.aggregates import aggregate, counts_in, histogram
from dither.sql.centred import said
from dither.sql.formulas import Outer, check_size, condition, formula
from dither.sql.groups import Sets, grouping_sets
from dither.sql.key_codes import Listed
from dither.sql.kinds import settle_kinds
from dither.sql.names import output_name
from dither.sql.parse import parse, read_whole
from dither.sql.per_unit import has_aggregates
from dither.sql.queries import Answered, answered
from dither.sql.question import Key, Question
from dither.sql.refusals.refuse import refused
from dither.sql.refusals.table import REFUSALS
from dither.sql.rows import Names, check_parts, filtered, with_names
from dither.sql.scope import Context, Scope
from dither.sql.shape import check_shape
from dither.sql.tables import check_tables

MAX_COLUMNS = 50


def bind(sql: str, catalog: Catalog, facts: Facts = NO_FACTS, max_groups: int | None = None) -> Recipe:
    """The queries and output columns of a question.

    `max_groups` limits in how many groups one unit counts: less noise, at the price of rows left out.
    """
    try:
        return _bind(parse(sql), Context(sql, catalog, facts), max_groups)
    except RecursionError:
        raise QueryError(REFUSALS["deep"].message) from None
    except SqlglotError as error:
        raise QueryError(f"the question cannot be read: {type(error).__name__}") from None


@dataclass
class _Read:
    """A question as far as it is read: what it releases, and what is done to the result."""

    question: Question
    sets: Sets
    outputs: list[Output]
    having: list[Formula]
    orders: tuple[Order, ...]
    limit: int | None
    offset: int

    def __post_init__(self) -> None:
        columns = [output.formula for output in self.outputs]
        check_size([*columns, *self.having, *(order.formula for order in self.orders)], self.question)


def _bind(query: exp.Query, at: Context, max_groups: int | None) -> Recipe:
    check_tables(query, at)
    check_shape(query, at)
    read = _read(query, at, {}, max_groups)
    made = answered(read.question, read.sets, at)
    having = [*read.having, *_listed(read.question, made)]
    recipe = Recipe(
        sql=at.sql,
        queries=made.queries,
        keys=made.keys,
        atoms=tuple(read.question.atoms.values()),
        sets=made.sets,
        outputs=tuple(read.outputs),
        having=None if not having else having[0] if len(having) == 1 else Apply("and", tuple(having)),
        order=read.orders,
        limit=read.limit,
        offset=read.offset,
    )
    return settle_kinds(recipe)


def _read(query: exp.Expr, at: Context, names: Names, max_groups: int | None) -> _Read:
    if isinstance(query, exp.SetOperation):
        raise refused("outer union" if isinstance(query, exp.Union) else "set operation", at, query)
    assert isinstance(query, exp.Select)
    names = with_names(query, at, names)
    check_parts(query, at, outer=True)
    if inner := _answer_in_from(query, at, names):
        return _after(query, _read(*inner, max_groups), at)
    scope = Scope(at, filtered(query, at, names))
    _check_rows(scope, query, max_groups)
    return _question(query, Question(scope, groups=max_groups))


def _answer_in_from(query: exp.Select, at: Context, names: Names) -> tuple[exp.Expr, Context, Names] | None:
    """The aggregated subquery that a SELECT without aggregates reads: then it only rearranges the answer."""
    if has_aggregates(query) or any(query.args.get(part) for part in ("group", "having", "joins")):
        return None
    node = query.args["from_"].this if query.args.get("from_") else None
    if isinstance(node, exp.Table) and not node.args.get("joins") and node.name.lower() in names:
        known = names[node.name.lower()]
        found, inside = known.query, known.names
    elif isinstance(node, exp.Subquery) and not node.args.get("joins"):
        found, inside = node.this, with_names(node, at, names)
    else:
        return None
    alias = node.args.get("alias")
    if not isinstance(found, exp.Select) or (alias is not None and alias.args.get("columns")):
        return None
    if isinstance(node, exp.Table) and names[node.name.lower()].columns:
        return None
    if found.args.get("group") or has_aggregates(found):
        return found, at, inside
    deeper = _answer_in_from(found, at, with_names(found, at, inside))
    return (found, at, inside) if deeper is not None else None


def _check_rows(scope: Scope, query: exp.Select, max_groups: int | None) -> None:
    node = scope.at.analysed(scope.relation.plan, query.args["from_"]).node
    if isinstance(node, Public):
        raise refused("public only", scope.at, query.args["from_"])
    if max_groups is not None and not isinstance(node, Owned):
        raise refused("max groups", scope.at)


def _question(query: exp.Select, question: Question) -> _Read:
    at = question.scope.at
    distinct = query.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise refused("distinct on", at, query)
    if distinct is not None and not has_aggregates(query) and not query.args.get("group"):
        query.set("group", exp.Group(all=True))
    sets = grouping_sets(query, question)
    if len(query.expressions) > MAX_COLUMNS:
        raise at.error(f"at most {MAX_COLUMNS} columns in one question")
    having, ordered = query.args.get("having"), query.args.get("order")
    later = [having.this] if having else []
    counts_in([*query.expressions, *later, *([ordered] if ordered else [])], question)
    outputs = _outputs(query, question, sets)
    by_name = {output.name.lower(): output.formula for output in outputs}
    kept = [condition(having.this, Outer(question, by_name))] if having else []
    last = Outer(question, by_name, outputs_first=True)
    orders = tuple(_order(each, outputs, last) for each in (ordered.expressions if ordered else ()))
    _check_outputs(query, question, outputs, sets, distinct is not None)
    return _Read(question, sets, outputs, kept, orders, *_limits(query, at))


def _limits(query: exp.Select, at: Context) -> tuple[int | None, int]:
    limit = _whole(query.args.get("limit") or query.args.get("fetch"), at)
    return limit, _whole(query.args.get("offset"), at) or 0


def _after(query: exp.Select, inner: _Read, at: Context) -> _Read:
    """SELECT ... FROM (an answer): WHERE, ORDER BY and LIMIT on the noisy result."""
    if inner.limit is not None or inner.offset:
        raise refused("inner limit", at, query.args["from_"])
    if query.args.get("distinct"):
        raise refused("distinct answers", at, query.expressions[0])
    by_name = {output.name.lower(): output for output in inner.outputs}
    outer = Outer(inner.question, {name: each.formula for name, each in by_name.items()}, outputs_only=True)
    outputs: list[Output] = []
    for place, item in enumerate(query.expressions, 1):
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star) or (isinstance(node, exp.Column) and isinstance(node.this, exp.Star)):
            outputs += inner.outputs
            continue
        name = item.alias if isinstance(item, exp.Alias) else output_name(node, place)
        known = by_name.get(node.name.lower()) if isinstance(node, exp.Column) else None
        made = formula(node, outer)
        if known is not None:
            outputs.append(replace(known, name=name))
        else:
            outputs.append(Output(name, made, "value", said(node)) if _is_noisy(made) else Output(name, made, "key"))
    _check_names(outputs, at)
    where = query.args.get("where")
    kept = [condition(where.this, outer)] if where else []
    ordered = query.args.get("order")
    renamed = {**outer.outputs, **{output.name.lower(): output.formula for output in outputs}}
    last = Outer(inner.question, renamed, outputs_only=True)
    orders = tuple(_order(each, outputs, last) for each in ordered.expressions) if ordered else inner.orders
    return _Read(inner.question, inner.sets, outputs, [*inner.having, *kept], orders, *_limits(query, at))


def _outputs(query: exp.Select, question: Question, sets: Sets) -> list[Output]:
    outputs: list[Output] = []
    for place, item in enumerate(query.expressions, 1):
        node = item.this if isinstance(item, exp.Alias) else item
        if isinstance(node, exp.Star):
            raise refused("rows", question.scope.at, node)
        name = item.alias if isinstance(item, exp.Alias) else output_name(node, place)
        if isinstance(node, exp.Anonymous) and str(node.this).lower() == "histogram":
            outputs += _histogram(node, name, question, sets)
            continue
        question.notes.clear()
        made = formula(node, Outer(question))
        if _is_noisy(made):
            outputs.append(Output(name, made, "value", said(node), "; ".join(dict.fromkeys(question.notes))))
        else:
            outputs.append(Output(name, made, "key"))
    _check_names(outputs, question.scope.at)
    return outputs


def _check_names(outputs: list[Output], at: Context) -> None:
    taken: set[str] = set()
    for output in outputs:
        for each in output.names:
            if each.lower() in taken:
                raise at.error(f"two columns would be called {each}: rename one with AS")
            taken.add(each.lower())


def _histogram(node: exp.Anonymous, name: str, question: Question, sets: Sets) -> list[Output]:
    """One row per bin: a key with the bin's lower edge, and how many rows lie in it."""
    _, key, low = histogram(node, question)
    if any(each.name == "bin" for each in question.keys):
        raise question.scope.at.error("one HISTOGRAM in a question", node)
    question.keys.append(Key(key, Listed(key), "bin"))
    place = len(question.keys) - 1
    sets[:] = [(*each, place) for each in sets]
    edge: Formula = KeyValue(place)
    edge = Apply("add", (edge, Constant(low))) if low else edge
    counted = aggregate(exp.Count(this=exp.Star()), question)
    return [Output("bin", edge, "key"), Output(name, counted, "value", said(node), "each bin starts at its lower edge")]


def _is_noisy(made: Formula) -> bool:
    if isinstance(made, Apply):
        return any(_is_noisy(each) for each in made.arguments)
    return isinstance(made, Noisy)


def _order(node: exp.Expr, outputs: list[Output], outer: Outer) -> Order:
    """ORDER BY a position, the name of an output, or an expression; nulls last unless it says otherwise."""
    of = node.this.unnest()
    descending, first = bool(node.args.get("desc")), bool(node.args.get("nulls_first"))
    if isinstance(of, exp.Literal) and not of.is_string:
        position = read_whole(of)
        if position is None or not 1 <= position <= len(outputs):
            at = outer.question.scope.at
            raise at.error(f"there is no column {shorten(of.this)}: the positions are 1 to {len(outputs)}", of)
        return Order(outputs[position - 1].formula, descending, first)
    return Order(formula(of, outer), descending, first)


def _check_outputs(query: exp.Select, question: Question, outputs: list[Output], sets: Sets, distinct: bool) -> None:
    at = question.scope.at
    is_open = any(question.scope.domain(key.value).undeclared for key in question.keys)
    if not question.atoms and not is_open:
        raise refused("rows", at)
    shown = {output.formula.key for output in outputs if isinstance(output.formula, KeyValue)}
    if distinct and question.atoms and (len(sets) > 1 or not {key for one in sets for key in one} <= shown):
        raise refused("distinct answers", at, query.expressions[0])
    if question.scope.relation.public_rows and not any(key.is_public for key in question.keys):
        raise refused("public preserved", at, query.args["from_"])


def _listed(question: Question, made: Answered) -> list[Formula]:
    """For `public LEFT JOIN private`: that a key is one of the public table's."""
    parts: list[Formula] = []
    for place, column in enumerate(made.keys):
        if column.column not in question.scope.relation.listed:
            continue
        if column.domain.nullable:
            parts.append(Apply("not", (Apply("is_null", (KeyValue(place),)),)))
        if column.domain.kind == "category" and OTHER in column.domain.labels:
            parts.append(Apply("ne", (KeyValue(place), Constant(OTHER))))
    return parts


def _whole(node: exp.Expr | None, at: Context) -> int | None:
    """The constant of LIMIT, OFFSET or FETCH."""
    if node is None:
        return None
    value = node.args.get("count") if isinstance(node, exp.Fetch) else node.expression
    whole = read_whole(value)
    if whole is None or whole >= 2**63:
        raise at.error("LIMIT and OFFSET take a whole number below 2**63", node)
    if node.args.get("limit_options") is not None and node.args["limit_options"].args.get("percent"):
        raise at.error("LIMIT and OFFSET take a whole number", node)
    return whole
