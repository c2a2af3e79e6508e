"""Whether a function's result is null, as a column of its own: the same arithmetic for all rows.

A flag is 1 for null and 0 otherwise. Of a function that is null where an argument is, the value is
computed from values that lie in their domains also where they are null, and the flag from the
flags.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from dither.data.lower.dialect import dialect
from dither.data.lower.functions import UNDEFINED, write_function
from dither.data.lower.functions.sql import SqlArguments, aligned_sql, cast
from dither.plan.domain import Domain, is_stored
from dither.plan.functions.table import Function

Flags: TypeAlias = tuple[str | None, ...]
Pair: TypeAlias = tuple[str, str | None]


def pair(function: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair | None:
    """Write the SQL of a function's value and of its null flag (None if never null).

    Returns None where the engine's own nulls have to serve.
    """
    stored = (
        is_stored(domain) or constant is not None
        for domain, constant in zip(a.domains, a.constants, strict=True)
    )
    if not all(stored) or not is_stored(result):
        return None
    ends_known = function.name == "between" and not any(flags[1:])
    if function.name in _OWN and (any(flags) or function.name == "nullif") and not ends_known:
        return _OWN[function.name](function, a, flags, result)
    strict = function.nulls == "null if an argument is" or function.name in UNDEFINED or ends_known
    if not strict and (any(flags) or result.nullable):
        return None
    null_flags = [flag for flag in flags if flag]
    if function.name in UNDEFINED:
        null_flags.append(_flag(UNDEFINED[function.name](a)))
    return write_function(function.name, a, result), " | ".join(
        null_flags
    ) if null_flags and result.nullable else None


def _flag(condition: str) -> str:
    """SQL: 1 where a condition holds, else 0."""
    return dialect().truth(condition, dialect().flag_type)


def _true(value: str, flag: str | None) -> str:
    return f"({value} * (1 - {flag}))" if flag else value


def _false(value: str, flag: str | None) -> str:
    return f"((1 - {value}) * (1 - {flag}))" if flag else f"(1 - {value})"


def _and(_: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write AND: true if all are; unknown if that is open and none is false."""
    operands = list(zip(a.sql, flags, strict=True))
    true = " * ".join(_true(*operand) for operand in operands)
    none_false = " * ".join(f"(1 - {_false(*operand)})" for operand in operands)
    return true, f"({none_false} - {true})"


def _or(_: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write OR: true if one is; unknown if that is open and not all are false."""
    operands = list(zip(a.sql, flags, strict=True))
    none_true = " * ".join(f"(1 - {_true(*operand)})" for operand in operands)
    false = " * ".join(_false(*operand) for operand in operands)
    return f"(1 - {none_true})", f"({none_true} - {false})"


def _case(function: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write CASE: the value after the first true condition, and its flag."""
    last = len(a.sql) - 1
    tests = range(0, last, 2)
    sql = tuple(_true(a.sql[p], flags[p]) if p in tests else a.sql[p] for p in range(len(a.sql)))
    value = write_function(function.name, replace(a, sql=sql), result)
    whens = " ".join(f"WHEN {sql[p]} = 1 THEN {flags[p + 1] or 0}" for p in tests)
    rest = (flags[last] or "0") if len(a.sql) % 2 else "1"
    return (
        f"coalesce({value}, {result.low})",
        f"CASE {whens} ELSE {rest} END" if result.nullable else None,
    )


def _coalesce(_: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write COALESCE: the first value that is not null, chosen by arithmetic on the flags."""
    values = aligned_sql(a)
    chosen = values[-1]
    for value, flag in list(zip(values, flags, strict=True))[-2::-1]:
        chosen = f"(({value}) + {flag} * (({chosen}) - ({value})))" if flag else value
    return chosen, " * ".join(flag for flag in flags if flag) if all(flags) else None


def _extreme(function: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write LEAST or GREATEST.

    Nulls are put at the far end of the domain, where they win only if there is nothing else.
    """
    end = result.high if function.name == "least" else result.low
    values = [
        f"(({value}) + {flag} * ({end} - ({value})))" if flag else value
        for value, flag in zip(aligned_sql(a), flags, strict=True)
    ]
    return f"{function.name}({', '.join(values)})", " * ".join(
        flag for flag in flags if flag
    ) if all(flags) else None


def _nullif(_: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """The first value, null where it was or where both are known and equal."""
    left, right = aligned_sql(a)
    equal = _flag(f"({left}) = ({right})") + (f" * (1 - {flags[1]})" if flags[1] else "")
    return cast(a.sql[0], a.domains[0].largest), f"{flags[0]} | ({equal})" if flags[0] else equal


def _distinct(_: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write IS DISTINCT FROM: one is null and the other is not, or both are known and differ."""
    left, right = aligned_sql(a)
    left_null, right_null = (flag or "0" for flag in flags)
    differ = f"(1 - {left_null}) * (1 - {right_null}) * {_flag(f'({left}) <> ({right})')}"
    return (
        f"CAST({left_null} + {right_null} - 2 * {left_null} * {right_null} + {differ} AS BIGINT)",
        None,
    )


def _between(function: Function, a: SqlArguments, flags: Flags, result: Domain) -> Pair:
    """Write BETWEEN: at least the low end and at most the high one, either of which may be null."""
    value, low, high = aligned_sql(a)
    tests = (dialect().truth(f"({value}) >= ({low})"), dialect().truth(f"({value}) <= ({high})"))
    ends = [[flag for flag in (flags[0], flags[end]) if flag] for end in (1, 2)]
    return _and(
        function,
        replace(a, sql=tests),
        tuple(f"({' | '.join(end_flags)})" if end_flags else None for end_flags in ends),
        result,
    )


_OWN: dict[str, Callable[[Function, SqlArguments, Flags, Domain], Pair]] = {
    "is_null": lambda _, a, flags, result: (f"CAST({flags[0]} AS BIGINT)", None),
    "is_not_null": lambda _, a, flags, result: (f"CAST(1 - {flags[0]} AS BIGINT)", None),
    "is_true": lambda _, a, flags, result: (_true(a.sql[0], flags[0]), None),
    "is_false": lambda _, a, flags, result: (_false(a.sql[0], flags[0]), None),
    "and": _and,
    "or": _or,
    "if": _case,
    "case": _case,
    "coalesce": _coalesce,
    "least": _extreme,
    "greatest": _extreme,
    "nullif": _nullif,
    "is_distinct_from": _distinct,
    "between": _between,
}
