"""Expressions of SQL become expressions of plans: every node has a rule here and in the table, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from sqlglot import exp

from dither.plan.algebra import Call, Expression, Value
from dither.plan.domain import Domain
from dither.plan.functions import FAMILIES, REFUSED, TABLE
from dither.plan.functions.calendar import plus_months
from dither.sql import constants
from dither.sql.constants import as_kind, folded, number
from dither.sql.functions import PARTS, PERIODS, REFUSED_TYPES, SAME, TYPED
from dither.sql.refuse import did_you_mean, refused
from dither.sql.scope import Field, Scope, worded

COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "eq",
    exp.NEQ: "ne",
    exp.LT: "lt",
    exp.LTE: "le",
    exp.GT: "gt",
    exp.GTE: "ge",
    exp.NullSafeNEQ: "is_distinct_from",
}
_TEXT = {function.name for function in FAMILIES["text"]} - {"label"}
_DATES = {function.name for function in FAMILIES["dates"]} - {"hour", "minute", "second", "date_of"}
_ORDERED = ("lt", "le", "gt", "ge", "between")
_KINDS = {"number": "a number", "date": "a date", "timestamp": "a timestamp", "boolean": "a truth value"}
_EXAMPLES = {
    "number": "a number",
    "date": "DATE '2026-01-31'",
    "timestamp": "TIMESTAMP '2026-01-31 12:00:00'",
    "boolean": "TRUE or FALSE",
}
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "INT128", "UTINYINT", "USMALLINT", "UINT", "UBIGINT")
_REALS = ("DOUBLE", "FLOAT")


def expression(node: exp.Expr, scope: Scope) -> Expression:
    """The plan's expression for a SQL expression over the rows of a relation."""
    if not isinstance(node, exp.Expr):
        raise scope.at.error("an argument is missing")
    if id(node) in scope.found:
        return scope.found[id(node)]
    if rule := RULES.get(type(node)):
        return rule(node, scope)
    if type(node) in COMPARISONS:
        return call(COMPARISONS[type(node)], (node.this, node.expression), node, scope)
    if type(node) in TYPED:
        function, arguments = TYPED[type(node)]
        given = arguments(node)
        while given and given[-1] is None:
            given.pop()
        if None in given:
            raise no_rule(node, scope)
        return call(function, tuple(each for each in given if each is not None), node, scope)
    if isinstance(node, exp.Anonymous):
        return _anonymous(node, scope)
    raise no_rule(node, scope)


def no_rule(node: exp.Expr, scope: Scope) -> Exception:
    at = scope.at
    if isinstance(node, exp.Window):
        return refused("window", at, node)
    if isinstance(node, exp.Exists) or (isinstance(node, exp.In) and node.args.get("query")):
        return refused("subquery place", at, node)
    if isinstance(node, (exp.Subquery, exp.Select, exp.Any, exp.All)):
        return refused("scalar subquery", at, node)
    if isinstance(node, (exp.Placeholder, exp.Parameter)):
        return refused("parameter", at, node)
    if isinstance(node, exp.Null):
        return refused("null constant", at, node)
    if isinstance(node, exp.Interval):
        return refused("interval", at, node)
    if type(node) in REFUSED_TYPES:
        name = REFUSED_TYPES[type(node)]
        return at.error(f"{name} is refused: {REFUSED[name]} [rule: a function without a rule is refused]", node)
    if isinstance(node, (exp.AggFunc, exp.Filter, exp.WithinGroup, exp.Grouping)):
        return refused("aggregate in where", at, node)
    shown = node.sql(dialect="duckdb")
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return at.error(
        f"no rule for {shown}: the functions that a question can use are in docs/reference/functions.md "
        "[rule: a function without a rule is refused]",
        node,
    )


def call(function: str, nodes: tuple[exp.Expr, ...], node: exp.Expr, scope: Scope) -> Expression:
    """A function of the table over SQL arguments."""
    return apply(function, tuple(expression(each, scope) for each in nodes), node, scope)


