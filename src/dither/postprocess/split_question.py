"""Splits a question into parts that are asked of the data and a statement over their answers.

    SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region

has one part, `SELECT region, COUNT(*) FROM orders GROUP BY region`; the rest is computed from its
answer, and costs nothing. An aggregate that is named twice is one column of one part: one noise.
A subquery that gives one number to a condition on rows is a part that is asked first; the part with
the condition is written once that number is known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import sqlglot
from sqlglot import exp

from dither.errors import QueryError
from dither.postprocess.allowed_functions import is_allowed
from dither.postprocess.modes import rewrite_mode
from dither.sql.names import name_output
from dither.sql.parse import parse, read_whole
from dither.sql.per_unit import contains_aggregate, is_aggregate

MOST_PARTS = 16
MOST_SELECTS = 200
"""How many SELECTs a statement may have, with every use of a definition written out."""


@dataclass(frozen=True)
class AskedNumber:
    """One number from answers: the name that stands for it in a part, and how it is computed."""

    name: str
    statement: str


@dataclass(frozen=True)
class SubQuestion:
    """A question of its own. Its answer is a table of this name for the statements after it."""

    name: str
    sql: str
    scalars: tuple[AskedNumber, ...] = ()


@dataclass(frozen=True)
class StatementColumn:
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

    subquestions: tuple[SubQuestion, ...]
    statement: str
    columns: tuple[StatementColumn, ...] | None
    """The outputs of a statement that reads one part row by row; None for any other."""


@dataclass(frozen=True)
class _Subquery:
    """The body of a subquery or WITH, and the names of WITH that it may use."""

    query: exp.Query
    names: _Names

    @cached_property
    def is_answer(self) -> bool:
        """Whether it has aggregates, or rows made from answers; looked up once for all who ask."""
        return _is_answer(self.query, self.names)


_Names: TypeAlias = Mapping[str, _Subquery]


class _CannotSplit(Exception):
    """Raised where a question cannot be split into parts and a statement."""


def split_question(sql: str, columns: Collection[str] = ()) -> SplitQuestion | None:
    """Split a question into parts that are asked of the data and a statement over their answers.

    None where that cannot be done, and the caller refuses the question: it computes nothing from
    answers, the statement would still read data, or it calls a function that is unknown or may turn
    a small answer into a large one, such as REPEAT. `columns` are the names of all columns of the
    catalog: an output that is named like one of them does not take its place.

    >>> split = split_question("SELECT a, RANK() OVER (ORDER BY COUNT(*)) AS r FROM t GROUP BY a")
    >>> [subquestion.sql for subquestion in split.subquestions]
    ['SELECT a AS a, COUNT(*) AS "COUNT(*)" FROM t GROUP BY a']
    >>> split.statement
    'SELECT "a" AS a, RANK() OVER (ORDER BY "COUNT(*)") AS r FROM part_1'
    """
    if _has_parameters(sql):
        return None
    splitter = _Splitter({name.lower() for name in columns})
    try:
        statement = splitter.rewrite(rewrite_mode(parse(sql).copy()), {})
    except (_CannotSplit, QueryError):
        return None
    reads_data = not all(map(_is_released, statement.find_all(exp.Table)))
    if not splitter.subquestions or not splitter.is_over_answers or reads_data:
        return None
    if not all(map(is_allowed, statement.walk())):
        return None
    return SplitQuestion(
        tuple(splitter.subquestions),
        statement.sql(dialect="duckdb"),
        splitter.list_columns(statement),
    )


def write_scalars(subquestion: SubQuestion, numbers: Mapping[str, str]) -> str:
    """The text of a part with its numbers in the place of their names."""
    query = parse(subquestion.sql)
    for node in list(query.find_all(exp.Parameter, exp.Placeholder)):
        node.replace(sqlglot.parse_one(numbers[node.name], read="duckdb"))
    return query.sql(dialect="duckdb")


class _Splitter:
    """Rewrites a question from the inside out, and keeps the parts that it meets."""

    def __init__(self, catalog_columns: set[str]) -> None:
        self.subquestions: list[SubQuestion] = []
        self.is_over_answers = False
        self._catalog_columns = catalog_columns
        self._keys: dict[str, set[str]] = {}
        self._selects = 0

    def rewrite(self, query: exp.Expr, names: _Names) -> exp.Query:
        """The query over answers that stands for a query over data."""
        query = _unwrap(query)
        names = _read_with(query, names)
        if isinstance(query, exp.SetOperation):
            self.is_over_answers = True
            for side in ("this", "expression"):
                operand = query.args[side]
                written = self.rewrite(operand, names)
                is_wrapped = isinstance(operand, exp.Subquery)
                query.set(side, exp.Subquery(this=written) if is_wrapped else written)
            return query
        self._selects += 1
        if not isinstance(query, exp.Select) or self._selects > MOST_SELECTS:
            raise _CannotSplit
        sources = _list_sources(query)
        answers = [_find_answer(source, names) for source in sources]
        if sources and all(answers):
            return self._read_answers(query, answers, names)
        if not sources or any(answers):
            raise _CannotSplit
        return self._ask_data(query, names)

    def list_columns(self, statement: exp.Expr) -> tuple[StatementColumn, ...] | None:
        """The outputs of a statement that shows one part row by row."""
        source = statement.args.get("from_")
        has_more = any(statement.args.get(clause) for clause in ("distinct", "group", "joins"))
        if not isinstance(statement, exp.Select) or has_more or source is None:
            return None
        if source.this.name not in self._keys:
            return None
        keys = self._keys[source.this.name]
        clauses = ("where", "qualify", "limit", "offset")
        chooses_rows = any(statement.args.get(clause) for clause in clauses)
        columns = []
        for output in statement.selects:
            output_node = _strip_alias(output)
            name = output_node.name if isinstance(output_node, exp.Column) else None
            is_key = name in keys
            source_name = None if chooses_rows and not is_key else name
            columns.append(StatementColumn(output.alias_or_name, source_name, is_key))
        return tuple(columns)

    def _read_answers(
        self, query: exp.Select, answers: list[_Subquery | None], names: _Names
    ) -> exp.Select:
        """A SELECT from answers: each is rewritten where it stands."""
        self.is_over_answers = True
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
        hidden = _list_hidden_aliases(
            query, self._catalog_columns | _list_inner_names(query, names)
        )
        keys = _name_keys(query, hidden)
        columns = _SubQuestionColumns(keys, query, hidden)
        scalars = self._ask_scalars(query, names)
        outputs = [
            _write_output(
                self._read_over_answer(_strip_alias(output), columns, names),
                _name_output(output, position),
            )
            for position, output in enumerate(query.expressions, 1)
        ]
        outer = exp.Select(expressions=outputs)
        having = query.args.get("having")
        if having is not None:
            outer = outer.where(self._read_over_answer(having.this, columns, names), copy=False)
        for clause in ("qualify", "limit", "offset"):
            node = query.args.get(clause)
            if node is not None:
                outer.set(clause, self._read_over_answer(node, columns, names))
        if query.args.get("order") is not None:
            outer.set("order", self._read_order(query, columns, names))
        if not columns.aggregates or columns.mistakes_an_alias():
            raise _CannotSplit
        subquestion = self._add_subquestion(query, columns, scalars, names)
        return outer.from_(_name_released(subquestion), copy=False)

    def _read_over_answer(
        self, node: exp.Expr, columns: _SubQuestionColumns, names: _Names
    ) -> exp.Expr:
        """An expression with the columns of the part in the place of keys and aggregates."""
        if isinstance(node, exp.Column) and node.name.lower() in columns.ambiguous:
            raise _CannotSplit
        if (key := columns.find_key(node)) is not None:
            return exp.column(key, quoted=True)
        self.is_over_answers |= isinstance(node, (exp.Subquery, exp.Window))
        if isinstance(node, exp.Subquery):
            return exp.Subquery(this=self.rewrite(node.this.copy(), names))
        if isinstance(node, (exp.Query, exp.Star, exp.Columns)):
            raise _CannotSplit
        if isinstance(node, exp.Column):
            if node.table or node.name.lower() not in columns.aliases:
                raise _CannotSplit
            columns.used_aliases.add(node.name.lower())
            return node.copy()
        is_window = isinstance(node, exp.Window)
        if is_aggregate(node):
            return exp.column(columns.add(node), quoted=True)
        copied = node.copy()
        for child in list(copied.iter_expressions()):
            if is_window and child is copied.this:
                for argument in list(child.iter_expressions()):
                    if isinstance(argument, exp.Star):
                        continue
                    argument.replace(self._read_over_answer(argument.copy(), columns, names))
                continue
            child.replace(self._read_over_answer(child.copy(), columns, names))
        return copied

    def _read_order(
        self, query: exp.Select, columns: _SubQuestionColumns, names: _Names
    ) -> exp.Expr:
        """ORDER BY over a part; the name of an output goes before that of a column."""
        outputs = {output.alias.lower() for output in query.expressions if output.alias}
        order: exp.Expr = query.args["order"].copy()
        for ordered in order.expressions:
            node = ordered.this
            is_name = isinstance(node, exp.Column) and not node.table
            if not (is_name and node.name.lower() in outputs):
                node.replace(self._read_over_answer(node.copy(), columns, names))
        return order

    def _ask_scalars(self, query: exp.Select, names: _Names) -> list[AskedNumber]:
        """The numbers that conditions on rows compare with: each is asked for before the part."""
        scalars: list[AskedNumber] = []
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
                scalar = AskedNumber(f"number_{len(scalars) + 1}", statement)
                scalars.append(scalar)
                self.is_over_answers = True
                subquery.replace(exp.Parameter(this=exp.Var(this=scalar.name)))
        return scalars

    def _add_subquestion(
        self,
        query: exp.Select,
        columns: _SubQuestionColumns,
        scalars: list[AskedNumber],
        names: _Names,
    ) -> str:
        """The question of a part, once for all who ask it."""
        question = query.copy()
        for clause in ("having", "qualify", "order", "limit", "offset", "distinct"):
            question.set(clause, None)
        question.set("expressions", columns.list_outputs())
        if columns.keys:
            question.set(
                "group", exp.Group(expressions=[key.copy() for key in columns.keys.values()])
            )
        used = _list_used(question, names)
        if used:
            question.set("with_", exp.With(expressions=used))
        text = question.sql(dialect="duckdb")
        for subquestion in self.subquestions:
            if subquestion.sql == text and subquestion.scalars == tuple(scalars):
                return subquestion.name
        if len(self.subquestions) >= MOST_PARTS:
            raise _CannotSplit
        name = f"part_{len(self.subquestions) + 1}"
        self.subquestions.append(SubQuestion(name, text, tuple(scalars)))
        self._keys[name] = set(columns.keys)
        return name


class _SubQuestionColumns:
    """The columns of a part: its keys, and the aggregates that are met while the rest is read."""

    def __init__(self, keys: dict[str, exp.Expr], query: exp.Select, hidden: set[str]) -> None:
        self.keys = keys
        self.aggregates: dict[str, exp.Expr] = {}
        self.aliases = {
            output.alias.lower(): output.this for output in query.expressions if output.alias
        }
        named = Counter(output.alias.lower() for output in query.expressions if output.alias)
        self.ambiguous = {name for name, count in named.items() if count > 1}
        for name in hidden:
            del self.aliases[name]
        self.used_aliases: set[str] = set()
        self._names = {
            _strip_alias(output): output.alias for output in query.expressions if output.alias
        }

    def find_key(self, node: exp.Expr) -> str | None:
        """The name of the key that an expression is."""
        for name, key in self.keys.items():
            if node == key:
                return name
        if not isinstance(node, exp.Column) or node.table:
            return None
        return next((name for name in self.keys if node.name.lower() == name.lower()), None)

    def add(self, aggregate: exp.Expr) -> str:
        """The name of the column of an aggregate: the asker's, or else its own text."""
        for name, known in self.aggregates.items():
            if known == aggregate:
                return name
        taken = {name.lower() for name in (*self.keys, *self.aggregates)}
        alias = self._names.get(aggregate)
        named: str = aggregate.sql(dialect="duckdb")
        if alias is not None and alias.lower() not in taken:
            named = alias
        if named.lower() in taken:
            raise _CannotSplit
        self.aggregates[named] = aggregate.copy()
        return named

    def mistakes_an_alias(self) -> bool:
        """Whether the name of an output that is used by another is that of a different column."""
        columns = {**self.keys, **self.aggregates}
        ends = {f"{name}{end}".lower() for name in columns for end in ("_low", "_high")}
        meanings = {name.lower(): node for name, node in columns.items()}
        return any(
            name in ends or meanings.get(name, self.aliases[name]) != self.aliases[name]
            for name in self.used_aliases
        )

    def list_outputs(self) -> list[exp.Expr]:
        """Keys, then aggregates, each under its name."""
        return [
            _write_output(node.copy(), name)
            for name, node in {**self.keys, **self.aggregates}.items()
        ]


