"""The tree of a question over answers: its sources, definitions, names and keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from sqlglot import exp

from dither.errors import QueryError
from dither.sql.names import name_output
from dither.sql.parse import parse, read_whole
from dither.sql.per_unit import contains_aggregate

PUBLIC_PREFIX = "public_"
"""What the names of public tables begin with, beside those of parts."""


@dataclass(frozen=True)
class Subquery:
    """The body of a subquery or WITH, and the names of WITH that it may use."""

    query: exp.Query
    names: Names

    @cached_property
    def is_answer(self) -> bool:
        """Whether it has aggregates, or rows made from answers; looked up once for all who ask."""
        return is_answer(self.query, self.names)


Names: TypeAlias = Mapping[str, Subquery]


class CannotSplit(Exception):
    """Raised where a question cannot be split into parts and a statement."""


def has_parameters(sql: str) -> bool:
    """Whether a question names a number that it does not have."""
    try:
        return any(parse(sql).find_all(exp.Parameter, exp.Placeholder))
    except QueryError:
        return False


def name_released(subquestion: str) -> exp.Table:
    """The table of a part's answer; a table of the same name in the question is another."""
    table = exp.to_table(subquestion)
    table.meta["released"] = True
    return table


def name_public(table: str) -> exp.Table:
    """The table of a public table's rows; no part of a question has such a name."""
    named = exp.to_table(PUBLIC_PREFIX + table)
    named.meta["released"] = True
    return named


def is_released(table: exp.Table) -> bool:
    """Whether a table of a statement holds an answer or public rows."""
    return bool(table.meta.get("released"))


def read_with(query: exp.Expr, names: Names) -> Names:
    """Add the names of WITH that a query may use, and take its WITH off.

    Raises CannotSplit for recursive ones.
    """
    clause = query.args.get("with_")
    if clause is None:
        return names
    if clause.args.get("recursive"):
        raise CannotSplit
    query.set("with_", None)
    for cte in clause.expressions:
        _name_columns(cte)
        names = {**names, cte.alias.lower(): Subquery(cte.this, names)}
    return names


def _name_columns(cte: exp.Expr) -> None:
    """Give the outputs of a definition the names that `WITH t (a, b)` lists, in place.

    Raises CannotSplit unless there is one name for each output.
    """
    alias = cte.args["alias"]
    columns = alias.args.get("columns")
    if not columns:
        return
    body = unwrap(cte.this)
    is_listed = isinstance(body, exp.Select) and len(columns) == len(body.expressions)
    if not is_listed:
        raise CannotSplit
    if any(isinstance(strip_alias(output), (exp.Star, exp.Columns)) for output in body.expressions):
        raise CannotSplit
    taken = {output.alias.lower() for output in body.expressions if output.alias}
    if taken and body.args.get("group") is not None:
        raise CannotSplit  # an alias may be a key, under its own name
    outputs = [
        exp.alias_(strip_alias(output).copy(), column.name, quoted=column.args.get("quoted"))
        for output, column in zip(body.expressions, columns, strict=True)
    ]
    body.set("expressions", outputs)
    alias.set("columns", None)


def unwrap(query: exp.Expr) -> exp.Expr:
    """The query in parentheses; what stands behind them has no place in what is written."""
    while isinstance(query, exp.Subquery):
        check_clauses(query)
        query = query.this
    return query


def check_clauses(source: exp.Expr) -> None:
    """A table or subquery by itself or with a name: no sample, PIVOT, ORDER BY, LIMIT or WITH."""
    if any(value for clause, value in source.args.items() if clause not in ("this", "alias")):
        raise CannotSplit


def strip_alias(output: exp.Expr) -> exp.Expr:
    return output.this if isinstance(output, exp.Alias) else output


def name_statement_output(output: exp.Expr, position: int = 0) -> str:
    """The name of an output: the asker's, or the one that a plain question would give it."""
    return output.alias or name_output(output, position)