def apply(function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope) -> Expression:
    """A function of the table over arguments, with what SQL leaves unsaid: labels, days and times as texts."""
    if (constant := folded(function, arguments)) is not None:
        return constant
    domains = [scope.domain(each, node) for each in arguments]
    if any(domain.kind == "id" for domain in domains):
        raise refused("id", scope.at, node)
    if function in _TEXT:
        arguments = tuple(_as_text(each, domain) for each, domain in zip(arguments, domains, strict=True))
    elif function in _DATES:
        arguments = tuple(
            Call("date_of", (each,)) if domain.kind == "timestamp" and function not in _TIMES else each
            for each, domain in zip(arguments, domains, strict=True)
        )
        arguments = _of_one_kind(function, arguments, node, scope)
    elif function in _COMPARED:
        arguments = _of_one_kind(function, arguments, node, scope)
        if function in _ORDERED and scope.domain(arguments[0]).kind in ("category", "text", "boolean"):
            kind = scope.domain(arguments[0]).kind
            said = "truth value" if kind == "boolean" else kind
            raise scope.at.error(f"{_said(node, scope, kind)} is a {said}: compare it with = or <>", node)
    made = Call(function, arguments)
    scope.domain(made, node)
    return made


_TIMES = ("add_seconds", "seconds_between")
_MOVED = {"date": ("add_days", "add_months"), "timestamp": ("add_seconds",)}
_COMPARED = ("eq", "ne", "lt", "le", "gt", "ge", "between", "in", "is_distinct_from", "nullif", "coalesce")


def _as_text(argument: Expression, domain: Domain) -> Expression:
    return Call("label", (argument,)) if domain.kind == "category" else argument


def _of_one_kind(
    function: str, arguments: tuple[Expression, ...], node: exp.Expr, scope: Scope
) -> tuple[Expression, ...]:
    """Text constants as what they stand beside: days, times, labels; an error that says what was expected."""
    known = next(
        (d for a in arguments if not (isinstance(a, Value) and a.kind == "text") for d in [scope.domain(a)]), None
    )
    if known is None or known.kind in ("text", "id"):
        return arguments
    return tuple(_beside(each, known, function, node, scope) for each in arguments)


def _beside(argument: Expression, known: Domain, function: str, node: exp.Expr, scope: Scope) -> Expression:
    found = scope.domain(argument, node)
    if not isinstance(argument, Value):
        if known.kind == "timestamp" and found.kind == "date" and function in _COMPARED:
            raise scope.at.error("a timestamp is compared with a timestamp: write CAST(... AS DATE) for its day", node)
        return argument
    if known.kind == "category":
        if argument.kind == "text" and argument.value not in known.labels and function != "coalesce":
            labels = list(known.labels)
            hint = did_you_mean(str(argument.value), labels) if len(labels) <= 50 else "see the catalog"
            what = _said(node, scope, "category")
            raise scope.at.error(f"{what} has no declared label {str(argument.value)!r}: {hint}", node)
        if argument.kind != "text":
            raise scope.at.error(
                f"{_said(node, scope, 'category')} is a category: compare it with a quoted label", node
            )
        return argument
    if argument.kind == "text":
        value = as_kind(argument, known.kind, known.offset)
        if value is not None:
            return value
    elif argument.kind == "date" and known.kind == "timestamp":
        assert isinstance(argument.value, Fraction)
        return Value("timestamp", argument.value * 86_400 - known.offset)
    elif argument.kind == known.kind or (argument.kind == "number" and function in _MOVED.get(known.kind, ())):
        return argument
    what = _said(node, scope, known.kind)
    raise scope.at.error(f"{what} is {_KINDS[known.kind]}: compare it with {_EXAMPLES[known.kind]}", node)


def _said(node: exp.Expr, scope: Scope, kind: str) -> str:
    """The column of that kind in a node, as written; else its SQL."""
    for each in node.find_all(exp.Column):
        if isinstance(each.this, exp.Identifier):
            found = scope.candidates(each)
            if found and found[0].of is not None and scope.domain(found[0].of).kind == kind:
                return str(each.name)
    shown = node.this.sql(dialect="duckdb") if isinstance(node.this, exp.Expr) else "this"
    return shown if len(shown) <= 40 else "this"