def _has_parameters(sql: str) -> bool:
    """Whether a question names a number that it does not have."""
    try:
        return any(parse(sql).find_all(exp.Parameter, exp.Placeholder))
    except QueryError:
        return False


def _name_released(subquestion: str) -> exp.Table:
    """The table of a part's answer; a table of the same name in the question is another."""
    table = exp.to_table(subquestion)
    table.meta["released"] = True
    return table


def _is_released(table: exp.Table) -> bool:
    return bool(table.meta.get("released"))


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
    """The query in parentheses; what stands behind them has no place in what is written."""
    while isinstance(query, exp.Subquery):
        _check_clauses(query)
        query = query.this
    return query


def _check_clauses(source: exp.Expr) -> None:
    """A table or subquery by itself or with a name: no sample, PIVOT, ORDER BY, LIMIT or WITH."""
    if any(value for clause, value in source.args.items() if clause not in ("this", "alias")):
        raise _CannotSplit


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
    if not body.is_answer:
        return None
    _check_clauses(source)
    return body


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


def _list_hidden_aliases(query: exp.Select, columns: set[str]) -> set[str]:
    """The names of outputs that a column of FROM may have too: there they mean the column."""
    return {
        output.alias.lower()
        for output in query.expressions
        if output.alias.lower() in columns
        and not (
            isinstance(output.this, exp.Column) and output.this.name.lower() == output.alias.lower()
        )
    }


