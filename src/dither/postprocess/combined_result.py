"""The result of a question over answers: the table that was computed, and the answers behind it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any, NoReturn, TypeAlias, cast

import pyarrow as pa
import sqlglot
from sqlglot import exp

from dither.answer.column_info import ResultColumn
from dither.answer.intervals import read_level
from dither.answer.release_info import ABOUT_NOBODY
from dither.answer.result import Result
from dither.canonical import Number, fraction_text
from dither.errors import ParameterError, QueryError
from dither.postprocess.locked_engine import run_statement
from dither.postprocess.plain_selection import select_plain_columns
from dither.postprocess.query_tree import PUBLIC_PREFIX
from dither.postprocess.split_question import AskedNumber, SplitQuestion
from dither.postprocess.stabilised_averages import (
    STABILISED,
    can_be_stabilised,
    stabilise_averages,
)
from dither.privacy.kernel.kernel import Release
from dither.question.recipe import Recipe

PublicRows: TypeAlias = Mapping[str, pa.Table]
NO_ROWS: PublicRows = {}
UNDEFINED = "NULLIF(0, 0)"
"""NULL as a number: NULL itself is refused in conditions."""
_NUMBERS = (pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal, pa.types.is_null)
WITHOUT_INTERVAL = "computed from noisy answers: it has their noise, and no interval of its own"


@dataclass(frozen=True, repr=False)
class CombinedResult(Result):
    """A table computed from the answers of several questions, or from those of one.

    A column that shows a column of an answer as it is has the interval of that column; any other
    has none.
    """

    answers: tuple[Result, ...] = ()
    _split: SplitQuestion | None = field(default=None, repr=False)
    _public_rows: PublicRows = field(default_factory=dict, repr=False)

    @cached_property
    def table(self) -> pa.Table:
        """The rows that were computed from the answers, with the intervals that are known."""
        return self._add_metadata(_compute_table(self.split, self.answers, self._public_rows))

    @property
    def split(self) -> SplitQuestion:
        """The parts of the question, and the statement over their answers."""
        assert self._split is not None
        return self._split

    @cached_property
    def columns(self) -> tuple[ResultColumn, ...]:
        """Every column of the table: its role, noise, limits and notes."""
        names = set(self.table.column_names)
        described: list[ResultColumn] = []
        for column in self.split.columns or ():
            source_column = _find_source(self.answers[-1], column.source)
            role = "key" if column.is_key else "value"
            if source_column is not None and f"{column.name}_low" in names:
                ends = ("", "_low", "_high")
                described += [_rename(source_column, f"{column.name}{end}", end) for end in ends]
                continue
            notes = () if column.is_key else (WITHOUT_INTERVAL,)
            described.append(
                ResultColumn(column.name, role, notes=notes, limits=self._limits)  # type: ignore[arg-type]
            )
        if not described:
            return tuple(
                ResultColumn(name, "value", notes=(WITHOUT_INTERVAL,), limits=self._limits)
                for name in self.table.column_names
            )
        return tuple(described)

    @property
    def _limits(self) -> tuple[str, ...]:
        """What was limited in the rows behind any of the answers."""
        columns = (column for answer in self.answers for column in answer.columns)
        return tuple(dict.fromkeys(limit for column in columns for limit in column.limits))

    def _values(self) -> pa.Table:
        values = [column.name for column in self.columns if column.role in ("key", "value")]
        return self.table.select(values)

    def interval(self, level: Number) -> Result:
        """The same answers with intervals at another level; free, since nothing new leaves."""
        answers = tuple(answer.interval(level) for answer in self.answers)
        return make_combined_result(
            self.split, answers, read_level(level), self.info, self._public_rows
        )

    @cached_property
    def raw(self) -> pa.Table:
        """Refused: the answers have it, each its own."""
        _refuse("raw")

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """Refused: the answers have one each."""
        _refuse("certificate()")

    def opening(self, file: str | Path | None = None) -> dict[str, Any]:
        """Refused: the answers have one each."""
        _refuse("opening()")

    def nonnegative(self, *columns: str) -> Result:
        """Refused: it is done to answers."""
        _refuse("nonnegative()")

    def consistent(self) -> Result:
        """Refused: it is done to answers."""
        _refuse("consistent()")

    def explain(self) -> str:
        """Explain each answer in words, and what was computed from them."""
        lines = [f"Question: {self.info['sql'].strip()}"]
        for answer, subquestion in zip(self.answers, self.split.subquestions, strict=True):
            lines += ["", f"{subquestion.name}:", answer.explain()]
        return "\n".join([*lines, "", f"Computed from these: {self.split.statement}"])


def make_combined_result(
    split: SplitQuestion,
    answers: Sequence[Result],
    level: Fraction,
    info: dict[str, Any],
    public_rows: PublicRows = NO_ROWS,
) -> CombinedResult:
    """Make the result of a question over the answers of its subquestions."""
    no_release = cast(Release, None)
    no_recipe = cast(Recipe, None)
    notes = [ABOUT_NOBODY] if any(ABOUT_NOBODY in answer.notes for answer in answers) else []
    if _has_stabilised(split, answers):
        notes.append(STABILISED)
    return CombinedResult(
        info,
        no_release,
        no_recipe,
        level,
        notes=tuple(notes),
        answers=tuple(answers),
        _split=split,
        _public_rows=public_rows,
    )


def _has_stabilised(split: SplitQuestion, answers: Sequence[Result]) -> bool:
    """Whether averages were stabilised before they were written into a condition."""
    depends = any(
        scalar.case is not None
        for subquestion in split.subquestions
        for scalar in subquestion.scalars
    )
    return depends and any(map(can_be_stabilised, answers[:-1]))


def name_public_rows(tables: Sequence[str], read: Callable[[str], pa.Table]) -> PublicRows:
    """The rows of public tables under the names that statements have for them."""
    return {f"{PUBLIC_PREFIX}{table}": read(table) for table in tables}


def list_public_values(
    read: Callable[[str], pa.Table], table: str, column: str, condition: str
) -> list[str]:
    """The different values of a public column in the rows that meet a condition, as SQL."""
    name = f"{PUBLIC_PREFIX}{table}"
    statement = (
        exp.select(exp.column(column, quoted=True))
        .distinct()
        .from_(name)
        .where(condition, dialect="duckdb")
        .order_by("1")
    )
    needed = {reference.name.lower() for reference in statement.find_all(exp.Column)}
    rows = read(table)
    rows = rows.select([column for column in rows.column_names if column.lower() in needed])
    values = run_statement(statement.sql(dialect="duckdb"), {name: rows}).column(0)
    return [
        exp.convert(value).sql(dialect="duckdb")
        for value in values.to_pylist()
        if value is not None
    ]


def describe_charges(sql: str, answers: Sequence[Result]) -> dict[str, Any]:
    """Write what a question over answers says about itself: its text, and what all answers cost."""
    first = answers[0].info
    shared = ("dataset", "lineage", "version", "context", "mode", "pot", "rule", "measure", "unit")
    charges: dict[str, list[Fraction]] = {}
    for answer in answers:
        for pot, taken in answer.info["charges"].items():
            before = charges.get(pot, [Fraction(0), Fraction(0)])
            charges[pot] = [
                total + Fraction(more) for total, more in zip(before, taken, strict=True)
            ]
    return {
        **{key: first[key] for key in (*shared, "neighbours", "price_in", "unprotected")},
        "sql": sql,
        "repeated": all(answer.info["repeated"] for answer in answers),
        "charged": fraction_text(
            sum((Fraction(answer.info["charged"]) for answer in answers), Fraction(0))
        ),
        "charges": {pot: list(map(fraction_text, taken)) for pot, taken in charges.items()},
        "answers": [answer.info for answer in answers],
        **({"about": first["about"]} if "about" in first else {}),
    }


def compute_number(
    scalar: AskedNumber, answers: Mapping[str, Result], public_rows: PublicRows = NO_ROWS
) -> str:
    """Compute the number that a statement gives over answers, as it is written in SQL.

    Where there is one for each value of a public column, they are written as a CASE. Averages are
    stabilised then: those of small groups would choose rows by their noise.

    A number that is undefined, or that no row has, is NULL: its answer is paid for already, and the
    conditions with it are unknown, as in SQL. What is no number is refused in the rehearsal.
    """
    tables = {
        name: answer.table if scalar.case is None else stabilise_averages(answer)
        for name, answer in answers.items()
    }
    numbers = compute_numbers(scalar, {**tables, **public_rows})
    if scalar.case is not None:
        return scalar.case.write(numbers, UNDEFINED)
    return numbers.get(0, UNDEFINED)


def compute_numbers(scalar: AskedNumber, tables: Mapping[str, pa.Table]) -> dict[int, str]:
    """The numbers that a statement gives over tables, as they are written in SQL, by the position
    of their value of a public column; one without such a column has the position 0."""
    table = _compute_rows(scalar.statement, tables)
    kind = table.schema.types[-1]
    is_number = any(holds(kind) for holds in _NUMBERS)
    if not is_number or (scalar.case is None and table.num_rows > 1):
        raise ParameterError(
            "rows are compared with a number, and the subquery gives something else: ask for it as "
            "a question of its own, and write it into the condition"
        )
    if scalar.case is None:
        return dict(enumerate(map(_write_number, table.column(0).to_pylist())))
    codes, values = (column.to_pylist() for column in table.columns)
    return {
        int(code): _write_number(value)
        for code, value in zip(codes, values, strict=True)
        if code is not None
    }


def _write_number(value: Any) -> str:
    if value is None or not math.isfinite(value):
        return UNDEFINED
    written = f"{value:.6f}" if isinstance(value, float) else f"{value:f}"
    return f"({written})" if value < 0 else written


def _compute_table(
    split: SplitQuestion, answers: Sequence[Result], public_rows: PublicRows
) -> pa.Table:
    """Run the statement over the tables of the answers and over public rows.

    Raises QueryError where two columns would have one name.
    """
    tables = {
        subquestion.name: answer.table
        for subquestion, answer in zip(split.subquestions, answers, strict=True)
        if subquestion.name in split.statement
    }
    table = _compute_rows(_add_intervals(split, tables), {**tables, **public_rows})
    names = [name.lower() for name in table.column_names]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise QueryError(f"two columns would be called {twice}: rename one with AS")
    return table


def _compute_rows(statement: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """Compute the rows of a statement, by the engine where it does more than pick columns."""
    rows = select_plain_columns(statement, tables)
    return run_statement(statement, tables) if rows is None else rows


def _add_intervals(split: SplitQuestion, tables: Mapping[str, pa.Table]) -> str:
    """Add to the statement the ends of the intervals of columns that it shows as they are."""
    if split.columns is None:
        return split.statement
    statement = sqlglot.parse_one(split.statement, read="duckdb")
    assert isinstance(statement, exp.Select)
    names = tables[statement.args["from_"].this.name].column_names
    outputs: list[exp.Expr] = []
    for output, column in zip(statement.selects, split.columns, strict=True):
        outputs.append(output)
        for end in ("_low", "_high"):
            if not column.is_key and f"{column.source}{end}" in names:
                source = exp.column(f"{column.source}{end}", quoted=True)
                outputs.append(exp.alias_(source, f"{column.name}{end}", quoted=True))
    statement.set("expressions", outputs)
    return statement.sql(dialect="duckdb")


def _find_source(answer: Result, name: str | None) -> ResultColumn | None:
    return next((column for column in answer.columns if column.name == name), None)


def _rename(column: ResultColumn, name: str, end: str) -> ResultColumn:
    role: Any = {"": "value", "_low": "low", "_high": "high"}[end]
    return replace(column, name=name, role=role, steps=())


def _refuse(what: str) -> NoReturn:
    raise ParameterError(
        f"{what} is of an answer, and this table was computed from answers: take it from each, as "
        f"in result.answers[0].{what}"
    )