def _column(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise refused("rows", scope.at, node)
    return value_of(scope.field(node), node, scope)


def value_of(found: Field, node: exp.Expr, scope: Scope) -> Expression:
    """The value of a field: never an id; codes as the texts they stand for."""
    if found.of is None or scope.domain(found.of, node).kind == "id":
        raise refused("id", scope.at, node)
    if found.labels:
        return worded(found.of, found.labels)
    return found.of


def _literal(node: exp.Expr, scope: Scope) -> Expression:
    assert isinstance(node, exp.Literal)
    found = constants.literal(node)
    if found is None:
        raise scope.at.error(f"{str(node.this)[:40]} is no number that can be read exactly", node)
    return found


def _sum(node: exp.Expr, scope: Scope) -> Expression:
    """a + b + c: numbers, or a date and days."""
    left, right = node.this, node.expression
    if isinstance(left, exp.Interval):
        left, right = right, left
    if isinstance(right, exp.Interval):
        return _later(left, right, 1, node, scope)
    one, two = expression(left, scope), expression(right, scope)
    kinds = scope.domain(one, node).kind, scope.domain(two, node).kind
    if "date" in kinds:
        one, two = (one, two) if kinds[0] == "date" else (two, one)
        return _add_days(one, two, node, scope)
    parts: list[Expression] = []
    for each in (one, two):
        inner = each.arguments if isinstance(each, Call) and each.function == "add" else (each,)
        parts += inner
    if len(parts) > 50:
        parts = [one, two]
    return apply("add", tuple(parts), node, scope)


def _difference(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.expression, exp.Interval):
        return _later(node.this, node.expression, -1, node, scope)
    left, right = expression(node.this, scope), expression(node.expression, scope)
    kinds = scope.domain(left, node).kind, scope.domain(right, node).kind
    if kinds[0] in ("date", "timestamp") and kinds[1] == "number":
        return _add_days(left, apply("negate", (right,), node, scope), node, scope)
    if "date" in kinds:
        return apply("days_between", (right, left), node, scope)
    if "timestamp" in kinds:
        return apply("seconds_between", (right, left), node, scope)
    return apply("subtract", (left, right), node, scope)


def _add_days(day: Expression, days: Expression, node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(day, Value) and isinstance(days, Value) and day.kind == "date" and days.kind == "number":
        moved = Value("date", Fraction(day.value) + Fraction(days.value))
        scope.domain(moved, node)
        return moved
    return apply("add_days", (day, days), node, scope)


def _later(source: exp.Expr, by: exp.Interval, sign: int, node: exp.Expr, scope: Scope) -> Expression:
    day, read = expression(source, scope), constants.interval(by)
    if isinstance(day, Value) and day.kind == "text":
        day = as_kind(day, "date") or day
    if read is None:
        raise refused("interval", scope.at, node)
    amount, unit = sign * read[0], read[1]
    if scope.domain(day, node).kind == "timestamp" and unit in constants.SECONDS:
        return apply("add_seconds", (day, number(amount * constants.SECONDS[unit])), node, scope)
    if unit in constants.DAYS:
        return _add_days(day, number(amount * constants.DAYS[unit]), node, scope)
    if unit not in constants.MONTHS:
        raise refused("interval", scope.at, node)
    months = amount * constants.MONTHS[unit]
    if isinstance(day, Value) and day.kind == "date" and abs(months) <= 120_000:
        moved = Value("date", Fraction(plus_months(int(Fraction(day.value)), months)))
        scope.domain(moved, node)
        return moved
    return apply("add_months", (day, number(months)), node, scope)


def _all(function: str) -> Callable[[exp.Expr, Scope], Expression]:
    """AND and OR, flattened: a long list of conditions is not a deep one."""

    def rule(node: exp.Expr, scope: Scope) -> Expression:
        parts = [expression(each, scope) for each in flattened(node, type(node))]
        while len(parts) > 50:
            pieces = [tuple(parts[i : i + 50]) for i in range(0, len(parts), 50)]
            parts = [Call(function, piece) if len(piece) > 1 else piece[0] for piece in pieces]
        return apply(function, tuple(parts), node, scope)

    return rule


def flattened(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The parts of a chain of AND (or of OR), left to right, without recursion."""
    parts: list[exp.Expr] = []
    left = [node]
    while left:
        each = left.pop()
        if isinstance(each, exp.Paren) and isinstance(each.this, kind):
            left.append(each.this)
        elif isinstance(each, kind):
            left += [each.expression, each.this]
        else:
            parts.append(each)
    return parts


def _is(node: exp.Expr, scope: Scope) -> Expression:
    return _negated(_is_so(node, scope), node, scope)


def _is_so(node: exp.Expr, scope: Scope) -> Expression:
    if isinstance(node.expression, exp.Null):
        if isinstance(node.this, exp.Column):
            found = scope.field(node.this)
            is_id = found.of is None or scope.domain(found.of, node).kind == "id"
            if is_id and found.marker is not None:
                return Call("is_null", (found.marker,))
            if found.of is None:
                return constants.truth(False)
        return call("is_null", (node.this,), node, scope)
    if isinstance(node.expression, exp.Boolean):
        return call("is_true" if node.expression.this else "is_false", (node.this,), node, scope)
    raise no_rule(node, scope)


def _between(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("symmetric"):
        raise no_rule(node, scope)
    return call("between", (node.this, node.args["low"], node.args["high"]), node, scope)


def _in(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not node.expressions:
        raise no_rule(node, scope)
    if any(isinstance(each, exp.Null) for each in node.expressions):
        raise refused("null constant", scope.at, node)
    value = expression(node.this, scope)
    listed = [expression(each, scope) for each in node.expressions]
    if all(isinstance(each, Value) for each in listed):
        return apply("in", (value, *listed), node, scope)
    parts = tuple(apply("eq", (value, each), node, scope) for each in listed)
    return parts[0] if len(parts) == 1 else apply("or", parts, node, scope)


@dataclass(frozen=True)
class _Branch:
    condition: Expression | None
    value: Expression | None


def _case(node: exp.Expr, scope: Scope) -> Expression:
    branches = []
    for each in node.args["ifs"]:
        condition = exp.EQ(this=node.this, expression=each.this) if node.args.get("this") else each.this
        branches.append(_Branch(expression(condition, scope), _nullable(each.args["true"], scope)))
    default = node.args.get("default")
    branches.append(_Branch(None, _nullable(default, scope) if default is not None else None))
    return _choice(branches, node, scope)


def _if(node: exp.Expr, scope: Scope) -> Expression:
    rest = node.args.get("false")
    first = _Branch(expression(node.this, scope), _nullable(node.args["true"], scope))
    return _choice([first, _Branch(None, _nullable(rest, scope) if rest is not None else None)], node, scope)


def _nullable(node: exp.Expr, scope: Scope) -> Expression | None:
    return None if isinstance(node, exp.Null) else expression(node, scope)


def _choice(branches: list[_Branch], node: exp.Expr, scope: Scope) -> Expression:
    """CASE without a null constant, which plans have not: what falls through is null."""
    parts: list[Expression] = []
    skipped: list[Expression] = []
    for each in branches:
        condition = each.condition
        guards = [Call("not", (Call("is_true", (one,)),)) for one in skipped]
        if each.value is None:
            if condition is not None:
                skipped.append(condition)
            continue
        if guards or condition is not None:
            tests: list[Expression] = [*([condition] if condition is not None else []), *guards]
            parts += [tests[0] if len(tests) == 1 else Call("and", tuple(tests)), each.value]
        else:
            parts.append(each.value)
    if not parts:
        raise refused("null constant", scope.at, node)
    if len(parts) == 1:
        return parts[0]
    places = [*range(1, len(parts), 2), *([len(parts) - 1] if len(parts) % 2 else [])]
    for place, value in zip(places, _chosen([parts[p] for p in places], node, scope), strict=True):
        parts[place] = value
    made = Call("case", tuple(parts))
    scope.domain(made, node)
    return made


def _chosen(values: list[Expression], node: exp.Expr, scope: Scope) -> list[Expression]:
    """Values of one kind: categories beside other texts become texts, text constants beside days become days."""
    domains = [scope.domain(each, node) for each in values]
    category = next((d for d in domains if d.kind == "category"), None)
    if category is not None:
        plain = all(
            (d.kind == "category" and d.labels == category.labels)
            or (isinstance(v, Value) and v.kind == "text" and v.value in category.labels)
            for v, d in zip(values, domains, strict=True)
        )
        return values if plain else [_as_text(v, d) for v, d in zip(values, domains, strict=True)]
    known = next((d for v, d in zip(values, domains, strict=True) if d.kind in ("date", "timestamp")), None)
    if known is None:
        return values
    return [_beside(each, known, "eq", node, scope) for each in values]


def _coalesce(node: exp.Expr, scope: Scope) -> Expression:
    nodes = [each for each in (node.this, *node.expressions) if not isinstance(each, exp.Null)]
    values = _chosen([expression(each, scope) for each in nodes], node, scope)
    return values[0] if len(values) == 1 else apply("coalesce", tuple(values), node, scope)


def _round(node: exp.Expr, scope: Scope) -> Expression:
    decimals = node.args.get("decimals")
    return call("round", (node.this, *([decimals] if decimals is not None else [])), node, scope)


def _trunc(node: exp.Expr, scope: Scope) -> Expression:
    if node.args.get("decimals") is not None:
        raise no_rule(node, scope)
    return call("trunc", (node.this,), node, scope)


def _trim(node: exp.Expr, scope: Scope) -> Expression:
    taken = node.args.get("expression")
    if taken is not None and not (isinstance(taken, exp.Literal) and taken.this == " "):
        raise no_rule(node, scope)
    function = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(str(node.args.get("position") or ""), "trim")
    return call(function, (node.this,), node, scope)


def _pad(node: exp.Expr, scope: Scope) -> Expression:
    filled = node.args.get("fill_pattern") or exp.Literal.string(" ")
    return call("lpad" if node.args.get("is_left") else "rpad", (node.this, node.expression, filled), node, scope)


def _concat(node: exp.Expr, scope: Scope) -> Expression:
    """CONCAT(a, b) reads nulls as empty texts, a || b does not."""
    parts = []
    for each in node.expressions:
        value = expression(each, scope)
        value = _as_text(value, scope.domain(value, node))
        nullable = scope.domain(value, node).nullable
        parts.append(apply("coalesce", (value, Value("text", "")), node, scope) if nullable else value)
    return parts[0] if len(parts) == 1 else apply("concat", tuple(parts), node, scope)


def _part(name: str, source: exp.Expr, node: exp.Expr, scope: Scope) -> Expression:
    if name == "DOW":
        return _day_of_week(node, scope, source)
    if name not in PARTS:
        raise no_rule(node, scope)
    return call(PARTS[name], (source,), node, scope)


def _extract(node: exp.Expr, scope: Scope) -> Expression:
    return _part(str(node.this.name).upper(), node.expression, node, scope)


def _day_of_week(node: exp.Expr, scope: Scope, source: exp.Expr | None = None) -> Expression:
    """0 (Sunday) to 6, as the engines have it."""
    day = call("day_of_week", (source if source is not None else node.this,), node, scope)
    return apply("mod", (day, number(7)), node, scope)


def _date_trunc(node: exp.Expr, scope: Scope) -> Expression:
    unit, source = str(node.args["unit"].name).upper(), expression(node.this, scope)
    if unit == "DAY":
        is_time = scope.domain(source, node).kind == "timestamp"
        return apply("date_of", (source,), node, scope) if is_time else source
    if unit not in PERIODS:
        raise no_rule(node, scope)
    return apply(f"trunc_{PERIODS[unit]}", (source,), node, scope)


def _date_diff(node: exp.Expr, scope: Scope) -> Expression:
    """Days and whole weeks between two days; for months, quarters and years how many of their borders lie between."""
    unit = str(node.args["unit"].name).upper() if node.args.get("unit") is not None else "DAY"
    ends = []
    for each in (node.expression, node.this):
        value = expression(each, scope)
        value = (as_kind(value, "date") or value) if isinstance(value, Value) and value.kind == "text" else value
        ends.append(Call("date_of", (value,)) if scope.domain(value, node).kind == "timestamp" else value)
    first, last = ends
    if unit == "DAY":
        return apply("days_between", (first, last), node, scope)
    if unit == "WEEK":
        return apply("integer_divide", (apply("days_between", (first, last), node, scope), number(7)), node, scope)
    if unit not in constants.MONTHS:
        raise no_rule(node, scope)
    years = [apply("year", (each,), node, scope) for each in (last, first)]
    whole = apply("subtract", tuple(years), node, scope)
    if unit == "YEAR":
        return whole
    part, per = ("month", 12) if unit == "MONTH" else ("quarter", 4)
    parts = tuple(apply(part, (each,), node, scope) for each in (last, first))
    rest = apply("subtract", parts, node, scope)
    return apply("add", (apply("multiply", (whole, number(per)), node, scope), rest), node, scope)


def _date_add(sign: int) -> Callable[[exp.Expr, Scope], Expression]:
    def rule(node: exp.Expr, scope: Scope) -> Expression:
        if not isinstance(node.expression, exp.Interval):
            raise refused("interval", scope.at, node)
        return _later(node.this, node.expression, sign, node, scope)

    return rule


def _cast(node: exp.Expr, scope: Scope) -> Expression:
    to = node.args["to"]
    name = to.this.name if isinstance(to, exp.DataType) and hasattr(to.this, "name") else ""
    value = expression(node.this, scope)
    kind = scope.domain(value, node).kind
    if isinstance(value, Value) and value.kind == "text":
        if name == "DATE" and (day := as_kind(value, "date")):
            return day
        if name.startswith("TIMESTAMP") and as_kind(value, "timestamp"):
            return value  # a time without a zone: read at the zone of what it is compared with
        if name in ("TEXT", "VARCHAR"):
            return value
        raise scope.at.error(f"{str(value.value)[:40]!r} is no {name.lower()} that can be read", node)
    if name in _INTEGERS and kind in ("number", "boolean"):
        return apply("to_number" if kind == "boolean" else "to_integer", (value,), node, scope)
    if name in _REALS and kind in ("number", "boolean"):
        return apply("to_number", (value,), node, scope) if kind == "boolean" else value
    if name == "DECIMAL" and kind == "number":
        places = [each.this for each in to.expressions]
        digits = number(3) if not places else expression(places[1], scope) if len(places) > 1 else number(0)
        return apply("round", (value, digits), node, scope)
    if name == "DATE" and kind in ("date", "timestamp"):
        return value if kind == "date" else apply("date_of", (value,), node, scope)
    if name.startswith("TIMESTAMP") and kind == "timestamp":
        return value
    if name == "BOOLEAN" and kind in ("boolean", "number"):
        return value if kind == "boolean" else apply("ne", (value, number(0)), node, scope)
    if name in ("TEXT", "VARCHAR") and kind in ("text", "category"):
        return _as_text(value, scope.domain(value))
    raise refused("cast", scope.at, node)


def _date(node: exp.Expr, scope: Scope) -> Expression:
    return _cast(exp.Cast(this=node.this, to=exp.DataType.build("date")), scope)


def _like(node: exp.Expr, scope: Scope) -> Expression:
    return _negated(call("like", (node.this, node.expression), node, scope), node, scope)


def _negated(value: Expression, node: exp.Expr, scope: Scope) -> Expression:
    """`a NOT LIKE b`, which the parser notes as a flag."""
    return apply("not", (value,), node, scope) if node.args.get("negate") else value


def _anonymous(node: exp.Anonymous, scope: Scope) -> Expression:
    name = str(node.this).lower()
    name = SAME.get(name, name)
    if name == "date_part" and len(node.expressions) == 2 and isinstance(node.expressions[0], exp.Literal):
        return _part(str(node.expressions[0].this).upper(), node.expressions[1], node, scope)
    if name in TABLE:
        return call(name, tuple(node.expressions), node, scope)
    if name in REFUSED:
        raise scope.at.error(f"{name} is refused: {REFUSED[name]} [rule: a function without a rule is refused]", node)
    hint = did_you_mean(name, TABLE)
    hint = hint if hint.startswith("did") else "the list is in docs/reference/functions.md"
    raise scope.at.error(f"no function {name}: {hint} [rule: a function without a rule is refused]", node)


RULES: dict[type[exp.Expr], Callable[[exp.Expr, Scope], Expression]] = {
    exp.Paren: lambda node, scope: expression(node.this, scope),
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda node, scope: constants.truth(bool(node.this)),
    exp.Add: _sum,
    exp.Sub: _difference,
    exp.And: _all("and"),
    exp.Or: _all("or"),
    exp.Xor: lambda node, scope: call("xor", (node.this, node.expression), node, scope),
    exp.BitwiseXor: lambda node, scope: call("xor", (node.this, node.expression), node, scope),
    exp.Not: lambda node, scope: call("not", (node.this,), node, scope),
    exp.Is: _is,
    exp.NullSafeEQ: lambda node, scope: apply(
        "not", (call("is_distinct_from", (node.this, node.expression), node, scope),), node, scope
    ),
    exp.Between: _between,
    exp.In: _in,
    exp.Case: _case,
    exp.If: _if,
    exp.Coalesce: _coalesce,
    exp.Round: _round,
    exp.Trunc: _trunc,
    exp.Trim: _trim,
    exp.Pad: _pad,
    exp.Concat: _concat,
    exp.DPipe: lambda node, scope: call("concat", (node.this, node.expression), node, scope),
    exp.Like: _like,
    exp.Extract: _extract,
    exp.DayOfWeek: _day_of_week,
    exp.TimestampTrunc: _date_trunc,
    exp.DateTrunc: _date_trunc,
    exp.DateDiff: _date_diff,
    exp.DateAdd: _date_add(1),
    exp.DateSub: _date_add(-1),
    exp.Cast: _cast,
    exp.Date: _date,
}
