"""Expressions over aggregates and keys: arithmetic on released numbers, as a recipe's formulas."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from sqlglot import exp

from dither.errors import QueryError
from dither.plan.algebra import Value
from dither.question.expressions import FUNCTIONS, Apply, Constant, Formula, Grouping, KeyValue, count_nodes
from dither.rules import PrivacyRule
from dither.sql.aggregates import aggregate
from dither.sql.expressions import expression, flattened, no_rule
from dither.sql.functions import REFUSED_TYPES
from dither.sql.per_unit import contains_aggregate, is_aggregate
from dither.sql.question import Question
from dither.sql.refusals.refuse import did_you_mean, refused

_PLAIN: dict[type[exp.Expr], str] = {
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
_ONE: dict[type[exp.Expr], str] = {
    exp.Neg: "negate",
    exp.Abs: "abs",
    exp.Sqrt: "sqrt",
    exp.Floor: "floor",
    exp.Ceil: "ceil",
    exp.Sign: "sign",
    exp.Ln: "ln",
    exp.Exp: "exp",
}
_MANY: dict[type[exp.Expr], str] = {exp.Least: "least", exp.Greatest: "greatest", exp.Coalesce: "coalesce"}
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UINT", "UBIGINT")


MAX_NODES = 2_000
MOST_POWER = 100
TOO_LARGE = (
    "a constant beside aggregates lies beyond 1e100 or below 1e-100, where no error can be computed: rescale it "
    f"{PrivacyRule.BOUNDED_WORK.label}"
)


def is_computable(value: Fraction) -> bool:
    """Whether a constant over aggregates is one that errors can be computed with, in floats."""
    return not value or 1 <= abs(value) * 10**MOST_POWER <= 10 ** (2 * MOST_POWER)


@dataclass(frozen=True)
class Outer:
    """Where a formula is read: the question, and outputs that it may call by name."""

    question: Question
    outputs: dict[str, Formula] = field(default_factory=dict)
    outputs_first: bool = False
    outputs_only: bool = False


def formula(node: exp.Expr, outer: Outer) -> Formula:
    """The formula of an expression over aggregates, keys and constants; of bounded size."""
    made = _read_formula(node, outer)
    check_size((made,), outer.question, node)
    return made


def check_size(formulas: Iterable[Formula], question: Question, node: exp.Expr | None = None) -> None:
    """Refuse formulas that are too long together. Formulas over answers grow with every SELECT around them."""
    if sum(map(count_nodes, formulas)) > MAX_NODES:
        raise question.scope.at.error(
            f"columns, HAVING and ORDER BY together have more than {MAX_NODES} steps when the columns that they read "
            f"are written out: ask fewer of them, or compute them from the answer {PrivacyRule.BOUNDED_WORK.label}",
            node,
        )


def _read_formula(node: exp.Expr, outer: Outer) -> Formula:
    question = outer.question
    if not isinstance(node, exp.Expr):
        raise question.scope.at.error("an argument is missing")
    node = node.unnest()
    if isinstance(node, exp.Column) and outer.outputs_only:
        return _output(node, outer)
    if isinstance(node, exp.Column) and outer.outputs_first and _named(node, outer) is not None:
        return outer.outputs[node.name.lower()]
    if isinstance(node, exp.Null):
        return Constant(None)
    if is_aggregate(node) and not outer.outputs_only:
        return aggregate(node, question)
    if isinstance(node, (exp.Grouping, exp.GroupingId)):
        return _grouping(node, question)
    if isinstance(node, exp.Window):
        raise refused("window", question.scope.at, node)
    if not contains_aggregate(node) and not (outer.outputs_only and node.find(exp.Column)):
        found = _public(node, outer)
        if found is not None:
            return found
    if isinstance(node, exp.Column):
        return _column(node, outer)
    return _applied(node, outer)


def _output(node: exp.Column, outer: Outer) -> Formula:
    """A column of the answer that is read."""
    found = outer.outputs.get(node.name.lower())
    if found is None:
        at = outer.question.scope.at
        raise at.error(f"no column {node.name}: {did_you_mean(node.name, list(outer.outputs))}", node)
    return found


def condition(node: exp.Expr, outer: Outer) -> Formula:
    """The formula of a condition: a truth value, and no other number."""
    made = formula(node, outer)
    if not _is_truth(made, outer.question):
        shown = node.sql(dialect="duckdb")[:40]
        raise outer.question.scope.at.error(f"{shown} is no truth value: compare it, as in {shown} > 0", node)
    return made


def _is_truth(made: Formula, question: Question) -> bool:
    if isinstance(made, Constant):
        return made.value in (None, 0, 1)
    if isinstance(made, KeyValue):
        return question.scope.domain(question.keys[made.key].value).kind == "boolean"
    if isinstance(made, Apply) and made.name in ("case", "coalesce"):
        values = made.arguments if made.name == "coalesce" else (*made.arguments[1:-1:2], made.arguments[-1])
        return all(_is_truth(each, question) for each in values)
    return isinstance(made, Apply) and (FUNCTIONS[made.name] == "conditions")


def _tests(node: exp.Expr) -> list[exp.Expr]:
    """The conditions of a CASE or IF."""
    if isinstance(node, exp.Case) and node.args.get("this") is None:
        return [each.this for each in node.args["ifs"]]
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Boolean):
        return [node.this]
    return [node.this] if isinstance(node, exp.If) else []


def _named(node: exp.Column, outer: Outer) -> Formula | None:
    return outer.outputs.get(node.name.lower()) if not node.table else None


def _column(node: exp.Column, outer: Outer) -> Formula:
    found = _named(node, outer)
    if found is not None:
        return found
    scope = outer.question.scope
    if isinstance(node.this, exp.Star):
        raise refused("rows", scope.at, node)
    known = scope.field(node)
    if known.of is None or scope.domain(known.of).kind == "id":
        raise refused("id", scope.at, node)
    raise refused("not a key", scope.at, node)


def _public(node: exp.Expr, outer: Outer) -> Formula | None:
    """A constant, or a key: what is known without noise. None if it is neither as a whole."""
    try:
        value = expression(node, outer.question.scope)
    except QueryError:
        if isinstance(node, (exp.Literal, exp.Boolean)):
            raise
        return None
    if isinstance(value, Value):
        return _constant(value, node, outer)
    place = outer.question.key_index(value)
    return None if place is None else KeyValue(place)


def _constant(value: Value, node: exp.Expr, outer: Outer) -> Constant:
    if isinstance(value.value, Fraction) and not is_computable(value.value):
        raise outer.question.scope.at.error(TOO_LARGE, node)
    if value.kind in ("date", "timestamp") and isinstance(value.value, Fraction):
        return Constant(value.value, "date" if value.kind == "date" else "timestamp")
    return Constant(value.value)


def _grouping(node: exp.Expr, question: Question) -> Formula:
    """GROUPING(a, b): one bit per key, 1 where the row's grouping set leaves it out."""
    made: Formula | None = None
    for each in node.expressions or [node.this]:
        place = question.key_index(expression(each, question.scope))
        if place is None:
            raise question.scope.at.error("GROUPING takes keys of the GROUP BY", each)
        bit: Formula = Grouping(place)
        made = bit if made is None else Apply("add", (Apply("multiply", (made, Constant(Fraction(2)))), bit))
    assert made is not None
    return made


