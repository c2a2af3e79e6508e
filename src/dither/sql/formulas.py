"""Expressions over aggregates and keys: arithmetic on released numbers, as a recipe's formulas."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dither.errors import QueryError
from dither.plan.algebra import Value
from dither.question.expressions import (
    FUNCTIONS,
    Apply,
    Constant,
    Formula,
    Grouping,
    KeyValue,
    count_nodes,
)
from dither.rules import PrivacyRule
from dither.sql.aggregates import read_aggregate
from dither.sql.expressions import flatten_chain, refuse_node, resolve_expression
from dither.sql.formula_rules import FORMULA_RULES
from dither.sql.functions import REFUSED_TYPES
from dither.sql.per_unit import contains_aggregate, is_aggregate
from dither.sql.question import QuestionDraft
from dither.sql.refusals.refuse import did_you_mean, make_refusal, quote_node

_BINARY: dict[type[exp.Expr], str] = {
    exp.Add: "add",
    exp.Sub: "subtract",
    exp.Mul: "multiply",
    exp.Div: "divide",
    exp.Pow: "power",
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.Nullif: "nullif",
}
_UNARY: dict[type[exp.Expr], str] = {
    exp.Neg: "negate",
    exp.Abs: "abs",
    exp.Sqrt: "sqrt",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Sign: "sign",
    exp.Ln: "ln",
    exp.Exp: "exp",
}
_VARIADIC: dict[type[exp.Expr], str] = {
    exp.Least: "least",
    exp.Greatest: "greatest",
    exp.Coalesce: "coalesce",
}


MAX_NODES = 2_000
MOST_POWER = 100
TOO_LARGE = (
    "a constant beside aggregates lies beyond 1e100 or below 1e-100, where no error can be "
    f"computed: rescale it {PrivacyRule.BOUNDED_WORK.label}"
)


def is_computable(value: Fraction) -> bool:
    """Whether a constant over aggregates is one that errors can be computed with, in floats."""
    return not value or 1 <= abs(value) * 10**MOST_POWER <= 10 ** (2 * MOST_POWER)


@dataclass(frozen=True)
class Outer:
    """The question that a formula belongs to, and the outputs that it may call by name."""

    question: QuestionDraft
    outputs: dict[str, Formula] = field(default_factory=dict)
    outputs_first: bool = False
    outputs_only: bool = False


def read_formula(node: exp.Expr, outer: Outer) -> Formula:
    """The formula of an expression over aggregates, keys and constants; of bounded size."""
    value = _read_node(node, outer)
    check_size((value,), outer.question, node)
    return value


def check_size(
    formulas: Iterable[Formula], question: QuestionDraft, node: exp.Expr | None = None
) -> None:
    """Refuse formulas that are too long together.

    Formulas over answers grow with every SELECT around them.
    """
    if sum(map(count_nodes, formulas)) > MAX_NODES:
        raise question.scope.context.error(
            f"columns, HAVING and ORDER BY together have more than {MAX_NODES} steps when the "
            "columns that they read are written out: ask fewer of them, or compute them from the "
            f"answer {PrivacyRule.BOUNDED_WORK.label}",
            node,
        )


def _read_node(node: exp.Expr, outer: Outer) -> Formula:
    """Read one node: an output by name, an aggregate, a key, a constant, or a function of those."""
    question = outer.question
    if not isinstance(node, exp.Expr):
        raise question.scope.context.error("an argument is missing")
    node = node.unnest()
    if isinstance(node, exp.Column) and outer.outputs_only:
        return _find_output(node, outer)
    if (
        isinstance(node, exp.Column)
        and outer.outputs_first
        and _find_named_output(node, outer) is not None
    ):
        return outer.outputs[node.name.lower()]
    if isinstance(node, exp.Null):
        return Constant(None)
    if is_aggregate(node) and not outer.outputs_only:
        return read_aggregate(node, question)
    if isinstance(node, (exp.Grouping, exp.GroupingId)):
        return _read_grouping(node, question)
    if isinstance(node, exp.Window):
        raise make_refusal("window", question.scope.context, node)
    if isinstance(node, exp.Query):
        raise refuse_node(node, question.scope)
    if not contains_aggregate(node) and not (outer.outputs_only and node.find(exp.Column)):
        public_value = _read_public(node, outer)
        if public_value is not None:
            return public_value
    if isinstance(node, exp.Column):
        return _read_column(node, outer)
    return _apply_rule(node, outer)


def _find_output(node: exp.Column, outer: Outer) -> Formula:
    """Return the formula of a column of the inner answer.

    Raises QueryError where there is none of this name.
    """
    output = outer.outputs.get(node.name.lower())
    if output is None:
        context = outer.question.scope.context
        raise context.error(
            f"no column {node.name}: {did_you_mean(node.name, list(outer.outputs))}", node
        )
    return output


def read_condition(node: exp.Expr, outer: Outer) -> Formula:
    """Read a condition over aggregates. Raises QueryError for a formula that is no truth value."""
    value = read_formula(node, outer)
    if not _is_truth(value, outer.question):
        text = node.sql(dialect="duckdb")[:40]
        raise outer.question.scope.context.error(
            f"{text} is no truth value: compare it, as in {text} > 0", node
        )
    return value


def _is_truth(value: Formula, question: QuestionDraft) -> bool:
    """Whether a formula gives a truth value, whatever it reads."""
    if isinstance(value, Constant):
        return value.value in (None, 0, 1)
    if isinstance(value, KeyValue):
        return question.scope.domain(question.keys[value.key].value).kind == "boolean"
    if isinstance(value, Apply) and value.name in ("case", "coalesce"):
        choices = (
            value.arguments
            if value.name == "coalesce"
            else (*value.arguments[1:-1:2], value.arguments[-1])
        )
        return all(_is_truth(choice, question) for choice in choices)
    return isinstance(value, Apply) and (FUNCTIONS[value.name] == "conditions")


def _list_tests(node: exp.Expr) -> list[exp.Expr]:
    """List the conditions of a CASE, IF or IS TRUE."""
    if isinstance(node, exp.Case) and node.args.get("this") is None:
        return [branch.this for branch in node.args["ifs"]]
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        return [node.this]
    return [node.this] if isinstance(node, exp.If) else []


def _find_named_output(node: exp.Column, outer: Outer) -> Formula | None:
    return outer.outputs.get(node.name.lower()) if not node.table else None


def _read_column(node: exp.Column, outer: Outer) -> Formula:
    """Read a column outside an aggregate: an output of this name.

    Raises QueryError for ids, `*`, and columns that are no keys.
    """
    output = _find_named_output(node, outer)
    if output is not None:
        return output
    scope = outer.question.scope
    if isinstance(node.this, exp.Star):
        raise make_refusal("rows", scope.context, node)
    field = scope.field(node)
    if field.of is None or scope.domain(field.of).kind == "id":
        raise make_refusal("id", scope.context, node)
    raise make_refusal("not a key", scope.context, node)


def _read_public(node: exp.Expr, outer: Outer) -> Formula | None:
    """Read a constant or a key: what is known without noise. None if it is neither as a whole."""
    try:
        value = resolve_expression(node, outer.question.scope)
    except QueryError:
        if isinstance(node, (exp.Literal, exp.Boolean)):
            raise
        return None
    if isinstance(value, Value):
        return _make_constant(value, node, outer)
    index = outer.question.find_key(value)
    return None if index is None else KeyValue(index)


def _make_constant(value: Value, node: exp.Expr, outer: Outer) -> Constant:
    """Make a constant of formulas. Raises QueryError for a number too large to compute with."""
    if isinstance(value.value, Fraction) and not is_computable(value.value):
        raise outer.question.scope.context.error(TOO_LARGE, node)
    if value.kind in ("date", "timestamp") and isinstance(value.value, Fraction):
        return Constant(value.value, "date" if value.kind == "date" else "timestamp")
    return Constant(value.value)


def _read_grouping(node: exp.Expr, question: QuestionDraft) -> Formula:
    """Read GROUPING(a, b): one bit per key, 1 where the row's grouping set leaves it out."""
    bits: Formula | None = None
    for key in node.expressions or [node.this]:
        index = question.find_key(resolve_expression(key, question.scope))
        if index is None:
            raise question.scope.context.error("GROUPING takes keys of the GROUP BY", key)
        bit: Formula = Grouping(index)
        bits = (
            bit
            if bits is None
            else Apply("add", (Apply("multiply", (bits, Constant(Fraction(2)))), bit))
        )
    assert bits is not None
    return bits


