"""Splits a question into parts that are asked of the data and a statement over their answers.

    SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region

has one part, `SELECT region, COUNT(*) FROM orders GROUP BY region`; the rest is computed from its
answer, and costs nothing. An aggregate that is named twice is one column of one part: one noise.
A subquery that gives one number to a condition on rows is a part that is asked first; the part with
the condition is written once that number is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from dither.errors import QueryError
from dither.postprocess.modes import rewrite_mode
from dither.sql.names import name_output
from dither.sql.parse import parse, read_whole
from dither.sql.per_unit import contains_aggregate, is_aggregate

MOST_PARTS = 16
_GROWING = (
    exp.Anonymous,
    exp.Repeat,
    exp.Pad,
    exp.GenerateSeries,
    exp.Unnest,
    exp.Array,
    exp.Lambda,
    exp.Command,
)


@dataclass(frozen=True)
class Scalar:
    """One number from answers: the name that stands for it in a part, and how it is computed."""

    name: str
    statement: str


@dataclass(frozen=True)
class Part:
    """A question of its own. Its answer is a table of this name for the statements after it."""

    name: str
    sql: str
    scalars: tuple[Scalar, ...] = ()


@dataclass(frozen=True)
class Column:
    """An output: its name, and the column of a part that it shows as it is, if it does.

    Values of rows that noisy values chose are not shown as they are: their intervals would cover
    the exact ones less often than they say.
    """

    name: str
    source: str | None
    is_key: bool


@dataclass(frozen=True)
class SplitQuestion:
    """Parts in the order in which they are asked, and what is computed from their answers."""

    parts: tuple[Part, ...]
    statement: str
    columns: tuple[Column, ...] | None
    """The outputs of a statement that reads one part row by row; None for any other."""


@dataclass(frozen=True)
class _Subquery:
    """The body of a subquery or WITH, and the names of WITH that it may use."""

    query: exp.Query
    names: _Names


_Names: TypeAlias = Mapping[str, _Subquery]


class _CannotSplit(Exception):
    """The question is no statement over answers."""


def split_question(sql: str) -> SplitQuestion | None:
    """The parts of a question over answers; None where it is none.

    >>> split = split_question("SELECT a, COUNT(*) * 2 AS n FROM t GROUP BY a")
    >>> [part.sql for part in split.parts], split.statement
    (['SELECT a AS a, COUNT(*) AS "COUNT(*)" FROM t GROUP BY a'], \
'SELECT "a" AS a, "COUNT(*)" * 2 AS n FROM part_1')
    """
    splitter = _Splitter()
    try:
        statement = splitter.rewrite(rewrite_mode(parse(sql).copy()), {})
    except (_CannotSplit, QueryError):
        return None
    names = {part.name for part in splitter.parts}
    reads_data = any(table.name not in names for table in statement.find_all(exp.Table))
    if not names or reads_data or any(map(_can_grow, statement.walk())):
        return None
    return SplitQuestion(
        tuple(splitter.parts), statement.sql(dialect="duckdb"), splitter.list_columns(statement)
    )


def write_scalars(part: Part, numbers: Mapping[str, str]) -> str:
    """The text of a part with its numbers in the place of their names."""
    query = parse(part.sql)
    for node in list(query.find_all(exp.Parameter, exp.Placeholder)):
        node.replace(exp.Literal.number(numbers[node.name]))
    return query.sql(dialect="duckdb")


class _Splitter:
    """Rewrites a question from the inside out, and keeps the parts that it meets."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self._keys: dict[str, set[str]] = {}

    def rewrite(self, query: exp.Expr, names: _Names) -> exp.Query:
        """The query over answers that stands for a query over data."""
        query = _unwrap(query)
        names = _read_with(query, names)
        if isinstance(query, exp.SetOperation):
            query.set("this", self.rewrite(query.this, names))
            query.set("expression", self.rewrite(query.expression, names))
            return query
        if not isinstance(query, exp.Select):
            raise _CannotSplit
        sources = _list_sources(query)
        answers = [_find_answer(source, names) for source in sources]
        if sources and all(answers):
            return self._read_answers(query, answers, names)
        if not sources or any(answers):
            raise _CannotSplit
        return self._ask_data(query, names)

    def list_columns(self, statement: exp.Expr) -> tuple[Column, ...] | None:
        """The outputs of a statement that shows one part row by row."""
        source = statement.args.get("from_")
        has_more = any(statement.args.get(clause) for clause in ("distinct", "group", "joins"))
        if not isinstance(statement, exp.Select) or has_more or source is None:
            return None
        if source.this.name not in self._keys:
            return None
        keys = self._keys[source.this.name]
        chooses_rows = any(statement.args.get(clause) for clause in ("where", "qualify", "limit"))
        columns = []
        for output in statement.selects:
            shown = _strip_alias(output)
            name = shown.name if isinstance(shown, exp.Column) else None
            is_key = name in keys
            source_name = None if chooses_rows and not is_key else name
            columns.append(Column(output.alias_or_name, source_name, is_key))
        return tuple(columns)

    def _read_answers(
        self, query: exp.Select, answers: list[_Subquery | None], names: _Names
    ) -> exp.Select:
        """A SELECT from answers: each is rewritten where it stands."""
        for source, answer in zip(_list_sources(query), answers, strict=True):
            assert answer is not None
            alias = source.alias_or_name
            body = self.rewrite(answer.query.copy(), answer.names)
            columns = source.args["alias"].args.get("columns") if source.args.get("alias") else None
            named = _write_alias(alias, columns) if alias else None
            source.replace(exp.Subquery(this=body, alias=named))
        for subquery in _list_subqueries(query):
            subquery.replace(exp.Subquery(this=self.rewrite(subquery.this, names)))
        if any(node.args.get("query") for node in query.find_all(exp.In)):
            raise _CannotSplit
        return query

    def _ask_data(self, query: exp.Select, names: _Names) -> exp.Select:
        """A SELECT from tables: its keys and aggregates are a part, the rest reads its answer."""
        group = query.args.get("group")
        has_sets = group is not None and any(
            value for key, value in group.args.items() if key != "expressions"
        )
        if query.args.get("distinct") or has_sets:
            raise _CannotSplit
        keys = _name_keys(query)
        columns = _PartColumns(keys, query)
        scalars = self._ask_scalars(query, names)
        outputs = [
            _write_output(
                self._read_part(_strip_alias(output), columns, names),
                _name_output(output, position),
            )
            for position, output in enumerate(query.expressions, 1)
        ]
        outer = exp.Select(expressions=outputs)
        having = query.args.get("having")
        if having is not None:
            outer = outer.where(self._read_part(having.this, columns, names), copy=False)
        for clause in ("qualify", "order", "limit", "offset"):
            node = query.args.get(clause)
            if node is not None:
                outer.set(clause, self._read_part(node, columns, names))
        if not columns.aggregates:
            raise _CannotSplit
        part = self._add_part(query, columns, scalars, names)
        return outer.from_(exp.to_table(part), copy=False)

    def _read_part(self, node: exp.Expr, columns: _PartColumns, names: _Names) -> exp.Expr:
        """An expression with the columns of the part in the place of keys and aggregates."""
        if (key := columns.find_key(node)) is not None:
            return exp.column(key, quoted=True)
        if isinstance(node, exp.Subquery):
            return exp.Subquery(this=self.rewrite(node.this.copy(), names))
        if isinstance(node, exp.Query):
            raise _CannotSplit
        if isinstance(node, exp.Column):
            if node.table or node.name.lower() not in columns.aliases:
                raise _CannotSplit
            return node.copy()
        is_window = isinstance(node, exp.Window)
        if is_aggregate(node):
            return exp.column(columns.add(node), quoted=True)
        copied = node.copy()
        for child in list(copied.iter_expressions()):
            if is_window and child is copied.this:
                for argument in list(child.iter_expressions()):
                    argument.replace(self._read_part(argument.copy(), columns, names))
                continue
            child.replace(self._read_part(child.copy(), columns, names))
        return copied

    def _ask_scalars(self, query: exp.Select, names: _Names) -> list[Scalar]:
        """The numbers that conditions on rows compare with: each is asked for before the part."""
        scalars: list[Scalar] = []
        joins = query.args.get("joins") or []
        clauses = [query.args.get("where"), *(join.args.get("on") for join in joins)]
        for clause in clauses:
            for subquery in _list_subqueries(clause) if clause is not None else []:
                body = _unwrap(subquery.this)
                is_number = (
                    isinstance(body, exp.Select)
                    and len(body.expressions) == 1
                    and not body.args.get("group")
                    and contains_aggregate(body.expressions[0])
                )
                if not is_number:
                    continue
                statement = self.rewrite(body.copy(), names).sql(dialect="duckdb")
                scalar = Scalar(f"number_{len(scalars) + 1}", statement)
                scalars.append(scalar)
                subquery.replace(exp.Parameter(this=exp.Var(this=scalar.name)))
        return scalars

    def _add_part(
        self, query: exp.Select, columns: _PartColumns, scalars: list[Scalar], names: _Names
    ) -> str:
        """The question of a part, once for all who ask it."""
        asked = query.copy()
        for clause in ("having", "qualify", "order", "limit", "offset", "distinct"):
            asked.set(clause, None)
        asked.set("expressions", columns.list_outputs())
        if columns.keys:
            asked.set("group", exp.Group(expressions=[key.copy() for key in columns.keys.values()]))
        used = _list_used(asked, names)
        if used:
            asked.set("with_", exp.With(expressions=used))
        text = asked.sql(dialect="duckdb")
        for part in self.parts:
            if part.sql == text and part.scalars == tuple(scalars):
                return part.name
        if len(self.parts) >= MOST_PARTS:
            raise _CannotSplit
        name = f"part_{len(self.parts) + 1}"
        self.parts.append(Part(name, text, tuple(scalars)))
        self._keys[name] = set(columns.keys)
        return name


