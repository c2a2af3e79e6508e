"""Splits a question into parts that are asked of the data and a statement over their answers.

    SELECT region, COUNT(*) / SUM(COUNT(*)) OVER () AS share FROM orders GROUP BY region

has one part, `SELECT region, COUNT(*) FROM orders GROUP BY region`; the rest is computed from its
answer, and costs nothing. An aggregate that is named twice is one column of one part: one noise.
A subquery that gives one number to a condition on rows is a part that is asked first; the part with
the condition is written once that number is known.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property

from sqlglot import exp

from dither.errors import QueryError
from dither.postprocess.allowed_functions import is_allowed
from dither.postprocess.correlated_numbers import (
    CaseOfNumbers,
    ListValues,
    ask_by_outer_column,
    reads_public_alone,
    uses_outer_row,
)
from dither.postprocess.modes import rewrite_mode
from dither.postprocess.named_windows import write_named_windows
from dither.postprocess.query_tree import (
    CannotSplit,
    Names,
    Subquery,
    check_clauses,
    find_answer,
    has_parameters,
    is_released,
    list_hidden_aliases,
    list_inner_names,
    list_row_conditions,
    list_sources,
    list_subqueries,
    list_used,
    name_keys,
    name_public,
    name_released,
    name_statement_output,
    read_with,
    strip_alias,
    unwrap,
    write_alias,
    write_output,
)
from dither.postprocess.subquestion_columns import SubQuestionColumns
from dither.sql.parse import parse
from dither.sql.per_unit import contains_aggregate, is_aggregate
from dither.sql.rewrites.unnest_lists import write_lists

NO_TABLES: Mapping[str, Collection[str]] = {}
MOST_PARTS = 16
MOST_SELECTS = 200
"""How many SELECTs a statement may have, with every use of a definition written out."""


@dataclass(frozen=True)
class AskedNumber:
    """One number from answers: the name that stands for it in a part, and how it is computed."""

    name: str
    statement: str
    case: CaseOfNumbers | None = None
    """Set where the statement gives one number for each value of a public column."""


@dataclass(frozen=True)
class SubQuestion:
    """A question of its own. Its answer is a table of this name for the statements after it."""

    name: str
    sql: str
    scalars: tuple[AskedNumber, ...] = ()

    @cached_property
    def cut_text(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The texts before, between and behind its numbers, and the names of the numbers.

        Kept with the part, and so with one connection: nobody can time what others ask.
        """
        query = parse(self.sql)
        mark = "dither_number"
        while mark in self.sql.lower():
            mark += "_"
        nodes = list(query.find_all(exp.Parameter, exp.Placeholder))
        names = [node.name for node in nodes]
        for position, node in enumerate(nodes):
            node.replace(exp.column(f"{mark}{position}n"))
        texts = re.split(rf"{mark}(\d+)n", query.sql(dialect="duckdb"))
        return tuple(texts[::2]), tuple(names[int(position)] for position in texts[1::2])


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
    public_tables: tuple[str, ...] = ()
    """The public tables whose rows the statements read beside the answers."""


def split_question(
    sql: str,
    tables: Mapping[str, Collection[str]] = NO_TABLES,
    public_tables: Collection[str] = (),
    list_values: ListValues | None = None,
) -> SplitQuestion | None:
    """Split a question into parts that are asked of the data and a statement over their answers.

    None where that cannot be done, and the caller refuses the question: it computes nothing from
    answers, the statement would still read data, or it calls a function that is unknown or may turn
    a small answer into a large one, such as REPEAT. `tables` are the columns of each table of the
    catalog, in small letters: an output that is named like one of them does not take its place.
    A subquery over `public_tables` alone in a condition on rows stays where it is. Answers may be
    joined to public tables; `list_values` reads the values of a public column that a number in a
    condition depends on.

    >>> split = split_question("SELECT a, RANK() OVER (ORDER BY COUNT(*)) AS r FROM t GROUP BY a")
    >>> [subquestion.sql for subquestion in split.subquestions]
    ['SELECT a AS a, COUNT(*) AS "COUNT(*)" FROM t GROUP BY a']
    >>> split.statement
    'SELECT "a" AS a, RANK() OVER (ORDER BY "COUNT(*)") AS r FROM part_1'
    """
    if has_parameters(sql):
        return None
    splitter = _Splitter(tables, public_tables, list_values)
    try:
        question = write_named_windows(rewrite_mode(write_lists(parse(sql).copy())))
        statement = splitter.rewrite(question, {})
    except (CannotSplit, QueryError):
        return None
    reads_data = not all(map(is_released, statement.find_all(exp.Table)))
    if not splitter.subquestions or not splitter.is_over_answers or reads_data:
        return None
    if not all(map(is_allowed, statement.walk())):
        return None
    return SplitQuestion(
        tuple(splitter.subquestions),
        statement.sql(dialect="duckdb"),
        splitter.list_columns(statement),
        tuple(sorted(splitter.public_reads)),
    )