def _applied(node: exp.Expr, outer: Outer) -> Formula:
    tests: dict[int, Formula] = {}

    def of(*nodes: exp.Expr) -> tuple[Formula, ...]:
        return tuple(tests[id(child)] if id(child) in tests else formula(child, outer) for child in nodes)

    kind = type(node)
    if kind in _PLAIN:
        made = Apply(_PLAIN[kind], of(node.this, node.expression))
        if isinstance(node, (exp.Mul, exp.Div)):
            _check_factors(made, node, outer)
        return made
    if isinstance(node, exp.Not):
        return Apply("not", (condition(node.this, outer),))
    if kind in _ONE:
        return Apply(_ONE[kind], of(node.this))
    if kind in _MANY:
        return Apply(_MANY[kind], of(node.this, *node.expressions))
    if isinstance(node, (exp.And, exp.Or)):
        parts = tuple(condition(each, outer) for each in flattened(node, kind))
        return Apply("and" if isinstance(node, exp.And) else "or", parts)
    # Each test is read once: reading it again in its rule would double the work at each level of nesting.
    tests.update({id(test): condition(test, outer) for test in _tests(node)})
    if rule := _RULES.get(kind):
        return rule(node, of)
    if kind in REFUSED_TYPES or not list(node.find_all(exp.Column)):
        raise no_rule(node, outer.question.scope)
    if not contains_aggregate(node):
        for each in node.find_all(exp.Column):
            formula(each, outer)  # says which column is no key
        raise outer.question.scope.at.error(
            f"this function of a key is not computed after the noise: put it into GROUP BY {PrivacyRule.NO_RULE.label}",
            node,
        )
    words = node.sql(dialect="duckdb")
    shown = words if len(words) <= 60 else words[:57] + "..."
    raise outer.question.scope.at.error(
        f"no rule for {shown} over aggregates: arithmetic, comparisons, CASE, ROUND, ABS, SQRT, LEAST, GREATEST, "
        f"COALESCE and NULLIF are computed after the noise {PrivacyRule.NO_RULE.label}",
        node,
    )