class _PartColumns:
    """The columns of a part: its keys, and the aggregates that are met while the rest is read."""

    def __init__(self, keys: dict[str, exp.Expr], query: exp.Select) -> None:
        self.keys = keys
        self.aggregates: dict[str, exp.Expr] = {}
        self.aliases = {output.alias.lower() for output in query.expressions if output.alias}
        self._names = {
            _strip_alias(output): output.alias for output in query.expressions if output.alias
        }

    def find_key(self, node: exp.Expr) -> str | None:
        """The name of the key that an expression is."""
        for name, key in self.keys.items():
            is_named = isinstance(node, exp.Column) and not node.table
            if node == key or (is_named and node.name.lower() == name.lower()):
                return name
        return None

    def add(self, aggregate: exp.Expr) -> str:
        """The name of the column of an aggregate: the asker's, or else its own text."""
        for name, known in self.aggregates.items():
            if known == aggregate:
                return name
        name = self._names.get(aggregate) or aggregate.sql(dialect="duckdb")
        if name in self.keys or name in self.aggregates:
            raise _CannotSplit
        self.aggregates[name] = aggregate.copy()
        return name

    def list_outputs(self) -> list[exp.Expr]:
        """Keys, then aggregates, each under its name."""
        return [
            _write_output(node.copy(), name)
            for name, node in {**self.keys, **self.aggregates}.items()
        ]


