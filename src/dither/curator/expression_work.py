"""Bound how long the expressions of a plan may take for one row, by public facts alone.

Texts cost by their widths, LIKE patterns by the steps that they may take, and integers past 62 bits
by the calls and divisions that compute with them. No row takes longer, whatever it holds: widths
and bounds are those of the catalog, carried through the function table (`plan/functions`).
"""

from __future__ import annotations

from collections.abc import Iterator

from dither.plan.algebra import Filter, Plan, Project
from dither.plan.domain import Columns, Domain
from dither.plan.expressions import And, Call, Condition, Expression, Holds, Not, Or, Value
from dither.plan.functions import TABLE, domain_of
from dither.plan.functions.numbers import DIVISION
from dither.plan.functions.rounding import step_of
from dither.plan.functions.table import Arguments, common_step, scaled
from dither.plan.functions.text import count_like_steps

CALL_S = 20e-9
"""Seconds for one call of a function: with integers of 64 bits it takes up to 16 ns."""
WIDE_CALL_S = 80e-9
"""The same with integers of 128 bits, which takes up to 20 ns."""
WIDE_DIVISION_S = 5e-6
"""Seconds for one call that divides integers of 128 bits: 0.3 to 0.9 microseconds of CPU, 3.5 on a
machine that others use. The time follows the values."""
REBUILT_CHARACTER_S = 25e-9
"""Seconds for one character that a function reads or makes one by one: 4 to 23 ns to do both."""
CHARACTER_S = 8e-9
"""Seconds for one character of a text that is read or copied in pieces: up to 3 ns."""
LONG_NEEDLE = 128
"""A search for a text of so many characters costs twice as much, and for longer ones more."""
LIKE_STEP_S = 5e-9
"""Seconds for one step of a LIKE pattern with _: 0.5 ns, 1.4 on a machine that others use."""
WIDE = 1 << 62
"""From here on the engine computes with 128 bits: `WIDE` in `data/lower/dialect.py`."""
_REBUILDS = frozenset(
    ("lower", "upper", "trim", "ltrim", "rtrim", "replace", "lpad", "rpad", "split_part")
)
_SEARCHES = frozenset(
    ("starts_with", "ends_with", "contains", "position", "replace", "split_part", "like")
)
_DIVISIONS = frozenset(("divide", "integer_divide", "mod", "width_bucket"))
_ROUNDINGS = frozenset(("floor", "ceil", "trunc", "round", "to_integer", "bin"))


def bound_expressions(plan: Plan, columns: Columns) -> float:
    """Bound the seconds that one row takes for the expressions of one operator of a plan.

    `columns` are those of the rows that it reads.

    >>> from dither.plan.algebra import Column, Named, Scan
    >>> note = Named("n", Call("upper", (Column("note"),)))
    >>> columns = {"note": Domain("text", False, width=200)}
    >>> f"{bound_expressions(Project(Scan('visits'), (note,)), columns) * 1e6:.2f} microseconds"
    '10.02 microseconds'
    """
    domains: dict[Expression, Domain] = {}
    return sum(_bound_expression(root, columns, domains) for root in list_expressions(plan))


def list_expressions(plan: Plan) -> Iterator[Expression]:
    """List what an operator computes: columns of a projection, or expressions of a condition."""
    if isinstance(plan, Project):
        for named in plan.columns:
            if isinstance(named.of, Call):
                yield named.of
    elif isinstance(plan, Filter):
        yield from _list_condition_expressions(plan.condition)


def _list_condition_expressions(condition: Condition) -> Iterator[Expression]:
    match condition:
        case Holds(expression):
            yield expression
        case Not(inner):
            yield from _list_condition_expressions(inner)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _list_condition_expressions(operand)


def _bound_expression(
    expression: Expression, columns: Columns, domains: dict[Expression, Domain]
) -> float:
    """Bound the seconds of an expression for one row; a call that occurs twice is made once.

    The domains of its calls are added to `domains`, which holds those that are bounded already.
    """
    if not isinstance(expression, Call) or expression in domains:
        return 0.0
    seconds = sum(
        _bound_expression(argument, columns, domains) for argument in expression.arguments
    )
    argument_domains = tuple(
        domains[argument] if isinstance(argument, Call) else domain_of(argument, columns)
        for argument in expression.arguments
    )
    constants = tuple(
        argument.value if isinstance(argument, Value) else None for argument in expression.arguments
    )
    arguments = Arguments(expression.function, argument_domains, constants)
    result = TABLE[expression.function].result(arguments)
    domains[expression] = result
    return seconds + bound_call(arguments, result)


def bound_call(a: Arguments, result: Domain) -> float:
    """Bound the seconds of one call for one row, by the domains of its arguments and its result."""
    values = [
        domain for domain, constant in zip(a.domains, a.constants, strict=True) if constant is None
    ]
    width = sum(domain.width for domain in (*values, result) if domain.kind == "text")
    seconds = CALL_S + width * _character_s(a)
    if a.function == "like" and "_" in a.text(1):
        seconds += LIKE_STEP_S * count_like_steps(a.text(1), a.domains[0].width)
    if all(domain.kind not in ("number", "timestamp") for domain in a.domains):
        return seconds
    largest = find_largest(a, result)
    if largest < WIDE:
        return seconds
    divides = a.function in _ROUNDINGS or a.function in _DIVISIONS
    return seconds + (WIDE_DIVISION_S if divides else WIDE_CALL_S * len(a.domains))


def _character_s(a: Arguments) -> float:
    """Find the seconds for one character of a text that a function reads or makes."""
    character_s = REBUILT_CHARACTER_S if a.function in _REBUILDS else CHARACTER_S
    if a.function not in _SEARCHES:
        return character_s
    return character_s * (1 + len(a.text(1)) / LONG_NEEDLE)


def find_largest(a: Arguments, result: Domain) -> int:
    """Find the largest integer that the SQL of a call computes with (`data/lower/functions`)."""
    sizes = [domain.largest for domain in (*a.domains, result) if domain.kind != "text"]
    numbers = [domain for domain in a.domains if domain.kind == "number"]
    if a.function in ("divide", "integer_divide"):
        x, y = a.domains
        ratio = x.step / y.step / (DIVISION if a.function == "divide" else 1)
        both = 2 if a.function == "divide" else 1
        sizes.append(both * (x.largest * ratio.numerator + y.largest * ratio.denominator))
    elif a.function in _ROUNDINGS:
        ratio = a.domains[0].step / step_of(a)
        sizes.append(2 * a.domains[0].largest * ratio.numerator + ratio.denominator)
    elif a.function == "width_bucket":
        sizes.append(_find_largest_of_buckets(a))
    elif len(numbers) > 1 and a.function not in ("multiply", "power"):
        scales = Arguments(a.function, tuple(numbers), (None,) * len(numbers))
        sizes += [max(abs(low), abs(high)) for low, high in scaled(scales)[0]]
    return max(sizes, default=0)


def _find_largest_of_buckets(a: Arguments) -> int:
    step = a.domains[0].step
    low = a.number(1)
    high = a.number(2)
    for constant in (low, high):
        step = common_step(step, constant) if constant else step
    ends = abs(low / step) + abs(high / step)
    return int((a.domains[0].largest * (a.domains[0].step / step) + ends) * a.number(3))