def _list_inner_names(query: exp.Select, names: _Names) -> set[str]:
    """The names that subqueries in FROM, and what they read, give to columns."""
    bodies = [*_list_sources(query), *_list_used(query, names)]
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


def _name_keys(query: exp.Select, hidden: set[str]) -> dict[str, exp.Expr]:
    """The expressions of GROUP BY by the names of their columns; positions and aliases are read.

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
                raise _CannotSplit
            named = outputs[position - 1]
        elif is_name and node.name.lower() in by_alias and node.name.lower() not in hidden:
            named = by_alias[node.name.lower()]
            if sum(output.alias.lower() == named.alias.lower() for output in outputs) > 1:
                raise _CannotSplit
        else:
            named = next((output for output in outputs if _strip_alias(output) == node), node)
        key = _strip_alias(named)
        name = key.name if isinstance(key, exp.Column) else _name_output(named)
        if name.lower() in hidden and not isinstance(key, exp.Column):
            name = key.sql(dialect="duckdb")
        if name.lower() in map(str.lower, keys):
            raise _CannotSplit
        keys[name] = key.copy()
    return keys


def _list_used(query: exp.Expr, names: _Names) -> list[exp.Expr]:
    """The definitions of WITH that a query uses, those that they use before them."""
    used: dict[str, _Subquery] = {}
    _collect_used(query, names, used)
    for name, definition in used.items():
        read = {table.name.lower() for table in definition.query.find_all(exp.Table)}
        if (read - {name} - set(definition.names)) & set(used):
            raise _CannotSplit
    return [
        exp.CTE(this=definition.query.copy(), alias=_write_alias(name))
        for name, definition in used.items()
    ]


def _collect_used(query: exp.Expr, names: _Names, used: dict[str, _Subquery]) -> None:
    """Add the definitions that a query uses; a name that means two of them cannot be written."""
    for table in query.find_all(exp.Table):
        name = table.name.lower()
        if table.db or name not in names or used.get(name) is names[name]:
            continue
        _collect_used(names[name].query, names[name].names, used)
        if name in used:
            raise _CannotSplit
        used[name] = names[name]


def _write_alias(name: str, columns: list[exp.Expr] | None = None) -> exp.TableAlias:
    return exp.TableAlias(this=exp.to_identifier(name), columns=columns)
