"""Questions built step by step in Python; each makes exactly the plans that the same SQL makes.

A `Question` is an immutable value that renders SQL text and goes through the same binder, so there
is one meaning and one set of refusals. Columns and conditions are SQL expressions as text.

>>> from dither.builder import avg, count, table
>>> busy = table("visits").where("age >= 18").group_by("ward").agg(n=count(), cost=avg("cost"))
>>> print(busy.sql)
SELECT ward, COUNT(*) AS n, AVG(cost) AS cost FROM visits WHERE (age >= 18) GROUP BY ward
>>> busy.order_by("n DESC").limit(3).sql.split(" GROUP BY ")[1]
'ward ORDER BY n DESC LIMIT 3'
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from sqlglot import exp

from dither.canonical import Number, exact, number_text, quote, shorten
from dither.errors import ParameterError, QueryError
from dither.pages.html import write_element
from dither.sql.parse import parse_trees

if TYPE_CHECKING:
    from dither.answer.preview import Preview
    from dither.answer.result import Result

__all__ = [
    "Aggregate",
    "Question",
    "avg",
    "count",
    "count_distinct",
    "median",
    "quantile",
    "stddev",
    "sum",
    "table",
    "variance",
]


class Asker(Protocol):
    """What a question needs of a connection: something that takes SQL."""

    @property
    def preview(self) -> Callable[..., Preview]:
        """Price and error of a question."""

    @property
    def sql(self) -> Callable[..., Any]:
        """The answer to a question."""


@dataclass(frozen=True)
class Aggregate:
    """An aggregate as SQL text; aggregates combine by + - * / with each other and with numbers."""

    sql: str

    def where(self, condition: str) -> Aggregate:
        """Only the rows that meet the condition count.

        >>> count().where("urgent").sql
        'COUNT(*) FILTER (WHERE urgent)'
        """
        return Aggregate(f"{self.sql} FILTER (WHERE {_check_expression(condition, 'a condition')})")

    def _combine(self, sign: str, operand: Any, swapped: bool = False) -> Aggregate:
        text = operand.sql if isinstance(operand, Aggregate) else _write_literal(operand)
        left, right = (text, self.sql) if swapped else (self.sql, text)
        return Aggregate(f"({left} {sign} {right})")

    def __add__(self, other: Any) -> Aggregate:
        return self._combine("+", other)

    def __sub__(self, other: Any) -> Aggregate:
        return self._combine("-", other)

    def __mul__(self, other: Any) -> Aggregate:
        return self._combine("*", other)

    def __truediv__(self, other: Any) -> Aggregate:
        return self._combine("/", other)

    def __rmul__(self, other: Any) -> Aggregate:
        return self._combine("*", other, swapped=True)

    def __radd__(self, other: Any) -> Aggregate:
        return self._combine("+", other, swapped=True)


def count(column: str | None = None) -> Aggregate:
    """Rows, or rows where the column is not null."""
    return Aggregate("COUNT(*)") if column is None else _write_call("COUNT", column)


def count_distinct(column: str) -> Aggregate:
    """Different values of the column."""
    return Aggregate(f"COUNT(DISTINCT {_check_expression(column, 'a column')})")


def sum(column: str) -> Aggregate:
    """The sum of a bounded column."""
    return _write_call("SUM", column)


def avg(column: str) -> Aggregate:
    """The average: a sum over a count."""
    return _write_call("AVG", column)


def median(column: str) -> Aggregate:
    """The middle value."""
    return _write_call("MEDIAN", column)


def quantile(column: str, share: Number) -> Aggregate:
    """The value that a share of the rows does not exceed.

    >>> quantile("cost", 0.9).sql
    'QUANTILE_CONT(cost, 0.9)'
    """
    exact_share = exact(share, "share")
    if not 0 <= exact_share <= 1:
        raise ParameterError(f"a share lies in [0, 1], got {number_text(exact_share)}")
    return Aggregate(
        f"QUANTILE_CONT({_check_expression(column, 'a column')}, {_write_literal(share)})"
    )


def variance(column: str) -> Aggregate:
    """The sample variance."""
    return _write_call("VARIANCE", column)


def stddev(column: str) -> Aggregate:
    """The sample standard deviation."""
    return _write_call("STDDEV", column)


@dataclass(frozen=True)
class Question:
    """A question under construction; every method returns a new one."""

    source: str
    _con: Asker | None = field(default=None, repr=False, compare=False)
    _where: tuple[str, ...] = ()
    _keys: tuple[str, ...] = ()
    _values: tuple[tuple[str, Aggregate], ...] = ()
    _having: tuple[str, ...] = ()
    _order: tuple[str, ...] = ()
    _limit: int | None = None

    def join(self, other: str, *, using: str | tuple[str, ...]) -> Question:
        """With the rows of another table that have the same values in `using`."""
        if not isinstance(using, (str, tuple, list)):
            raise ParameterError(
                f"using names columns, as in using='patient_id', got {type(using).__name__}"
            )
        keys = (using,) if isinstance(using, str) else tuple(using)
        names = ", ".join(_quote_name(key) for key in keys)
        return replace(self, source=f"{self.source} JOIN {_quote_name(other)} USING ({names})")

    def where(self, *conditions: str) -> Question:
        """Only rows that meet every condition."""
        return replace(
            self,
            _where=(*self._where, *(_check_expression(text, "a condition") for text in conditions)),
        )

    def group_by(self, *keys: str) -> Question:
        """One answer for every value of the keys."""
        return replace(
            self, _keys=(*self._keys, *(_check_expression(key, "a key") for key in keys))
        )

    def agg(self, **named: Aggregate) -> Question:
        """What to compute, under the names to show it by."""
        for name, value in named.items():
            if not isinstance(value, Aggregate):
                raise ParameterError(
                    f"{name} must be an aggregate such as count() or sum('cost'), got "
                    f"{quote(value)}"
                )
        return replace(self, _values=(*self._values, *named.items()))

    def having(self, *conditions: str) -> Question:
        """Only answers whose noisy values meet every condition."""
        return replace(
            self,
            _having=(
                *self._having,
                *(_check_expression(text, "a condition") for text in conditions),
            ),
        )

    def order_by(self, *columns: str) -> Question:
        """By noisy values or keys; 'n DESC' for the largest first."""
        return replace(self, _order=(*self._order, *(_check_order(text) for text in columns)))

    def limit(self, rows: int) -> Question:
        """At most so many rows of the answer."""
        if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows < 2**63:
            raise ParameterError(
                f"limit is a number of rows below 2**63, got {type(rows).__name__}"
            )
        return replace(self, _limit=rows)

    @property
    def sql(self) -> str:
        """The same question as SQL."""
        if not self._values:
            raise ParameterError("say what to compute: .agg(n=count())")
        columns = [
            *self._keys,
            *(f"{value.sql} AS {_quote_name(name)}" for name, value in self._values),
        ]
        text = f"SELECT {', '.join(columns)} FROM {self.source}"
        text += f" WHERE {_join_conditions(self._where)}" if self._where else ""
        text += f" GROUP BY {', '.join(self._keys)}" if self._keys else ""
        text += f" HAVING {_join_conditions(self._having)}" if self._having else ""
        text += f" ORDER BY {', '.join(self._order)}" if self._order else ""
        return text + (f" LIMIT {self._limit}" if self._limit is not None else "")

    def _repr_html_(self) -> str:
        return write_element("pre", self.sql if self._values else self.source)

    def preview(self, **terms: Any) -> Preview:
        """Price and error; reads no data. Takes what `Connection.preview` takes."""
        return self._require_connection().preview(self.sql, **terms)

    def ask(self, **terms: Any) -> Result:
        """The answer, paid from the pot. Takes what `Connection.sql` takes."""
        result: Any = self._require_connection().sql(self.sql, **terms)
        return result  # type: ignore[no-any-return]

    def _require_connection(self) -> Asker:
        """Return the connection of the question. Raises ParameterError where it has none."""
        if self._con is None:
            raise ParameterError(
                "this question belongs to no connection: start it with con.table(...)"
            )
        return self._con


def table(name: str, con: Asker | None = None) -> Question:
    """A question about a table; `con.table(...)` starts one that can be asked."""
    return Question(_quote_name(name), con)


def _write_call(function: str, column: str) -> Aggregate:
    return Aggregate(f"{function}({_check_expression(column, 'a column')})")


def _join_conditions(conditions: tuple[str, ...]) -> str:
    return " AND ".join(f"({condition})" for condition in conditions)


def _write_literal(value: Any) -> str:
    """Write a number as it stands in SQL. Raises ParameterError for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ParameterError(
            f"an aggregate combines with aggregates and numbers, got {quote(value)}"
        )
    exact(value, "a number beside an aggregate")
    return repr(value)


