"""Variances, covariances, correlations and regressions as formulas over centred sums."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression
from dither.question.expressions import Apply, Constant, Formula
from dither.sql.centred import ONE, Centred, argument, centred_sum, minus, over, plus, said, times
from dither.sql.question import Question


def variance(is_sample: bool, is_root: bool) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        value = argument(node, node.this, chosen, question, "VARIANCE")
        found = Centred(value, said(node.this), question)
        count = found.count(found.half**2)
        squares = _spread(found, count)
        made = over(squares, minus(count, ONE) if is_sample else count)
        return Apply("sqrt", (made,)) if is_root else made

    return rule


def _spread(found: Centred, count: Formula) -> Formula:
    """SUM((x - mean)^2) = SUM((x - m)^2) - SUM(x - m)^2 / n."""
    squares = found.squares(Fraction(1), count)
    total = found.total(2 * found.half)
    return minus(squares, over(times(total, total), count))


def _paired(
    node: exp.Expr, first: exp.Expr, second: exp.Expr, chosen: Expression | None, question: Question
) -> tuple[Centred, Centred, Formula, Formula]:
    """Two columns where both are not null: their sums, their count, and SUM((x - mean)(y - mean))."""
    word = type(node).__name__.upper()
    values = [argument(node, each, chosen, question, word) for each in (first, second)]
    x = Centred(values[0], said(first), question, (values[1],))
    y = Centred(values[1], said(second), question, (values[0],))
    count = x.count(x.half * y.half)
    product = Call("multiply", (x.difference, y.difference))
    both = centred_sum(product, f"{said(first)} * {said(second)}", Fraction(1), count, question)
    totals = times(x.total(y.half), y.total(x.half))
    return x, y, count, minus(both, over(totals, count))


def covariance(is_sample: bool) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        _, _, count, both = _paired(node, node.this, node.expression, chosen, question)
        return over(both, minus(count, ONE) if is_sample else count)

    return rule


def correlation(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    x, y, count, both = _paired(node, node.this, node.expression, chosen, question)
    spreads = times(_spread(x, count), _spread(y, count))
    return over(both, Apply("sqrt", (spreads,)))


def regression(part: str) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    """REGR_...(y, x): the second argument explains the first."""

    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        x, y, count, both = _paired(node, node.expression, node.this, chosen, question)
        if part == "count":
            return count
        means = [plus(Constant(each.middle), over(each.total(Fraction(1)), count)) for each in (x, y)]
        if part in ("avgx", "avgy"):
            return means[part == "avgy"]
        slope = over(both, _spread(x, count))
        if part == "slope":
            return slope
        if part == "r2":
            return over(times(both, both), times(_spread(x, count), _spread(y, count)))
        return minus(means[1], times(slope, means[0]))

    return rule