def _apply_rule(node: exp.Expr, outer: Outer) -> Formula:
    """Apply the rule of a node's kind to the formulas inside it; refuse kinds without one."""
    tests: dict[int, Formula] = {}

    def read_nodes(*nodes: exp.Expr) -> tuple[Formula, ...]:
        return tuple(
            tests[id(child)] if id(child) in tests else read_formula(child, outer)
            for child in nodes
        )

    kind = type(node)
    if kind in _BINARY:
        result = Apply(_BINARY[kind], read_nodes(node.this, node.expression))
        if isinstance(node, (exp.Mul, exp.Div)):
            _check_factors(result, node, outer)
        return result
    if isinstance(node, exp.Not):
        return Apply("not", (read_condition(node.this, outer),))
    if kind in _UNARY:
        return Apply(_UNARY[kind], read_nodes(node.this))
    if kind in _VARIADIC:
        return Apply(_VARIADIC[kind], read_nodes(node.this, *node.expressions))
    if isinstance(node, (exp.And, exp.Or)):
        operands = tuple(read_condition(operand, outer) for operand in flatten_chain(node, kind))
        return Apply("and" if isinstance(node, exp.And) else "or", operands)
    # Each test is read once: reading it again in its rule would double the work at each level of
    # nesting.
    tests.update({id(test): read_condition(test, outer) for test in _list_tests(node)})
    if rule := FORMULA_RULES.get(kind):
        return rule(node, read_nodes)
    if kind in REFUSED_TYPES or not list(node.find_all(exp.Column)):
        raise refuse_node(node, outer.question.scope)
    if not contains_aggregate(node):
        for column in node.find_all(exp.Column):
            read_formula(column, outer)  # says which column is no key
        raise outer.question.scope.context.error(
            "this function of a key is not computed after the noise: put it into GROUP BY "
            f"{PrivacyRule.NO_RULE.label}",
            node,
        )
    raise outer.question.scope.context.error(
        f"no rule for {quote_node(node)} over aggregates: arithmetic, comparisons, CASE, ROUND, "
        f"ABS, SQRT, LEAST, "
        f"GREATEST, COALESCE and NULLIF are computed after the noise {PrivacyRule.NO_RULE.label}",
        node,
    )


def _check_factors(product: Formula, node: exp.Expr, outer: Outer) -> None:
    """Refuse products of constants that leave what floats hold: each is small enough, all together
    need not be."""
    low, high = _find_magnitudes(product)
    if low < -MOST_POWER or high > MOST_POWER:
        raise outer.question.scope.context.error(TOO_LARGE, node)


def _find_magnitudes(formula: Formula) -> tuple[int, int]:
    """Find between which powers of ten the constants of a formula scale what is released."""
    match formula:
        case Constant(value) if isinstance(value, Fraction) and value:
            power = len(str(abs(value.numerator))) - len(str(value.denominator))
            return power, power
        case Apply("divide", (above, below)):
            low, high = _find_magnitudes(above)
            term_low, term_high = _find_magnitudes(below)
            return low - term_high, high - term_low
        case Apply("multiply", arguments):
            ends = [_find_magnitudes(argument) for argument in arguments]
            return sum(low for low, _ in ends), sum(high for _, high in ends)
        case Apply(_, arguments) if arguments:
            ends = [_find_magnitudes(argument) for argument in arguments]
            return min(low for low, _ in ends), max(high for _, high in ends)
    return 0, 0