def write_scalars(subquestion: SubQuestion, numbers: Mapping[str, str]) -> str:
    """The text of a part with its numbers in the place of their names."""
    texts, names = subquestion.cut_text
    written = [*(numbers[name] for name in names), ""]
    return "".join(text for pair in zip(texts, written, strict=True) for text in pair)


class _Splitter:
    """Rewrites a question from the inside out, and keeps the parts that it meets."""

    def __init__(
        self,
        table_columns: Mapping[str, Collection[str]],
        public_tables: Collection[str],
        list_values: ListValues | None,
    ) -> None:
        self.subquestions: list[SubQuestion] = []
        self.is_over_answers = False
        self.public_reads: set[str] = set()
        self._list_values = list_values
        self._table_columns = table_columns
        self._public_tables = frozenset(public_tables)
        self._catalog_columns = {name for names in table_columns.values() for name in names}
        self._keys: dict[str, set[str]] = {}
        self._selects = 0

    def rewrite(self, query: exp.Expr, names: Names) -> exp.Query:
        """Rewrite a query over data as a query over answers; parts that need data are noted.

        Raises CannotSplit where that is not possible.
        """
        query = unwrap(query)
        names = read_with(query, names)
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
            raise CannotSplit
        sources = list_sources(query)
        answers = [find_answer(source, names) for source in sources]
        is_computed = not sources and bool(list_subqueries(query))
        if is_computed or (sources and all(answers)) or self._joins_public(sources, answers, names):
            return self._read_answers(query, answers, names)
        if not sources or any(answers):
            raise CannotSplit
        return self._ask_data(query, names)

    def list_columns(self, statement: exp.Expr) -> tuple[StatementColumn, ...] | None:
        """List the outputs of a statement that shows one part row by row; None for any other."""
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
            output_node = strip_alias(output)
            name = output_node.name if isinstance(output_node, exp.Column) else None
            is_key = name in keys
            source_name = None if chooses_rows and not is_key else name
            columns.append(StatementColumn(output.alias_or_name, source_name, is_key))
        return tuple(columns)

    def _read_answers(
        self, query: exp.Select, answers: list[Subquery | None], names: Names
    ) -> exp.Select:
        """Rewrite a SELECT from answers: each is rewritten where it stands."""
        self.is_over_answers = True
        for source, answer in zip(list_sources(query), answers, strict=True):
            alias = source.alias_or_name
            if answer is None:
                self.public_reads.add(source.name.lower())
                public_rows = name_public(source.name.lower())
                public_rows.set("alias", write_alias(alias))
                source.replace(public_rows)
                continue
            body = self.rewrite(answer.query.copy(), answer.names)
            columns = source.args["alias"].args.get("columns") if source.args.get("alias") else None
            named = write_alias(alias, columns) if alias else None
            source.replace(exp.Subquery(this=body, alias=named))
        for subquery in list_subqueries(query):
            subquery.replace(exp.Subquery(this=self.rewrite(subquery.this, names)))
        if any(node.args.get("query") for node in query.find_all(exp.In)):
            raise CannotSplit
        return query

    def _joins_public(
        self, sources: list[exp.Expr], answers: list[Subquery | None], names: Names
    ) -> bool:
        """Whether a SELECT reads answers, and beside them public tables by themselves."""
        others = [source for source, answer in zip(sources, answers, strict=True) if answer is None]
        for source in others:
            is_table = isinstance(source, exp.Table) and not source.db
            if not is_table or source.name.lower() in names:
                return False
            if source.name.lower() not in self._public_tables:
                return False
            check_clauses(source)
        return len(others) < len(sources)

    def _ask_data(self, query: exp.Select, names: Names) -> exp.Select:
        """Rewrite a SELECT from tables: its keys and aggregates are a part, the rest reads its
        answer."""
        group = query.args.get("group")
        has_sets = group is not None and any(
            value for key, value in group.args.items() if key != "expressions"
        )
        if query.args.get("distinct") or has_sets:
            raise CannotSplit
        hidden = list_hidden_aliases(query, self._catalog_columns | list_inner_names(query, names))
        keys = name_keys(query, hidden)
        columns = SubQuestionColumns(keys, query, hidden)
        scalars = self._ask_scalars(query, names)
        outputs = [
            write_output(
                self._read_over_answer(strip_alias(output), columns, names),
                name_statement_output(output, position),
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
            raise CannotSplit
        subquestion = self._add_subquestion(query, columns, scalars, names)
        return outer.from_(name_released(subquestion), copy=False)

    def _read_over_answer(
        self, node: exp.Expr, columns: SubQuestionColumns, names: Names
    ) -> exp.Expr:
        """Put the columns of the part in the place of keys and aggregates of an expression."""
        if isinstance(node, exp.Column) and node.name.lower() in columns.ambiguous:
            raise CannotSplit
        if (key := columns.find_key(node)) is not None:
            return exp.column(key, quoted=True)
        self.is_over_answers |= isinstance(node, (exp.Subquery, exp.Window))
        if isinstance(node, exp.Subquery):
            return exp.Subquery(this=self.rewrite(node.this.copy(), names))
        if isinstance(node, (exp.Query, exp.Star, exp.Columns)):
            raise CannotSplit
        if isinstance(node, exp.Column):
            if node.table or node.name.lower() not in columns.aliases:
                raise CannotSplit
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

    def _read_order(self, query: exp.Select, columns: SubQuestionColumns, names: Names) -> exp.Expr:
        """Rewrite ORDER BY over a part; the name of an output goes before that of a column."""
        outputs = {output.alias.lower() for output in query.expressions if output.alias}
        order: exp.Expr = query.args["order"].copy()
        for ordered in order.expressions:
            node = ordered.this
            is_name = isinstance(node, exp.Column) and not node.table
            if not (is_name and node.name.lower() in outputs):
                node.replace(self._read_over_answer(node.copy(), columns, names))
        return order

    def _ask_scalars(self, query: exp.Select, names: Names) -> list[AskedNumber]:
        """Ask for the numbers that conditions on rows compare with, each before the part."""
        scalars: list[AskedNumber] = []
        for clause in list_row_conditions(query):
            for subquery in list_subqueries(clause):
                body = unwrap(subquery.this)
                is_number = (
                    isinstance(body, exp.Select)
                    and len(body.expressions) == 1
                    and not body.args.get("group")
                    and contains_aggregate(body.expressions[0])
                )
                if not is_number or reads_public_alone(body, self._public_tables):
                    continue
                case = None
                if uses_outer_row(body, self._table_columns):
                    if self._list_values is None:
                        raise CannotSplit
                    body, case = ask_by_outer_column(
                        body, query, self._table_columns, self._public_tables, self._list_values
                    )
                statement = self.rewrite(body.copy(), names).sql(dialect="duckdb")
                scalar = AskedNumber(f"number_{len(scalars) + 1}", statement, case)
                scalars.append(scalar)
                self.is_over_answers = True
                subquery.replace(exp.Parameter(this=exp.Var(this=scalar.name)))
        return scalars

    def _add_subquestion(
        self,
        query: exp.Select,
        columns: SubQuestionColumns,
        scalars: list[AskedNumber],
        names: Names,
    ) -> str:
        """Note the question of a part, once for all who ask it, and return its name."""
        question = query.copy()
        for clause in ("having", "qualify", "order", "limit", "offset", "distinct"):
            question.set(clause, None)
        question.set("expressions", columns.list_outputs())
        if columns.keys:
            question.set(
                "group", exp.Group(expressions=[key.copy() for key in columns.keys.values()])
            )
        used = list_used(question, names)
        if used:
            question.set("with_", exp.With(expressions=used))
        text = question.sql(dialect="duckdb")
        for subquestion in self.subquestions:
            if subquestion.sql == text and subquestion.scalars == tuple(scalars):
                return subquestion.name
        if len(self.subquestions) >= MOST_PARTS:
            raise CannotSplit
        name = f"part_{len(self.subquestions) + 1}"
        self.subquestions.append(SubQuestion(name, text, tuple(scalars)))
        self._keys[name] = set(columns.keys)
        return name