def _can_grow(node: exp.Expr) -> bool:
    """Whether a function may make something large out of something small, or is not known."""
    return isinstance(node, _GROWING)


def _read_with(query: exp.Expr, names: _Names) -> _Names:
    """The names of WITH that a query may use; its WITH is taken off."""
    clause = query.args.get("with_")
    if clause is None:
        return names
    if clause.args.get("recursive"):
        raise _CannotSplit
    query.set("with_", None)
    for cte in clause.expressions:
        if cte.args["alias"].args.get("columns"):
            raise _CannotSplit
        names = {**names, cte.alias.lower(): _Subquery(cte.this, names)}
    return names


def _unwrap(query: exp.Expr) -> exp.Expr:
    while isinstance(query, exp.Subquery):
        query = query.this
    return query


def _strip_alias(output: exp.Expr) -> exp.Expr:
    return output.this if isinstance(output, exp.Alias) else output


def _name_output(output: exp.Expr, position: int = 0) -> str:
    """The name of an output: the asker's, or the one that a plain question would give it."""
    return output.alias or name_output(output, position)


def _write_output(node: exp.Expr, name: str) -> exp.Expr:
    return exp.alias_(node, name, quoted=not name.isidentifier())


def _list_sources(query: exp.Select) -> list[exp.Expr]:
    """What a SELECT reads: FROM, and each JOIN."""
    clause = query.args.get("from_")
    first = [] if clause is None else [clause.this]
    return [*first, *(join.this for join in query.args.get("joins") or [])]


