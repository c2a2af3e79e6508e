"""Variances, covariances, correlations and regressions as formulas over centred sums."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression
from dither.plan.analyse import FIRST_RULES
from dither.plan.grids import coarse_step
from dither.question.expressions import Apply, Constant, Formula
from dither.sql.centred import (
    ONE,
    Centred,
    has_centred_sum,
    minus,
    over,
    plus,
    read_argument,
    release_centred_sum,
    times,
    write_sql,
)
from dither.sql.constants import number
from dither.sql.question import QuestionDraft

_MOST_CUBED_STEPS = 1 << 16


def make_variance_rule(
    is_sample: bool, is_root: bool
) -> Callable[[exp.Expr, Expression | None, QuestionDraft], Formula]:
    """Make the rule that reads a variance: of a sample or a population, perhaps its root."""

    def rule(
        node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
    ) -> Formula:
        value = read_argument(node, node.this, filter_condition, question, "VARIANCE")
        sums = Centred(value, write_sql(node.this), question)
        count = sums.count(sums.half**2)
        squares = _sum_squares(sums, count)
        spread = over(squares, minus(count, ONE) if is_sample else count)
        return Apply("sqrt", (spread,)) if is_root else spread

    return rule


def _sum_squares(sums: Centred, count: Formula) -> Formula:
    """SUM((x - mean)^2) = SUM((x - m)^2) - SUM(x - m)^2 / n."""
    squares = sums.squares(Fraction(1), count)
    total = sums.total(2 * sums.half)
    return minus(squares, over(times(total, total), count))


def read_skewness(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read SKEWNESS(x) of a sample, as the engines have it.

    With n values, m2 and m3 the averages of (x - mean)^2 and (x - mean)^3, it is
    m3 / m2^1.5 times sqrt(n (n - 1)) / (n - 2).
    """
    value = read_argument(node, node.this, filter_condition, question, "SKEWNESS")
    value = _coarsen(value, question)
    sums = Centred(value, write_sql(node.this), question)
    count = sums.count(sums.half**3)
    total = sums.total(3 * sums.half**2)
    squares = sums.squares(3 * sums.half, count)
    cubes = release_centred_sum(
        Call("power", (sums.difference, number(3))),
        f"({sums.words})^3",
        Fraction(1),
        count,
        question,
    )
    mean = over(total, count)
    third = plus(
        minus(cubes, times(Constant(Fraction(3)), times(squares, mean))),
        times(Constant(Fraction(2)), times(times(total, mean), mean)),
    )
    spread = over(_sum_squares(sums, count), count)
    power = times(spread, Apply("sqrt", (spread,)))
    small_sample = over(
        Apply("sqrt", (times(count, minus(count, ONE)),)),
        minus(count, Constant(Fraction(2))),
    )
    return times(small_sample, over(over(third, count), power))


def _coarsen(value: Expression, question: QuestionDraft) -> Expression:
    """Round a value to a grid so coarse that noise for its cubes can be drawn.

    The step is the least of 1, 2, 5, 10, ... of its own that leaves at most 65,536 of them: a value
    moves by at most a part in 65,536 of its range.
    """
    domain = question.scope.domain(value)
    factor = coarse_step(domain.high - domain.low, _MOST_CUBED_STEPS)
    if domain.kind != "number" or factor == 1 or question.scope.context.rules == FIRST_RULES:
        return value
    step = factor * domain.step
    scaled = Call("multiply", (value, number(1 / step)))
    return Call("multiply", (Call("round", (scaled, number(0))), number(step)))


def _pair_columns(
    node: exp.Expr,
    first: exp.Expr,
    second: exp.Expr,
    filter_condition: Expression | None,
    question: QuestionDraft,
) -> tuple[Centred, Centred, Formula, Formula]:
    """Read two columns over the rows where both are not null.

    Returns their sums, the formula of their count, and that of SUM((x - mean)(y - mean)).
    """
    word = type(node).__name__.upper()
    values = [
        read_argument(node, argument, filter_condition, question, word)
        for argument in (first, second)
    ]
    x = Centred(values[0], write_sql(first), question, (values[1],))
    y = Centred(values[1], write_sql(second), question, (values[0],))
    # both count the rows in which neither is null: the count that is released already serves
    is_newest = question.scope.context.rules > FIRST_RULES
    counted = y if is_newest and y.has_count and not x.has_count else x
    count = counted.count(x.half * y.half)
    both = _sum_products((x, y), (first, second), count, question)
    totals = times(x.total(y.half), y.total(x.half))
    return x, y, count, minus(both, over(totals, count))


def _sum_products(
    sums: tuple[Centred, Centred],
    nodes: tuple[exp.Expr, exp.Expr],
    count: Formula,
    question: QuestionDraft,
) -> Formula:
    """Note SUM((x - m)(y - m)) and return its formula.

    Where the same product was released in the other order, that one is used.
    """
    words = [write_sql(node) for node in nodes]
    product = Call("multiply", (sums[0].difference, sums[1].difference))
    swapped = Call("multiply", (sums[1].difference, sums[0].difference))
    is_newest = question.scope.context.rules > FIRST_RULES
    if is_newest and has_centred_sum(swapped, question):
        product = swapped
        words.reverse()
    return release_centred_sum(product, " * ".join(words), Fraction(1), count, question)


def make_covariance_rule(
    is_sample: bool,
) -> Callable[[exp.Expr, Expression | None, QuestionDraft], Formula]:
    """Make the rule that reads a covariance, of a sample or a population."""

    def rule(
        node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
    ) -> Formula:
        _, _, count, products = _pair_columns(
            node, node.this, node.expression, filter_condition, question
        )
        return over(products, minus(count, ONE) if is_sample else count)

    return rule


def read_correlation(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read CORR(x, y): the sum of products over the root of both sums of squares."""
    x, y, count, products = _pair_columns(
        node, node.this, node.expression, filter_condition, question
    )
    spreads = times(_sum_squares(x, count), _sum_squares(y, count))
    return over(products, Apply("sqrt", (spreads,)))


def make_regression_rule(
    statistic: str,
) -> Callable[[exp.Expr, Expression | None, QuestionDraft], Formula]:
    """Make the rule for REGR_...(y, x); the second argument explains the first."""

    def rule(
        node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
    ) -> Formula:
        x, y, count, products = _pair_columns(
            node, node.expression, node.this, filter_condition, question
        )
        if statistic == "count":
            return count
        means = [
            plus(Constant(sums.middle), over(sums.total(Fraction(1)), count)) for sums in (x, y)
        ]
        if statistic in ("avgx", "avgy"):
            return means[statistic == "avgy"]
        slope = over(products, _sum_squares(x, count))
        if statistic == "slope":
            return slope
        if statistic == "r2":
            return over(
                times(products, products), times(_sum_squares(x, count), _sum_squares(y, count))
            )
        return minus(means[1], times(slope, means[0]))

    return rule