def _check_factors(made: Formula, node: exp.Expr, outer: Outer) -> None:
    """Refuse products of constants that leave what floats hold: each is small enough, all together need not be."""
    low, high = _magnitudes(made)
    if low < -MOST_POWER or high > MOST_POWER:
        raise outer.question.scope.at.error(TOO_LARGE, node)


def _magnitudes(made: Formula) -> tuple[int, int]:
    """Between which powers of ten the constants of a formula scale what is released."""
    match made:
        case Constant(value) if isinstance(value, Fraction) and value:
            power = len(str(abs(value.numerator))) - len(str(value.denominator))
            return power, power
        case Apply("divide", (above, below)):
            (low, high), (least, most) = _magnitudes(above), _magnitudes(below)
            return low - most, high - least
        case Apply("multiply", parts):
            ends = [_magnitudes(part) for part in parts]
            return sum(low for low, _ in ends), sum(high for _, high in ends)
        case Apply(_, parts) if parts:
            ends = [_magnitudes(part) for part in parts]
            return min(low for low, _ in ends), max(high for _, high in ends)
    return 0, 0


Of = Callable[..., tuple[Formula, ...]]


def _round(node: exp.Expr, of: Of) -> Formula:
    decimals = node.args.get("decimals")
    return Apply("round", (*of(node.this), *(of(decimals) if decimals is not None else (Constant(Fraction(0)),))))


def _case(node: exp.Expr, of: Of) -> Formula:
    parts: list[Formula] = []
    for each in node.args["ifs"]:
        test = of(node.this, each.this) if node.args.get("this") is not None else of(each.this)
        parts += [Apply("eq", test) if len(test) == 2 else test[0], *of(each.args["true"])]
    default = node.args.get("default")
    return Apply("case", (*parts, *(of(default) if default is not None else (Constant(None),))))


def _if(node: exp.Expr, of: Of) -> Formula:
    rest = node.args.get("false")
    return Apply("case", (*of(node.this, node.args["true"]), *(of(rest) if rest is not None else (Constant(None),))))


def _is(node: exp.Expr, of: Of) -> Formula:
    (value,) = of(node.this)
    if isinstance(node.expression, exp.Null):
        made = Apply("is_null", (value,))
    else:
        wanted = Constant(Fraction(int(bool(node.expression.this))))
        made = Apply("coalesce", (Apply("eq", (value, wanted)), Constant(Fraction(0))))
    return Apply("not", (made,)) if node.args.get("negate") else made


def _between(node: exp.Expr, of: Of) -> Formula:
    value, low, high = of(node.this, node.args["low"], node.args["high"])
    return Apply("and", (Apply("ge", (value, low)), Apply("le", (value, high))))


def _in(node: exp.Expr, of: Of) -> Formula:
    value, *listed = of(node.this, *node.expressions)
    parts = tuple(Apply("eq", (value, each)) for each in listed)
    return parts[0] if len(parts) == 1 else Apply("or", parts)


def _truncated(value: Formula) -> Formula:
    return Apply("multiply", (Apply("sign", (value,)), Apply("floor", (Apply("abs", (value,)),))))


def _integer_divide(node: exp.Expr, of: Of) -> Formula:
    return _truncated(Apply("divide", of(node.this, node.expression)))


def _mod(node: exp.Expr, of: Of) -> Formula:
    left, right = of(node.this, node.expression)
    return Apply("subtract", (left, Apply("multiply", (right, _truncated(Apply("divide", (left, right)))))))


def _cast(node: exp.Expr, of: Of) -> Formula:
    to = node.args["to"]
    name = to.this.name if hasattr(to.this, "name") else ""
    (value,) = of(node.this)
    if name in _NUMBERS:
        return Apply("round", (value, Constant(Fraction(0))))
    if name == "DECIMAL" and len(to.expressions) == 2:
        return Apply("round", (value, *of(to.expressions[1].this)))
    if name in ("DOUBLE", "FLOAT", "DECIMAL"):
        return value
    raise QueryError(f"CAST to {name.lower()} over aggregates is not answered: CAST to DOUBLE, DECIMAL or INTEGER")


_RULES: dict[type[exp.Expr], Callable[[exp.Expr, Of], Formula]] = {
    exp.Round: _round,
    exp.Case: _case,
    exp.If: _if,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.IntDiv: _integer_divide,
    exp.Mod: _mod,
    exp.Cast: _cast,
}
