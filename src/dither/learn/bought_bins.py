"""Edges of bins at bought quantiles: where the people are, for a price of its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from dither.canonical import Number
from dither.errors import ParameterError
from dither.learn.columns import check_edges
from dither.learn.guarantees import read_budget
from dither.learn.table_columns import find_rows
from dither.plan.domain import Domain

_MOST_BINS = 100


def buy_bins(
    con: Any, table_or_sql: str, columns: Sequence[str], *, epsilon: Number, bins: int = 10
) -> dict[str, tuple[float, ...]]:
    """Buy quantiles of columns and make edges of bins of them: `bins=` of an estimator.

    One question for `epsilon`, paid from the budget of the connection. Equal quantiles, and those
    at a bound, make one edge or none. What is fitted with these edges costs its own price beside.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or not 2 <= bins <= _MOST_BINS:
        raise ParameterError(f"bins is a number from 2 to {_MOST_BINS}")
    read_budget(epsilon)
    rows = find_rows(con, table_or_sql)
    if not columns:
        raise ParameterError("columns are missing: name numbers of these rows")
    for name in columns:
        if name not in rows.domains or rows.domains[name].kind != "number":
            raise ParameterError(f"{name!r} is no number of these rows: name numbers alone")
    source = table_or_sql if re.fullmatch(r"\w+", table_or_sql) else f"({table_or_sql}) AS r"
    asked = [
        f'QUANTILE("{name}", {number / bins:.6f}) AS q{position}_{number}'
        for position, name in enumerate(columns)
        for number in range(1, bins)
    ]
    answer = con.sql(f"SELECT {', '.join(asked)} FROM {source}", epsilon=epsilon).to_dict()
    return {
        name: _make_edges(
            rows.domains[name],
            [float(answer[f"q{position}_{number}"][0]) for number in range(1, bins)],
        )
        for position, name in enumerate(columns)
    }


def _make_edges(domain: Domain, quantiles: Sequence[float]) -> tuple[float, ...]:
    """Different quantiles within the bounds, in their order."""
    low = float(domain.low * domain.step)
    high = float(domain.high * domain.step)
    return check_edges(sorted({value for value in quantiles if low < value <= high}), low, high)
