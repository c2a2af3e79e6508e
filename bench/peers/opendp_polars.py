"""OpenDP's Polars interface: rows limited per owner by the library, keys declared public.

Amounts are held as whole cents: for floating-point sums the library adds what rounding may hide,
which at this length is more than the noise; whole numbers spare its users that.
"""

from __future__ import annotations

from importlib.metadata import version

import opendp.prelude as dp
import polars as pl
from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell

dp.enable_features("contrib")
MOST_ROWS = 100_000_000


def load(file: str) -> pl.LazyFrame:
    return (
        pl.read_parquet(file)
        .with_columns(cents=(pl.col("x") * 100).round().cast(pl.Int64))
        .drop("x")
        .lazy()
    )


def context(data: pl.LazyFrame) -> dp.Context:
    return dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("owner")),
        privacy_loss=dp.loss_of(epsilon=EPSILON),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(by=[], max_length=MOST_ROWS),
            dp.polars.Margin(by=["key"], max_length=MOST_ROWS, max_groups=len(KEYS)),
        ],
    )


def by_key(data: pl.LazyFrame) -> dict[str, list[float]]:
    query = (
        context(data)
        .query()
        .truncate_per_group(ROWS_PER_OWNER)
        .group_by("key")
        .agg(dp.len(signed=True), pl.col("cents").fill_null(0).dp.sum((0, int(TOP) * 100)))
        .with_keys(pl.LazyFrame({"key": KEYS}))
    )
    released = query.release().collect()
    sums = {row["key"]: (row["len"], row["cents"] / 100) for row in released.iter_rows(named=True)}
    return {key: [n, s, s / max(1, n)] for key, (n, s) in sums.items()}


def median(data: pl.LazyFrame) -> float:
    candidates = list(range(0, int(TOP) * 100 + 1))
    query = (
        context(data)
        .query()
        .truncate_per_group(ROWS_PER_OWNER)
        .select(pl.col("cents").fill_null(0).dp.median(candidates=candidates))
    )
    return float(query.release().collect()["cents"][0]) / 100


tell(
    load, {"keys": by_key, "median": median},
    "Laplace; pure epsilon 1 for one query of len and sum (even split), AVG from them; "
    "unit_of(contributions=1, identifier=owner), truncate_per_group(10), with_keys; whole cents; "
    "median over all 100,001 cents",
    version("opendp"),
)  # fmt: skip
