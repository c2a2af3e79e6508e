"""Aggregates of a question as formulas over released counts, sums and quantiles."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from sqlglot import exp

from dither.catalog import scalars
from dither.plan.algebra import Call, Expression, Value
from dither.question.expressions import Constant, Formula
from dither.rules import PrivacyRule
from dither.sql.centred import Centred, filter_value, plus, read_argument, times, write_sql
from dither.sql.constants import number
from dither.sql.expressions import refuse_node, resolve_expression
from dither.sql.moments import (
    make_covariance_rule,
    make_regression_rule,
    make_variance_rule,
    read_correlation,
    read_skewness,
)
from dither.sql.per_unit import is_aggregate
from dither.sql.question import AtomMeasure, QuestionDraft, check_owned
from dither.sql.refusals.refuse import make_refusal
from dither.sql.scope import Field
from dither.sql.tree_nodes import list_own_nodes

MINIMUM = Fraction(1, 100)
MAXIMUM = Fraction(99, 100)


def read_aggregate(node: exp.Expr, question: QuestionDraft) -> Formula:
    """Read an aggregate as a formula over noisy numbers, and note these numbers in the question.

    Raises QueryError for nested aggregates and for what has no rule.
    """
    context = question.scope.context
    scope = question.scope
    filter_condition: Expression | None = None
    call = node
    if isinstance(call, exp.Filter):
        filter_condition = resolve_expression(call.expression.this, scope)
        call = call.this
        if scope.domain(filter_condition, node).kind != "boolean":
            raise context.error("FILTER (WHERE ...) needs a condition", node)
    inner_nodes = (
        inner for inner in list_own_nodes(call) if inner is not call and inner is not call.this
    )
    if any(is_aggregate(inner) for inner in inner_nodes):
        raise make_refusal("nested aggregate", context, node)
    if (
        not isinstance(call, exp.WithinGroup)
        and isinstance(call.this, exp.Expr)
        and is_aggregate(call.this)
    ):
        raise make_refusal("nested aggregate", context, node)
    if not isinstance(call.this, (exp.Expr, str)):
        raise context.error(f"{write_sql(node)} needs an argument", node)
    if rule := AGGREGATES.get(type(call)):
        return rule(call, filter_condition, question)
    raise refuse_node(call, scope)


def note_counts(nodes: list[exp.Expr], question: QuestionDraft) -> None:
    """Note which values are counted anyway.

    Sums of the same values are then made from centred sums.
    """
    for node in nodes:
        for descendant in list_own_nodes(node):
            if not isinstance(descendant, _COUNTING):
                # before its descendants are walked: walking those of every node is quadratic
                continue
            if any(
                is_aggregate(inner)
                for inner in list_own_nodes(descendant)
                if inner is not descendant
            ):
                continue
            filter_condition = None
            if isinstance(descendant.parent, exp.Filter):
                filter_condition = resolve_expression(
                    descendant.parent.expression.this, question.scope
                )
            if isinstance(descendant, exp.Count) and isinstance(descendant.this, exp.Star):
                question.counts_rows = question.counts_rows or filter_condition is None
            elif isinstance(descendant.this, exp.Expr) and not isinstance(
                descendant.this, exp.Distinct
            ):
                field = (
                    question.scope.field(descendant.this)
                    if isinstance(descendant.this, exp.Column)
                    else None
                )
                if field is None or not _is_id(field, question):
                    question.counted.add(
                        filter_value(
                            filter_condition, resolve_expression(descendant.this, question.scope)
                        )
                    )


_COUNTING = (
    exp.Count,
    exp.Avg,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevPop,
    exp.StddevSamp,
    exp.Skewness,
)


def _read_count(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read COUNT: of rows, of values that are not null, of different values, or of people."""
    scope = question.scope
    context = question.scope.context
    if isinstance(node.this, exp.Star):
        if scope.relation.public_rows:
            raise make_refusal("public count", context, node)
        return _count_rows(filter_condition, question, write_sql(node, filter_condition))
    is_distinct = isinstance(node.this, exp.Distinct)
    arguments = node.this.expressions if is_distinct else [node.this, *node.expressions]
    if len(arguments) != 1:
        raise context.error(
            f"COUNT of several columns is not answered: count one {PrivacyRule.NO_RULE.label}",
            node,
        )
    column = arguments[0].unnest()
    field = scope.field(column) if isinstance(column, exp.Column) else None
    if field is not None and _is_id(field, question):
        return _count_ids(field, is_distinct, filter_condition, node, question)
    value = filter_value(filter_condition, resolve_expression(column, scope))
    if is_distinct:
        return question.note_atom(AtomMeasure("distinct", value), write_sql(node, filter_condition))
    if not scope.domain(value, node).nullable:
        return question.note_atom(AtomMeasure("count"), "COUNT(*)")
    return question.note_atom(AtomMeasure("values", value), write_sql(node, filter_condition))