def _find_answer(source: exp.Expr, names: _Names) -> _Subquery | None:
    """The body of a source that is an answer: aggregates, or rows made from answers."""
    if isinstance(source, exp.Table) and not source.db and source.name.lower() in names:
        body = names[source.name.lower()]
    elif isinstance(source, exp.Subquery):
        body = _Subquery(source.this, names)
    else:
        return None
    return body if _is_answer(body.query, body.names) else None


def _is_answer(query: exp.Expr, names: _Names) -> bool:
    query = _unwrap(query)
    if isinstance(query, exp.SetOperation):
        return _is_answer(query.this, names) and _is_answer(query.expression, names)
    if not isinstance(query, exp.Select):
        return False
    clause = query.args.get("with_")
    if clause is not None:
        names = _read_with(query.copy(), names)
    if any(contains_aggregate(output) for output in query.expressions):
        return True
    sources = _list_sources(query)
    return bool(sources) and all(_find_answer(source, names) for source in sources)


def _list_subqueries(node: exp.Expr) -> list[exp.Subquery]:
    """The subqueries in expressions of a query, outermost first; those in FROM are none."""
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
    above: list[exp.Expr] = []
    parent = node.parent
    while parent is not None and parent is not top:
        above.append(parent)
        parent = parent.parent
    return above


def _name_keys(query: exp.Select) -> dict[str, exp.Expr]:
    """The expressions of GROUP BY by the names of their columns; positions and aliases are read."""
    group = query.args.get("group")
    outputs = query.expressions
    by_alias = {output.alias.lower(): output for output in outputs if output.alias}
    keys: dict[str, exp.Expr] = {}
    for node in group.expressions if group is not None else []:
        named: exp.Expr = node
        if isinstance(node, exp.Literal) and not node.is_string:
            position = read_whole(node)
            if position is None or not 1 <= position <= len(outputs):
                raise _CannotSplit
            named = outputs[position - 1]
        elif isinstance(node, exp.Column) and not node.table and node.name.lower() in by_alias:
            named = by_alias[node.name.lower()]
        else:
            named = next((output for output in outputs if _strip_alias(output) == node), node)
        name = _name_output(named)
        if name in keys:
            raise _CannotSplit
        keys[name] = _strip_alias(named).copy()
    return keys


def _list_used(query: exp.Expr, names: _Names) -> list[exp.Expr]:
    """The definitions of WITH that a query uses, those that they use before them."""
    used: dict[str, exp.Expr] = {}
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if not table.db and name in names and name not in used:
            for definition in _list_used(names[name].query, names[name].names):
                used.setdefault(definition.alias.lower(), definition)
            used[name] = exp.CTE(this=names[name].query.copy(), alias=_write_alias(name))
    return list(used.values())


def _write_alias(name: str, columns: list[exp.Expr] | None = None) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name), columns=columns)
