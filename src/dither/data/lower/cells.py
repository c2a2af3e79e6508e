"""Queries as one SQL statement each.

A statement selects the keys without a list, one code for the listed keys, and exact integers.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple

from dither.data.lower.aggregates import aggregate_sql
from dither.data.lower.columns import UNIT, holds_null, integer, list_names, null_code, recode_null
from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import clamp_value
from dither.data.lower.plan import plan_sql
from dither.data.lower.shifted import remove_shifts
from dither.data.lower.stored import inside, stored_sums
from dither.data.quoting import name
from dither.plan.algebra import Cells, Keys, Quantiles
from dither.plan.analyse import Analysed
from dither.plan.domain import Columns
from dither.plan.grids import Points, points_in
from dither.plan.keys import KeyDomain, key_domains_in, open_keys_in

MOST_SPOTS = 1 << 24
_SMALL = 127
"""Codes up to 127 fit a TINYINT.

By that type alone, whatever the rows hold, DuckDB counts in an array.

A number is masked before it is made narrow. That changes no code, and the cast cannot fail whatever
row reaches it: a WHERE that lets only such codes through is no guard, since engines compute in the
order they like.
"""


def query_sql(
    query: Cells | Keys | Quantiles, rows: Analysed, sample_key: bytes | None = None
) -> str:
    """Write the SELECT of a query: unlisted keys, then what it asks for.

    Groups come in no order, absent ones are missing. `rows` are those of the query's own plan,
    analysed.
    """
    plain, shifts = remove_shifts(query, rows) if isinstance(query, Cells) else (rows, {})
    columns = plain.columns
    unlisted = list(open_keys_in(query.keys, columns))
    source = f"({plan_sql(plain, sample_key)})"
    if isinstance(query, Keys):
        return (
            f"SELECT {list_names(unlisted)}, count(DISTINCT {UNIT}) FROM {source} GROUP "
            f"BY {list_names(unlisted)}"
        )
    outputs = [name(key) for key in unlisted]
    outputs.append(f"{_code(key_domains_in(query.keys, columns), columns)} AS code")
    if isinstance(query, Quantiles):
        outputs.append(
            f"CAST({_grid_index(query, points_in(query.column, columns), columns)} AS BIGINT) AS "
            f"place"
        )
        measured = "count(*)"
        source = source + _with_value(query, columns)
    else:
        stored = stored_sums(query, plain)
        measured = ", ".join(
            aggregate_sql(aggregate, columns, shifts, stored) for aggregate in query.columns
        )
        source += inside(stored, plain)
    groups = ", ".join(str(1 + index) for index in range(len(outputs)))
    grouped = f" GROUP BY {groups}" if query.keys or isinstance(query, Quantiles) else ""
    return f"SELECT {', '.join(outputs)}, {measured} FROM {source}{grouped}"


class Spots(NamedTuple):
    """Points of the grid, points of all cells together, and the power of two that holds these."""

    points: int
    counters: int
    room: int


def spots(query: Quantiles, columns: Columns) -> Spots | None:
    """Lay out an array with one counter for each point of each cell; None where that is too large.

    Decided by the catalog alone: unlisted keys, or more than 2**24 points, are grouped by the
    engine.
    """
    if open_keys_in(query.keys, columns) or not dialect().counts_outside:
        return None
    points = points_in(query.column, columns).count
    counters = points * prod(domain.codes for domain in key_domains_in(query.keys, columns))
    return (
        Spots(points, counters, 1 << (counters - 1).bit_length())
        if counters <= MOST_SPOTS
        else None
    )


def spots_sql(query: Quantiles, rows: Analysed, room: int, sample_key: bytes | None = None) -> str:
    """Write the SELECT that gives, for each row with a value, the index of its counter in the
    array.

    It is the cell's code times the points of the grid, plus the index of its point. To count these
    in an array takes the same time and memory whatever the values are; the engine's groups do not.
    All values are inside the grid; the mask keeps any row inside the array, once, and costs less
    than to clamp each.
    """
    columns = rows.columns
    points = points_in(query.column, columns)
    value = name(query.column)
    if points.low:
        value = f"({integer(value, columns[query.column])} - ({points.low}))"
    grid_index = value if points.step == 1 else f"{value} // {points.step}"
    code = _code(key_domains_in(query.keys, columns), columns)
    spot = f"CAST({code} AS BIGINT) * {points.count} + {grid_index}" if query.keys else grid_index
    source = f"({plan_sql(rows, sample_key)}){_with_value(query, columns)}"
    return f"SELECT CAST(({spot}) & {room - 1} AS INTEGER) FROM {source}"


def _with_value(query: Quantiles, columns: Columns) -> str:
    """SQL: a WHERE for the rows whose value is not null, if some may be."""
    domain = columns[query.column]
    return f" WHERE {name(query.column)} <> {null_code(domain)}" if holds_null(domain) else ""


def _grid_index(query: Quantiles, points: Points, columns: Columns) -> str:
    """SQL: the place of a row's value in the grid."""
    value = integer(name(query.column), columns[query.column])
    above = f"({clamp_value(value, points.low, points.high)} - ({points.low}))"
    if points.step == 1:
        return above
    return dialect().divide(above, str(points.step), columns[query.column].largest)


def _code(domains: tuple[KeyDomain, ...], columns: Columns) -> str:
    """Write the SQL of a row's cell: its position in the order of the declared keys, last key
    fastest."""
    code = "CAST(0 AS BIGINT)"
    codes = prod(domain.codes for domain in domains)
    is_narrow = codes <= _SMALL and dialect().has_narrow_codes
    if len(domains) == 1 and is_narrow and not domains[0].first and _is_code(domains[0], columns):
        return f"CAST({name(domains[0].column)} & {_SMALL} AS TINYINT)"
    for domain in domains:
        value = recode_null(name(domain.column), columns[domain.column], domain.first + domain.size)
        value = f"CAST({value} - ({domain.first}) AS BIGINT)"
        code = value if domain is domains[0] else f"({code}) * {domain.codes} + ({value})"
    return f"CAST(({code}) & {_SMALL} AS TINYINT)" if is_narrow else code


def _is_code(domain: KeyDomain, columns: Columns) -> bool:
    """Whether null, if there is one, is stored as the integer after the last key.

    It no longer is where a WHERE moved the bounds.
    """
    return not domain.has_null or null_code(columns[domain.column]) == domain.first + domain.size
