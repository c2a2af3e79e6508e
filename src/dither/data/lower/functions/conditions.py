"""SQL of comparisons, truth values and choices.

Truth values are the integers 0 and 1; unknown is null.
"""

from __future__ import annotations

from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import FunctionSql, SqlArguments, aligned_sql, cast
from dither.plan.domain import Domain, is_stored
from dither.plan.functions.choices import list_case_values

SIGNS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _comparison_sql(a: SqlArguments, result: Domain) -> str:
    left, right = aligned_sql(a)
    return dialect().truth(f"({left}) {SIGNS[a.function]} ({right})")


def _between_sql(a: SqlArguments, result: Domain) -> str:
    value, low, high = aligned_sql(a)
    return dialect().truth(f"(({value}) >= ({low}) AND ({value}) <= ({high}))")


def _in_sql(a: SqlArguments, result: Domain) -> str:
    value, *listed = aligned_sql(a)
    return dialect().truth(f"(({value}) IN ({', '.join(listed)}))")


def _join_truths(word: str) -> FunctionSql:
    return lambda a, result: dialect().truth(
        "(" + f" {word} ".join(f"({sql} = 1)" for sql in a.sql) + ")"
    )


def _xor_sql(a: SqlArguments, result: Domain) -> str:
    return dialect().truth(f"{a.sql[0]} <> {a.sql[1]}")


def _distinct_sql(a: SqlArguments, result: Domain) -> str:
    left, right = aligned_sql(a)
    return dialect().truth(f"(({left}) IS DISTINCT FROM ({right}))")


def _choose_sql(a: SqlArguments, positions: list[int]) -> tuple[str, ...]:
    """Write the SQL of the arguments at `positions`, brought to one grid."""
    return aligned_sql(
        SqlArguments(
            a.function,
            tuple(a.domains[p] for p in positions),
            tuple(a.constants[p] for p in positions),
            tuple(a.sql[p] for p in positions),
        )
    )


def _case_sql(a: SqlArguments, result: Domain) -> str:
    """Write the SQL of CASE."""
    value_positions = list_case_values(a)
    values = dict(zip(value_positions, _choose_sql(a, value_positions), strict=True))
    whens = " ".join(
        f"WHEN {a.sql[p]} = 1 THEN {values[p + 1]}" for p in range(0, len(a.domains) - 1, 2)
    )
    rest = f" ELSE {values[value_positions[-1]]}" if len(a.domains) % 2 else ""
    return f"CASE {whens}{rest} END"


def _coalesce_sql(a: SqlArguments, result: Domain) -> str:
    return f"coalesce({', '.join(aligned_sql(a))})"


def _nullif_sql(a: SqlArguments, result: Domain) -> str:
    left, right = aligned_sql(a)
    kept = cast(a.sql[0], a.domains[0].largest) if is_stored(a.domains[0]) else a.sql[0]
    return f"CASE WHEN ({left}) = ({right}) THEN NULL ELSE {kept} END"


FUNCTIONS: dict[str, FunctionSql] = {
    **dict.fromkeys(SIGNS, _comparison_sql),
    "between": _between_sql,
    "in": _in_sql,
    "and": _join_truths("AND"),
    "or": _join_truths("OR"),
    "not": lambda a, result: f"1 - {cast(a.sql[0], 1)}",
    "xor": _xor_sql,
    "is_null": lambda a, r: dialect().truth(f"({a.sql[0]} IS NULL)"),
    "is_not_null": lambda a, r: dialect().truth(
        f"({a.sql[0]} IS NOT NULL)"
        if a.domains[0].nullable or not is_stored(a.domains[0])
        else "TRUE"  # no row needs a test
    ),
    "is_true": lambda a, r: f"coalesce({cast(a.sql[0], 1)}, 0)",
    "is_false": lambda a, r: f"1 - coalesce({cast(a.sql[0], 1)}, 1)",
    "is_distinct_from": _distinct_sql,
    "if": _case_sql,
    "case": _case_sql,
    "coalesce": _coalesce_sql,
    "nullif": _nullif_sql,
}
