"""Aggregates of a question as formulas over released counts, sums and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.catalog import scalars
from dither.plan.algebra import Call, Expression, Value
from dither.question.expressions import Constant, Formula
from dither.rules import PrivacyRule
from dither.sql.centred import Centred, argument, plus, said, times, where
from dither.sql.constants import number
from dither.sql.expressions import expression, no_rule
from dither.sql.moments import correlation, covariance, regression, variance
from dither.sql.per_unit import is_aggregate, walk
from dither.sql.question import Question, Released, check_owned
from dither.sql.refusals.refuse import refused
from dither.sql.scope import Field

MINIMUM, MAXIMUM = Fraction(1, 100), Fraction(99, 100)


def aggregate(node: exp.Expr, question: Question) -> Formula:
    """The formula of an aggregate; its atoms are noted in the question."""
    at, scope = question.scope.at, question.scope
    chosen: Expression | None = None
    inner = node
    if isinstance(inner, exp.Filter):
        chosen, inner = expression(inner.expression.this, scope), inner.this
        if scope.domain(chosen, node).kind != "boolean":
            raise at.error("FILTER (WHERE ...) needs a condition", node)
    if any(is_aggregate(each) for each in walk(inner) if each is not inner and each is not inner.this):
        raise refused("nested aggregate", at, node)
    if not isinstance(inner, exp.WithinGroup) and isinstance(inner.this, exp.Expr) and is_aggregate(inner.this):
        raise refused("nested aggregate", at, node)
    if not isinstance(inner.this, (exp.Expr, str)):
        raise at.error(f"{said(node)} needs an argument", node)
    if rule := AGGREGATES.get(type(inner)):
        return rule(inner, chosen, question)
    raise no_rule(inner, scope)


def counts_in(nodes: list[exp.Expr], question: Question) -> None:
    """Note what is counted anyway: sums of the same values are then made from centred ones."""
    for node in nodes:
        for each in walk(node):
            if not isinstance(each, _COUNTING):
                continue  # before its parts are walked: walking those of every node is quadratic
            if any(is_aggregate(part) for part in walk(each) if part is not each):
                continue
            chosen = None
            if isinstance(each.parent, exp.Filter):
                chosen = expression(each.parent.expression.this, question.scope)
            if isinstance(each, exp.Count) and isinstance(each.this, exp.Star):
                question.counts_rows = question.counts_rows or chosen is None
            elif isinstance(each.this, exp.Expr) and not isinstance(each.this, exp.Distinct):
                known = question.scope.field(each.this) if isinstance(each.this, exp.Column) else None
                if known is None or not _is_id(known, question):
                    question.counted.add(where(chosen, expression(each.this, question.scope)))


_COUNTING = (exp.Count, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp)


def _count(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    scope, at = question.scope, question.scope.at
    if isinstance(node.this, exp.Star):
        if scope.relation.public_rows:
            raise refused("public count", at, node)
        return _rows(chosen, question, said(node, chosen))
    is_distinct = isinstance(node.this, exp.Distinct)
    listed = node.this.expressions if is_distinct else [node.this, *node.expressions]
    if len(listed) != 1:
        raise at.error(f"COUNT of several columns is not answered: count one {PrivacyRule.NO_RULE.label}", node)
    column = listed[0].unnest()
    known = scope.field(column) if isinstance(column, exp.Column) else None
    if known is not None and _is_id(known, question):
        return _ids(known, is_distinct, chosen, node, question)
    value = where(chosen, expression(column, scope))
    if is_distinct:
        return question.atom(Released("distinct", value), said(node, chosen))
    if not scope.domain(value, node).nullable:
        return question.atom(Released("count"), "COUNT(*)")
    return question.atom(Released("values", value), said(node, chosen))


def _is_id(known: Field, question: Question) -> bool:
    return known.of is None or question.scope.domain(known.of).kind == "id"


def _ids(known: Field, is_distinct: bool, chosen: Expression | None, node: exp.Expr, question: Question) -> Formula:
    """COUNT(id): rows that have one. COUNT(DISTINCT owner): people."""
    if known.present:
        tests = (*([] if chosen is None else [chosen]), *known.present)
        chosen = tests[0] if len(tests) == 1 else Call("and", tests)
    if not is_distinct:
        return _rows(chosen, question, said(node, chosen))
    if not known.is_owner:
        raise refused("distinct id", question.scope.at, node)
    check_owned(question, node)
    if every := question.scope.at.catalog.unit.every:
        question.notes.append(f"the unit is a person in one {every}: a person counts once per {every}")
    return question.atom(Released("units", chosen), said(node, chosen))


def _rows(chosen: Expression | None, question: Question, words: str) -> Formula:
    if chosen is None:
        return question.atom(Released("count"), "COUNT(*)")
    return question.atom(Released("sum", chosen), words)


def _count_if(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    value = expression(node.this, question.scope)
    if question.scope.domain(value, node).kind != "boolean":
        raise question.scope.at.error("COUNT_IF needs a condition", node)
    return _rows(where(chosen, value), question, said(node, chosen))


def _sum(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    value = argument(node, node.this, chosen, question, "SUM")
    centred = Centred(value, said(node.this), question)
    if centred.middle and centred.is_counted:
        count = centred.count(abs(centred.middle))
        return plus(times(Constant(centred.middle), count), centred.total(Fraction(1)))
    return question.atom(Released("sum", value), said(node, chosen))


def _avg(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    value = argument(node, node.this, chosen, question, "AVG")
    return Centred(value, said(node.this), question).mean()


def _quantile(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    """Every way to write a quantile: the value that a share of the rows does not exceed."""
    at = question.scope.at
    falling = False
    share: exp.Expr | None
    if isinstance(node, exp.WithinGroup):
        ordered = node.expression.expressions
        if len(ordered) != 1 or not isinstance(node.this, (exp.PercentileCont, exp.PercentileDisc, exp.Quantile)):
            raise refused("quantile", at, node)
        of, share, falling = ordered[0].this, node.this.this, bool(ordered[0].args.get("desc"))
    elif isinstance(node, exp.Median):
        of, share = node.this, exp.Literal.number("0.5")
    else:
        of, share = node.this, node.args.get("quantile", node.args.get("expression"))
    value = scalars.number(str(share.this)) if isinstance(share, exp.Literal) and not share.is_string else None
    if value is None or not 0 < value < 1:
        raise refused("quantile", at, node)
    return _at_share(node, of, 1 - value if falling else value, chosen, question)


def _at_share(node: exp.Expr, of: exp.Expr, share: Fraction, chosen: Expression | None, question: Question) -> Formula:
    scope = question.scope
    if isinstance(of, exp.Distinct):
        raise refused("distinct aggregate", scope.at, node)
    value = expression(of, scope)
    kind = scope.domain(value, of).kind
    if kind not in ("number", "date", "timestamp"):
        name = of.name if isinstance(of, exp.Column) else of.sql(dialect="duckdb")[:40]
        raise scope.at.error(f"a quantile needs a number, date or timestamp; {name} is a {kind}", of)
    words = f"QUANTILE({said(of)}, {float(share):g})"
    return question.atom(Released("quantile", where(chosen, value), share), words)


def _end(share: Fraction, word: str) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        if node.expressions:
            raise question.scope.at.error(f"{word} takes one argument; LEAST and GREATEST compare several", node)
        question.notes.append(
            f"{word} is the {float(share):.0%} quantile, found privately: the exact one is one person's value"
        )
        return _at_share(node, node.this, share, chosen, question)

    return rule


AGGREGATES: dict[type[exp.Expr], Callable[[exp.Expr, Expression | None, Question], Formula]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Variance: variance(True, False),
    exp.VariancePop: variance(False, False),
    exp.Stddev: variance(True, True),
    exp.StddevSamp: variance(True, True),
    exp.StddevPop: variance(False, True),
    exp.CovarSamp: covariance(True),
    exp.CovarPop: covariance(False),
    exp.Corr: correlation,
    exp.RegrSlope: regression("slope"),
    exp.RegrIntercept: regression("intercept"),
    exp.RegrCount: regression("count"),
    exp.RegrAvgx: regression("avgx"),
    exp.RegrAvgy: regression("avgy"),
    exp.RegrR2: regression("r2"),
    exp.Median: _quantile,
    exp.Quantile: _quantile,
    exp.ApproxQuantile: _quantile,
    exp.PercentileCont: _quantile,
    exp.PercentileDisc: _quantile,
    exp.WithinGroup: _quantile,
    exp.Min: _end(MINIMUM, "MIN"),
    exp.Max: _end(MAXIMUM, "MAX"),
}


def histogram(node: exp.Anonymous, question: Question) -> tuple[Expression, Expression, Fraction]:
    """HISTOGRAM(x, bins): x, the key of its bins (0, w, 2w, ...), and the lower edge of the first."""
    scope = question.scope
    if not 1 <= len(node.expressions) <= 2:
        raise scope.at.error("HISTOGRAM takes a number and perhaps how many bins", node)
    value = expression(node.expressions[0], scope)
    domain = scope.domain(value, node)
    if domain.kind != "number":
        raise scope.at.error(f"HISTOGRAM needs a number with declared bounds, not a {domain.kind}: GROUP BY it", node)
    bins = expression(node.expressions[1], scope) if len(node.expressions) == 2 else number(10)
    most = bins.value if isinstance(bins, Value) else None
    if not isinstance(most, Fraction) or most.denominator != 1 or not 1 <= most <= 10_000:
        raise scope.at.error("HISTOGRAM takes a constant number of bins from 1 to 10000", node)
    low, steps = domain.low * domain.step, domain.high - domain.low + 1
    width = -(-steps // int(most)) * domain.step
    moved: Expression = Call("subtract", (value, number(low))) if low else value
    return value, Call("bin", (moved, number(width))), low