def _quote_name(text: str) -> str:
    """Write a name as it is, or quoted where SQL needs it.

    Raises ParameterError for a name with quotes.
    """
    if not isinstance(text, str) or not text or '"' in text:
        raise ParameterError(f"a name is a text without quotes, got {quote(text)}")
    plain = (
        text.isidentifier()
        and text.isascii()
        and _parses_as(text, lambda node: isinstance(node, exp.Column))
    )
    return text if plain else f'"{text}"'


def _check_expression(text: str, what: str) -> str:
    """Return the text, if it is one SQL expression that stays one inside parentheses.

    Raises QueryError or ParameterError where it is not; `what` names it there.
    """
    if not isinstance(text, str) or not text.strip():
        raise ParameterError(f"{what} is SQL text such as 'age >= 18', got {quote(text)}")
    if "--" in text or "/*" in text or ";" in text:
        raise QueryError(f"{what} has no comments and no semicolons: {shorten(text)!r}")
    if not _parses_as(f"({text})", lambda node: isinstance(node, exp.Paren)):
        raise QueryError(f"{what} must be one SQL expression, got {shorten(text)!r}")
    return text.strip()


def _check_order(text: str) -> str:
    column, _, direction = text.strip().rpartition(" ") if isinstance(text, str) else ("", "", "")
    if column and direction.upper() in ("ASC", "DESC"):
        return f"{_check_expression(column, 'a column')} {direction.upper()}"
    return _check_expression(text, "a column")


def _parses_as(text: str, holds: Callable[[exp.Expr], bool]) -> bool:
    """Whether sqlglot reads the text as an expression of which `holds` is true."""
    try:
        trees = parse_trees(f"SELECT {text}")
    except QueryError:
        return False
    if len(trees) != 1 or not isinstance(trees[0], exp.Select):
        return False
    select = trees[0]
    other_clauses = [
        clause
        for clause, value in select.args.items()
        if clause not in ("expressions", "kind") and value
    ]
    return not other_clauses and len(select.expressions) == 1 and holds(select.expressions[0])