def write_output(node: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(node, name, quoted=not name.isidentifier())


def list_sources(query: exp.Select) -> list[exp.Expr]:
    """What a SELECT reads: FROM, and each JOIN."""
    clause = query.args.get("from_")
    first = [] if clause is None else [clause.this]
    return [*first, *(join.this for join in query.args.get("joins") or [])]


def list_row_conditions(query: exp.Expr) -> list[exp.Expr]:
    """The conditions on the rows of a SELECT: WHERE and ON, and those of the subqueries in FROM."""
    query = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(query, exp.Select):
        return []
    joins = query.args.get("joins") or []
    own = [query.args.get("where"), *(join.args.get("on") for join in joins)]
    inner = [
        condition
        for source in list_sources(query)
        if isinstance(source, exp.Subquery)
        for condition in list_row_conditions(source)
    ]
    return [condition for condition in own if condition is not None] + inner


def find_answer(source: exp.Expr, names: Names) -> Subquery | None:
    """Return the body of a source that is an answer: aggregates, or rows made from answers.

    None for any other source.
    """
    if isinstance(source, exp.Table) and not source.db and source.name.lower() in names:
        body = names[source.name.lower()]
    elif isinstance(source, exp.Subquery):
        body = Subquery(source.this, names)
    else:
        return None
    if not body.is_answer:
        return None
    check_clauses(source)
    return body


def is_answer(query: exp.Expr, names: Names) -> bool:
    query = unwrap(query)
    if isinstance(query, exp.SetOperation):
        return is_answer(query.this, names) and is_answer(query.expression, names)
    if not isinstance(query, exp.Select):
        return False
    clause = query.args.get("with_")
    if clause is not None:
        names = read_with(query.copy(), names)
    if any(contains_aggregate(output) for output in query.expressions):
        return True
    sources = list_sources(query)
    return bool(sources) and all(find_answer(source, names) for source in sources)


def list_subqueries(node: exp.Expr) -> list[exp.Subquery]:
    """List the subqueries in expressions of a query, outermost first; those in FROM are none."""
    return [
        subquery
        for subquery in node.find_all(exp.Subquery)
        if not isinstance(subquery.parent, (exp.From, exp.Join, exp.In))
        and not any(
            isinstance(above, exp.Query) and above is not node
            for above in _list_ancestors(subquery, node)
        )
    ]


def _list_ancestors(node: exp.Expr, top: exp.Expr) -> list[exp.Expr]:
    """List the nodes above a node, up to `top`, which is left out."""
    above: list[exp.Expr] = []
    parent = node.parent
    while parent is not None and parent is not top:
        above.append(parent)
        parent = parent.parent
    return above


def list_hidden_aliases(query: exp.Select, columns: set[str]) -> set[str]:
    """Collect the names of outputs that a column of FROM may have too: there they mean the
    column."""
    return {
        output.alias.lower()
        for output in query.expressions
        if output.alias.lower() in columns
        and not (
            isinstance(output.this, exp.Column) and output.this.name.lower() == output.alias.lower()
        )
    }


def list_inner_names(query: exp.Select, names: Names) -> set[str]:
    """Collect the names that subqueries in FROM, and what they read, give to columns."""
    bodies = [*list_sources(query), *list_used(query, names)]
    named = [node for body in bodies for node in body.find_all(exp.Alias, exp.TableAlias)]
    return {
        name.lower()
        for node in named
        for name in (
            [node.alias]
            if isinstance(node, exp.Alias)
            else [column.name for column in node.args.get("columns") or ()]
        )
    }


def name_keys(query: exp.Select, hidden: set[str]) -> dict[str, exp.Expr]:
    """Map names of columns to the expressions of GROUP BY; positions and aliases are looked up.

    A column keeps its own name, whatever the name of the output that shows it: what reads the part
    then finds the names that the question has.
    """
    group = query.args.get("group")
    outputs = query.expressions
    by_alias = {output.alias.lower(): output for output in outputs if output.alias}
    keys: dict[str, exp.Expr] = {}
    for node in group.expressions if group is not None else []:
        named: exp.Expr = node
        is_name = isinstance(node, exp.Column) and not node.table
        if isinstance(node, exp.Literal) and not node.is_string:
            position = read_whole(node)
            if position is None or not 1 <= position <= len(outputs):
                raise CannotSplit
            named = outputs[position - 1]
        elif is_name and node.name.lower() in by_alias and node.name.lower() not in hidden:
            named = by_alias[node.name.lower()]
            if sum(output.alias.lower() == named.alias.lower() for output in outputs) > 1:
                raise CannotSplit
        else:
            named = next((output for output in outputs if strip_alias(output) == node), node)
        key = strip_alias(named)
        name = key.name if isinstance(key, exp.Column) else name_statement_output(named)
        if name.lower() in hidden and not isinstance(key, exp.Column):
            name = key.sql(dialect="duckdb")
        if name.lower() in map(str.lower, keys):
            raise CannotSplit
        keys[name] = key.copy()
    return keys


def list_used(query: exp.Expr, names: Names) -> list[exp.Expr]:
    """List the definitions of WITH that a query uses, those that they use before them."""
    used: dict[str, Subquery] = {}
    _collect_used(query, names, used)
    for name, definition in used.items():
        read = {table.name.lower() for table in definition.query.find_all(exp.Table)}
        if (read - {name} - set(definition.names)) & set(used):
            raise CannotSplit
    return [
        exp.CTE(this=definition.query.copy(), alias=write_alias(name))
        for name, definition in used.items()
    ]


def _collect_used(query: exp.Expr, names: Names, used: dict[str, Subquery]) -> None:
    """Add the definitions that a query uses; a name that means two of them cannot be written."""
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if table.db or name not in names or used.get(name) is names[name]:
            continue
        _collect_used(names[name].query, names[name].names, used)
        if name in used:
            raise CannotSplit
        used[name] = names[name]


def write_alias(name: str, columns: list[exp.Expr] | None = None) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name), columns=columns)