def _is_id(field: Field, question: QuestionDraft) -> bool:
    return field.of is None or question.scope.domain(field.of).kind == "id"


def _count_ids(
    field: Field,
    is_distinct: bool,
    filter_condition: Expression | None,
    node: exp.Expr,
    question: QuestionDraft,
) -> Formula:
    """Read a count of an id column: COUNT(id) counts the rows that have one.

    COUNT(DISTINCT owner) counts people. Raises QueryError for different values of any other id.
    """
    if field.present:
        tests = (*([] if filter_condition is None else [filter_condition]), *field.present)
        filter_condition = tests[0] if len(tests) == 1 else Call("and", tests)
    if not is_distinct:
        return _count_rows(filter_condition, question, write_sql(node, filter_condition))
    if not field.is_owner:
        raise make_refusal("distinct id", question.scope.context, node)
    check_owned(question, node)
    are_keys_open = any(question.scope.domain(key.value).undeclared for key in question.keys)
    if filter_condition is not None and are_keys_open:
        raise make_refusal("filtered people", question.scope.context, node)
    if every := question.scope.context.catalog.unit.every:
        question.notes.append(
            f"the unit is a person in one {every}: a person counts once per {every}"
        )
    return question.note_atom(
        AtomMeasure("units", filter_condition), write_sql(node, filter_condition)
    )


def _count_rows(
    filter_condition: Expression | None, question: QuestionDraft, words: str
) -> Formula:
    if filter_condition is None:
        return question.note_atom(AtomMeasure("count"), "COUNT(*)")
    return question.note_atom(AtomMeasure("sum", filter_condition), words)


