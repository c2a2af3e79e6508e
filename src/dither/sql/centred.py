"""Sums around the middle of bounds: what averages, variances and regressions are made of.

AVG(x) is m + SUM(x - m) / COUNT(x), with m the middle of the bounds of x: the centred sum moves by
half the width of the bounds. Where COUNT(x) is released anyway, SUM(x) is m COUNT(x) + SUM(x - m),
from the same two numbers: with noise in both it has a smaller error than a sum of its own, half^2 +
m^2 <= max(L^2, U^2). Squares and products are centred likewise. Importance is the derivative of the
result by an atom, times the number of rows, at its largest.
"""

from __future__ import annotations

from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression
from dither.plan.analyse import FIRST_RULES
from dither.plan.carry_sums import read_summed
from dither.plan.stability import Loose
from dither.question.expressions import Apply, Constant, Formula
from dither.sql.constants import number
from dither.sql.expressions import resolve_expression
from dither.sql.question import AtomMeasure, QuestionDraft
from dither.sql.refusals.refuse import make_refusal
from dither.sql.tree_nodes import DUCKDB

ONE = Constant(Fraction(1))


def plus(left: Formula, right: Formula) -> Formula:
    return Apply("add", (left, right))


def minus(left: Formula, right: Formula) -> Formula:
    return Apply("subtract", (left, right))


def times(left: Formula, right: Formula) -> Formula:
    return Apply("multiply", (left, right))


def over(left: Formula, right: Formula) -> Formula:
    return Apply("divide", (left, right))


def write_sql(node: exp.Expr, filter_condition: Expression | None = None) -> str:
    """An aggregate as SQL would write it."""
    text = node.sql(dialect=DUCKDB)
    text = f"{text} FILTER (...)" if filter_condition is not None else text
    return text if len(text) <= 80 else text[:77] + "..."


def filter_value(filter_condition: Expression | None, value: Expression) -> Expression:
    return value if filter_condition is None else Call("case", (filter_condition, value))


def read_argument(
    node: exp.Expr,
    inner: exp.Expr,
    filter_condition: Expression | None,
    question: QuestionDraft,
    word: str,
) -> Expression:
    """Read the argument of an aggregate, which must be a number; truth values count as 0 and 1.

    `word` is the aggregate's name in messages.
    """
    scope = question.scope
    if isinstance(inner, exp.Distinct):
        raise make_refusal("distinct aggregate", scope.context, node)
    if not isinstance(inner, exp.Expr):
        raise scope.context.error(f"{word} needs an argument", node)
    value = resolve_expression(inner, scope)
    domain = scope.domain(value, inner)
    if domain.kind not in ("number", "boolean"):
        name = inner.name if isinstance(inner, exp.Column) else inner.sql(dialect="duckdb")[:40]
        raise scope.context.error(
            f"{word} needs a number with declared bounds; {name} is a {domain.kind}", inner
        )
    return filter_value(filter_condition, value)


class Centred:
    """Sums of an expression around the middle of its bounds: what averages, variances and
    regressions are made of."""

    def __init__(
        self,
        value: Expression,
        words: str,
        question: QuestionDraft,
        also_not_null: tuple[Expression, ...] = (),
    ) -> None:
        """Find the middle of a value's bounds and half their width.

        `also_not_null`: rows count only where these are not null either.
        """
        scope = question.scope
        for other in also_not_null:
            if scope.domain(other).nullable:
                value = Call("case", (Call("is_not_null", (other,)), value))
        domain = scope.domain(value)
        self.question = question
        self.words = words
        self.value = value
        self.domain = domain
        self.middle = (
            (domain.low + domain.high) // 2 * domain.step
            if domain.kind == "number" and not _is_steady(value, question)
            else Fraction(0)
        )
        self.half = max(
            domain.high * domain.step - self.middle, self.middle - domain.low * domain.step
        )

    @property
    def is_counted(self) -> bool:
        """Whether the number of these values is released anyway."""
        counts_rows = self.question.counts_rows or any(
            not self.question.scope.domain(value).nullable for value in self.question.counted
        )
        return self.value in self.question.counted or (counts_rows and not self.domain.nullable)

    def count(self, importance: Fraction) -> Formula:
        """Note the count of the rows that have a value, and return its formula."""
        if not self.domain.nullable:
            return self.question.note_atom(AtomMeasure("count"), "COUNT(*)", importance)
        return self.question.note_atom(
            AtomMeasure("values", self.value), f"COUNT({self.words})", importance
        )

    @property
    def has_count(self) -> bool:
        """Whether the number of these values was asked for before."""
        return AtomMeasure("values", self.value) in self.question.atoms

    @property
    def difference(self) -> Expression:
        """x - m."""
        if self.domain.kind == "boolean":
            return Call("to_number", (self.value,))
        return Call("subtract", (self.value, number(self.middle))) if self.middle else self.value

    def total(self, importance: Fraction) -> Formula:
        """Note SUM(x - middle), and return its formula."""
        words = (
            f"SUM({self.words} - {float(self.middle):g})" if self.middle else f"SUM({self.words})"
        )
        low, high = (float(end * self.domain.step) for end in (self.domain.low, self.domain.high))
        clamped = (
            f"{self.words} clamped to [{low:g}, {high:g}]" if self.domain.kind == "number" else None
        )
        summand = self.difference if self.middle else self.value
        return self.question.note_atom(AtomMeasure("sum", summand), words, importance, clamped)

    def mean(self) -> Formula:
        """AVG(x)."""
        count = self.count(max(self.half, Fraction(1, 10**9)))
        ratio = over(self.total(Fraction(1)), count)
        return plus(Constant(self.middle), ratio) if self.middle else ratio

    def squares(self, importance: Fraction, count: Formula) -> Formula:
        """Note SUM((x - middle)^2), released around the middle of its own bounds; return its
        formula."""
        return release_centred_sum(
            Call("power", (self.difference, number(2))),
            f"({self.words})^2",
            importance,
            count,
            self.question,
        )


def _is_steady(value: Expression, question: QuestionDraft) -> bool:
    """Whether the sum of a value over groups of everybody's rows moves less than a shifted one.

    A person changes the counts of some groups a little; less a constant, a group that comes or
    goes changes the sum by the whole constant.
    """
    context = question.scope.context
    rows = context.analyse(question.scope.relation.plan)
    if context.rules == FIRST_RULES or not isinstance(rows.node, Loose):
        return False
    return read_summed(value, rows.columns) in rows.node.sums


def release_centred_sum(
    value: Expression, words: str, importance: Fraction, count: Formula, question: QuestionDraft
) -> Formula:
    """Note SUM(value), released around the middle of its bounds; return its formula."""
    summand, middle = _centre(value, question)
    if not middle:
        return question.note_atom(AtomMeasure("sum", summand), f"SUM({words})", importance)
    released = question.note_atom(
        AtomMeasure("sum", summand), f"SUM({words} - {float(middle):g})", importance
    )
    return plus(released, times(Constant(middle), count))


def has_centred_sum(value: Expression, question: QuestionDraft) -> bool:
    """Whether the sum of a value around its middle is released already."""
    return AtomMeasure("sum", _centre(value, question)[0]) in question.atoms


def _centre(value: Expression, question: QuestionDraft) -> tuple[Expression, Fraction]:
    """The value less the middle of its bounds, and that middle."""
    domain = question.scope.domain(value)
    middle = (domain.low + domain.high) // 2 * domain.step
    return Call("subtract", (value, number(middle))) if middle else value, middle
