"""Aggregates of a question as formulas over released counts, sums and quantiles.

AVG(x) is m + SUM(x - m) / COUNT(x), with m the middle of the bounds of x: the centred sum moves by half the width of
the bounds. Where COUNT(x) is released anyway, SUM(x) is m COUNT(x) + SUM(x - m), from the same two numbers: with noise
in both it has a smaller error than a sum of its own, half^2 + m^2 <= max(L^2, U^2). Squares and products are centred
likewise. Importance is the derivative of the result by an atom, times the number of rows, at its largest.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.answer.expressions import Apply, Constant, Formula
from dither.catalog import scalars
from dither.plan.algebra import Call, Expression, Value
from dither.sql.constants import number
from dither.sql.expressions import expression, no_rule
from dither.sql.inner import is_aggregate, walk
from dither.sql.question import Question, Released, check_owned
from dither.sql.refuse import refused
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
            if any(is_aggregate(part) for part in walk(each) if part is not each):
                continue
            chosen = None
            if isinstance(each.parent, exp.Filter):
                chosen = expression(each.parent.expression.this, question.scope)
            if isinstance(each, exp.Count) and isinstance(each.this, exp.Star):
                question.counts_rows = question.counts_rows or chosen is None
            elif (
                isinstance(each, _COUNTING)
                and isinstance(each.this, exp.Expr)
                and not isinstance(each.this, exp.Distinct)
            ):
                known = question.scope.field(each.this) if isinstance(each.this, exp.Column) else None
                if known is None or not _is_id(known, question):
                    question.counted.add(_where(chosen, expression(each.this, question.scope)))


_COUNTING = (exp.Count, exp.Avg, exp.Variance, exp.VariancePop, exp.Stddev, exp.StddevPop, exp.StddevSamp)


def _where(chosen: Expression | None, value: Expression) -> Expression:
    return value if chosen is None else Call("case", (chosen, value))


def said(node: exp.Expr, chosen: Expression | None = None) -> str:
    """An aggregate as SQL would write it."""
    shown = node.sql(dialect="duckdb")
    shown = f"{shown} FILTER (...)" if chosen is not None else shown
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _count(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    scope, at = question.scope, question.scope.at
    if isinstance(node.this, exp.Star):
        if scope.relation.public_rows:
            raise refused("public count", at, node)
        return _rows(chosen, question, said(node, chosen))
    is_distinct = isinstance(node.this, exp.Distinct)
    listed = node.this.expressions if is_distinct else [node.this, *node.expressions]
    if len(listed) != 1:
        raise at.error("COUNT of several columns is not answered: count one [rule: what has no rule is refused]", node)
    column = listed[0].unnest()
    known = scope.field(column) if isinstance(column, exp.Column) else None
    if known is not None and _is_id(known, question):
        return _ids(known, is_distinct, chosen, node, question)
    value = _where(chosen, expression(column, scope))
    if is_distinct:
        return question.atom(Released("distinct", value), said(node, chosen))
    if not scope.domain(value, node).nullable:
        return question.atom(Released("count"), "COUNT(*)")
    return question.atom(Released("values", value), said(node, chosen))


def _is_id(known: Field, question: Question) -> bool:
    return known.of is None or question.scope.domain(known.of).kind == "id"


def _ids(known: Field, is_distinct: bool, chosen: Expression | None, node: exp.Expr, question: Question) -> Formula:
    """COUNT(id): rows that have one. COUNT(DISTINCT owner): people."""
    if known.marker is not None:
        found = Call("is_not_null", (known.marker,))
        chosen = found if chosen is None else Call("and", (chosen, found))
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
    return _rows(_where(chosen, value), question, said(node, chosen))


def _argument(node: exp.Expr, inner: exp.Expr, chosen: Expression | None, question: Question, word: str) -> Expression:
    """A number to aggregate; truth values count as 0 and 1."""
    scope = question.scope
    if isinstance(inner, exp.Distinct):
        raise refused("distinct aggregate", scope.at, node)
    if not isinstance(inner, exp.Expr):
        raise scope.at.error(f"{word} needs an argument", node)
    value = expression(inner, scope)
    domain = scope.domain(value, inner)
    if domain.kind not in ("number", "boolean"):
        name = inner.name if isinstance(inner, exp.Column) else inner.sql(dialect="duckdb")[:40]
        raise scope.at.error(f"{word} needs a number with declared bounds; {name} is a {domain.kind}", inner)
    return _where(chosen, value)


def _sum(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    value = _argument(node, node.this, chosen, question, "SUM")
    centred = Centred(value, said(node.this), question)
    if centred.middle and centred.is_counted:
        count = centred.count(abs(centred.middle))
        return _plus(_times(Constant(centred.middle), count), centred.total(Fraction(1)))
    return question.atom(Released("sum", value), said(node, chosen))


class Centred:
    """Sums of an expression around the middle of its bounds: what averages, variances and regressions are made of."""

    def __init__(self, value: Expression, words: str, question: Question, others: tuple[Expression, ...] = ()) -> None:
        """`others`: rows count only where these are not null either."""
        scope = question.scope
        for other in others:
            if scope.domain(other).nullable:
                value = Call("case", (Call("is_not_null", (other,)), value))
        domain = scope.domain(value)
        self.question, self.words, self.value, self.domain = question, words, value, domain
        self.middle = (domain.low + domain.high) // 2 * domain.step if domain.kind == "number" else Fraction(0)
        self.half = max(domain.high * domain.step - self.middle, self.middle - domain.low * domain.step)

    @property
    def is_counted(self) -> bool:
        """Whether the number of these values is released anyway."""
        rows = self.question.counts_rows or any(
            not self.question.scope.domain(each).nullable for each in self.question.counted
        )
        return self.value in self.question.counted or (rows and not self.domain.nullable)

    def count(self, importance: Fraction) -> Formula:
        if not self.domain.nullable:
            return self.question.atom(Released("count"), "COUNT(*)", importance)
        return self.question.atom(Released("values", self.value), f"COUNT({self.words})", importance)

    @property
    def difference(self) -> Expression:
        """x - m."""
        if self.domain.kind == "boolean":
            return Call("to_number", (self.value,))
        return Call("subtract", (self.value, number(self.middle))) if self.middle else self.value

    def total(self, importance: Fraction) -> Formula:
        """SUM(x - m)."""
        words = f"SUM({self.words} - {float(self.middle):g})" if self.middle else f"SUM({self.words})"
        low, high = (float(end * self.domain.step) for end in (self.domain.low, self.domain.high))
        clamped = f"{self.words} clamped to [{low:g}, {high:g}]" if self.domain.kind == "number" else None
        of = self.difference if self.middle else self.value
        return self.question.atom(Released("sum", of), words, importance, clamped)

    def mean(self) -> Formula:
        """AVG(x)."""
        count = self.count(max(self.half, Fraction(1, 10**9)))
        ratio = _over(self.total(Fraction(1)), count)
        return _plus(Constant(self.middle), ratio) if self.middle else ratio

    def squares(self, importance: Fraction, count: Formula) -> Formula:
        """SUM((x - m)^2), released around the middle of its own bounds."""
        return _centred_sum(
            Call("power", (self.difference, number(2))), f"({self.words})^2", importance, count, self.question
        )


def _centred_sum(value: Expression, words: str, importance: Fraction, count: Formula, question: Question) -> Formula:
    domain = question.scope.domain(value)
    middle = (domain.low + domain.high) // 2 * domain.step
    if not middle:
        return question.atom(Released("sum", value), f"SUM({words})", importance)
    less = Call("subtract", (value, number(middle)))
    released = question.atom(Released("sum", less), f"SUM({words} - {float(middle):g})", importance)
    return _plus(released, _times(Constant(middle), count))


def _avg(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    value = _argument(node, node.this, chosen, question, "AVG")
    return Centred(value, said(node.this), question).mean()


def _variance(is_sample: bool, is_root: bool) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        value = _argument(node, node.this, chosen, question, "VARIANCE")
        found = Centred(value, said(node.this), question)
        count = found.count(found.half**2)
        squares = _spread(found, count)
        made = _over(squares, _minus(count, _ONE) if is_sample else count)
        return Apply("sqrt", (made,)) if is_root else made

    return rule


def _spread(found: Centred, count: Formula) -> Formula:
    """SUM((x - mean)^2) = SUM((x - m)^2) - SUM(x - m)^2 / n."""
    squares = found.squares(Fraction(1), count)
    total = found.total(2 * found.half)
    return _minus(squares, _over(_times(total, total), count))


def _paired(
    node: exp.Expr, first: exp.Expr, second: exp.Expr, chosen: Expression | None, question: Question
) -> tuple[Centred, Centred, Formula, Formula]:
    """Two columns where both are not null: their sums, their count, and SUM((x - mean)(y - mean))."""
    word = type(node).__name__.upper()
    values = [_argument(node, each, chosen, question, word) for each in (first, second)]
    x = Centred(values[0], said(first), question, (values[1],))
    y = Centred(values[1], said(second), question, (values[0],))
    count = x.count(x.half * y.half)
    product = Call("multiply", (x.difference, y.difference))
    both = _centred_sum(product, f"{said(first)} * {said(second)}", Fraction(1), count, question)
    totals = _times(x.total(y.half), y.total(x.half))
    return x, y, count, _minus(both, _over(totals, count))


def _covariance(is_sample: bool) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        _, _, count, both = _paired(node, node.this, node.expression, chosen, question)
        return _over(both, _minus(count, _ONE) if is_sample else count)

    return rule


def _correlation(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
    x, y, count, both = _paired(node, node.this, node.expression, chosen, question)
    spreads = _times(_spread(x, count), _spread(y, count))
    return _over(both, Apply("sqrt", (spreads,)))


def _regression(part: str) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    """REGR_...(y, x): the second argument explains the first."""

    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        x, y, count, both = _paired(node, node.expression, node.this, chosen, question)
        if part == "count":
            return count
        means = [_plus(Constant(each.middle), _over(each.total(Fraction(1)), count)) for each in (x, y)]
        if part in ("avgx", "avgy"):
            return means[part == "avgy"]
        slope = _over(both, _spread(x, count))
        if part == "slope":
            return slope
        if part == "r2":
            return _over(_times(both, both), _times(_spread(x, count), _spread(y, count)))
        return _minus(means[1], _times(slope, means[0]))

    return rule


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
    return question.atom(Released("quantile", _where(chosen, value), share), words)


def _end(share: Fraction, word: str) -> Callable[[exp.Expr, Expression | None, Question], Formula]:
    def rule(node: exp.Expr, chosen: Expression | None, question: Question) -> Formula:
        if node.expressions:
            raise question.scope.at.error(f"{word} takes one argument; LEAST and GREATEST compare several", node)
        question.notes.append(
            f"{word} is the {float(share):.0%} quantile, found privately: the exact one is one person's value"
        )
        return _at_share(node, node.this, share, chosen, question)

    return rule


_ONE = Constant(Fraction(1))


def _plus(left: Formula, right: Formula) -> Formula:
    return Apply("add", (left, right))


def _minus(left: Formula, right: Formula) -> Formula:
    return Apply("subtract", (left, right))


def _times(left: Formula, right: Formula) -> Formula:
    return Apply("multiply", (left, right))


def _over(left: Formula, right: Formula) -> Formula:
    return Apply("divide", (left, right))


AGGREGATES: dict[type[exp.Expr], Callable[[exp.Expr, Expression | None, Question], Formula]] = {
    exp.Count: _count,
    exp.CountIf: _count_if,
    exp.Sum: _sum,
    exp.Avg: _avg,
    exp.Variance: _variance(True, False),
    exp.VariancePop: _variance(False, False),
    exp.Stddev: _variance(True, True),
    exp.StddevSamp: _variance(True, True),
    exp.StddevPop: _variance(False, True),
    exp.CovarSamp: _covariance(True),
    exp.CovarPop: _covariance(False),
    exp.Corr: _correlation,
    exp.RegrSlope: _regression("slope"),
    exp.RegrIntercept: _regression("intercept"),
    exp.RegrCount: _regression("count"),
    exp.RegrAvgx: _regression("avgx"),
    exp.RegrAvgy: _regression("avgy"),
    exp.RegrR2: _regression("r2"),
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