def _read_count_if(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read COUNT_IF: how many rows meet a condition."""
    value = resolve_expression(node.this, question.scope)
    if question.scope.domain(value, node).kind != "boolean":
        raise question.scope.context.error("COUNT_IF needs a condition", node)
    return _count_rows(
        filter_value(filter_condition, value), question, write_sql(node, filter_condition)
    )


def _read_sum(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read SUM, where it pays as the sum of x - middle plus middle times the count, which needs
    less noise."""
    value = read_argument(node, node.this, filter_condition, question, "SUM")
    centred = Centred(value, write_sql(node.this), question)
    if centred.middle and centred.is_counted:
        count = centred.count(abs(centred.middle))
        return plus(times(Constant(centred.middle), count), centred.total(Fraction(1)))
    return question.note_atom(AtomMeasure("sum", value), write_sql(node, filter_condition))


def _read_avg(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    value = read_argument(node, node.this, filter_condition, question, "AVG")
    return Centred(value, write_sql(node.this), question).mean()


def _read_quantile(
    node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
) -> Formula:
    """Read a quantile, in every spelling: the value that a share of the rows does not exceed."""
    context = question.scope.context
    is_descending = False
    share: exp.Expr | None
    if isinstance(node, exp.WithinGroup):
        ordered = node.expression.expressions
        if len(ordered) != 1 or not isinstance(
            node.this, (exp.PercentileCont, exp.PercentileDisc, exp.Quantile)
        ):
            raise make_refusal("quantile", context, node)
        argument = ordered[0].this
        share = node.this.this
        is_descending = bool(ordered[0].args.get("desc"))
    elif isinstance(node, exp.Median):
        argument = node.this
        share = exp.Literal.number("0.5")
    else:
        argument = node.this
        share = node.args.get("quantile", node.args.get("expression"))
    value = (
        scalars.number(str(share.this))
        if isinstance(share, exp.Literal) and not share.is_string
        else None
    )
    if value is None or not 0 < value < 1:
        raise make_refusal("quantile", context, node)
    return _release_quantile(
        node, argument, 1 - value if is_descending else value, filter_condition, question
    )


def _release_quantile(
    node: exp.Expr,
    argument: exp.Expr,
    share: Fraction,
    filter_condition: Expression | None,
    question: QuestionDraft,
) -> Formula:
    """Note a quantile as a released number of the question."""
    scope = question.scope
    if isinstance(argument, exp.Distinct):
        raise make_refusal("distinct aggregate", scope.context, node)
    value = resolve_expression(argument, scope)
    kind = scope.domain(value, argument).kind
    if kind not in ("number", "date", "timestamp"):
        name = (
            argument.name
            if isinstance(argument, exp.Column)
            else argument.sql(dialect="duckdb")[:40]
        )
        raise scope.context.error(
            f"a quantile needs a number, date or timestamp; {name} is a {kind}", argument
        )
    words = f"QUANTILE({write_sql(argument)}, {float(share):g})"
    return question.note_atom(
        AtomMeasure("quantile", filter_value(filter_condition, value), share), words
    )


def _make_extreme_rule(
    share: Fraction, word: str
) -> Callable[[exp.Expr, Expression | None, QuestionDraft], Formula]:
    """Make the rule that reads MIN or MAX as the quantile at `share`.

    It adds a note that says so.
    """

    def rule(
        node: exp.Expr, filter_condition: Expression | None, question: QuestionDraft
    ) -> Formula:
        if node.expressions:
            raise question.scope.context.error(
                f"{word} takes one argument; LEAST and GREATEST compare several", node
            )
        question.notes.append(
            f"{word} is the {float(share):.0%} quantile, found privately: the exact one is one "
            f"person's value"
        )
        return _release_quantile(node, node.this, share, filter_condition, question)

    return rule


AGGREGATES: dict[
    type[exp.Expr], Callable[[exp.Expr, Expression | None, QuestionDraft], Formula]
] = {
    exp.Count: _read_count,
    exp.CountIf: _read_count_if,
    exp.Sum: _read_sum,
    exp.Avg: _read_avg,
    exp.Variance: make_variance_rule(True, False),
    exp.VariancePop: make_variance_rule(False, False),
    exp.Stddev: make_variance_rule(True, True),
    exp.StddevSamp: make_variance_rule(True, True),
    exp.StddevPop: make_variance_rule(False, True),
    exp.Skewness: read_skewness,
    exp.CovarSamp: make_covariance_rule(True),
    exp.CovarPop: make_covariance_rule(False),
    exp.Corr: read_correlation,
    exp.RegrSlope: make_regression_rule("slope"),
    exp.RegrIntercept: make_regression_rule("intercept"),
    exp.RegrCount: make_regression_rule("count"),
    exp.RegrAvgx: make_regression_rule("avgx"),
    exp.RegrAvgy: make_regression_rule("avgy"),
    exp.RegrR2: make_regression_rule("r2"),
    exp.Median: _read_quantile,
    exp.Quantile: _read_quantile,
    exp.ApproxQuantile: _read_quantile,
    exp.PercentileCont: _read_quantile,
    exp.PercentileDisc: _read_quantile,
    exp.WithinGroup: _read_quantile,
    exp.Min: _make_extreme_rule(MINIMUM, "MIN"),
    exp.Max: _make_extreme_rule(MAXIMUM, "MAX"),
}


def read_histogram(
    node: exp.Anonymous, question: QuestionDraft
) -> tuple[Expression, Expression, Fraction]:
    """Read HISTOGRAM(x, bins).

    Returns x, the key of its bins (0, w, 2w, ...), and the lower edge of the first.
    """
    scope = question.scope
    if not 1 <= len(node.expressions) <= 2:
        raise scope.context.error("HISTOGRAM takes a number and perhaps how many bins", node)
    value = resolve_expression(node.expressions[0], scope)
    domain = scope.domain(value, node)
    if domain.kind != "number":
        raise scope.context.error(
            f"HISTOGRAM needs a number with declared bounds, not a {domain.kind}: GROUP BY it", node
        )
    bins = (
        resolve_expression(node.expressions[1], scope) if len(node.expressions) == 2 else number(10)
    )
    most_bins = bins.value if isinstance(bins, Value) else None
    if (
        not isinstance(most_bins, Fraction)
        or most_bins.denominator != 1
        or not 1 <= most_bins <= 10_000
    ):
        raise scope.context.error("HISTOGRAM takes a constant number of bins from 1 to 10000", node)
    low = domain.low * domain.step
    steps = domain.high - domain.low + 1
    width = -(-steps // int(most_bins)) * domain.step
    shifted: Expression = Call("subtract", (value, number(low))) if low else value
    return value, Call("bin", (shifted, number(width))), low
