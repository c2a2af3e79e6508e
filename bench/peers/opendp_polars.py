"""OpenDP's Polars interface: rows limited per owner by the library, keys declared public."""

from __future__ import annotations

from importlib.metadata import version

import opendp.prelude as dp
import polars as pl
from work import DELTA, EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell

dp.enable_features("contrib")


def load(file: str) -> pl.LazyFrame:
    return pl.read_parquet(file).lazy()


def context(data: pl.LazyFrame) -> dp.Context:
    return dp.Context.compositor(
        data=data,
        privacy_unit=dp.unit_of(contributions=1, identifier=pl.col("owner")),
        privacy_loss=dp.loss_of(epsilon=EPSILON, delta=DELTA),
        split_evenly_over=1,
        margins=[
            dp.polars.Margin(by=[], max_length=100_000_000),
            dp.polars.Margin(by=["key"], invariant="keys", max_length=100_000_000, max_groups=len(KEYS)),
        ],
    )


def by_key(data: pl.LazyFrame) -> dict[str, list[float]]:
    query = (
        context(data)
        .query()
        .truncate_per_group(ROWS_PER_OWNER)
        .group_by("key")
        .agg(dp.len(), pl.col("x").fill_null(0.0).fill_nan(0.0).dp.sum((0.0, TOP)))
    )
    found = query.release().collect()
    return {row["key"]: [row["len"], row["x"], row["x"] / max(1, row["len"])] for row in found.iter_rows(named=True)}


def median(data: pl.LazyFrame) -> float:
    query = (
        context(data)
        .query()
        .truncate_per_group(ROWS_PER_OWNER)
        .select(pl.col("x").fill_null(0.0).fill_nan(0.0).dp.median(candidates=[float(c) for c in range(0, 1001)]))
    )
    return float(query.release().collect()["x"][0])


tell(
    load, {"keys": by_key, "median": median},
    "unit_of(contributions=1, identifier=owner), truncate_per_group(10), invariant keys; median over 1,001 candidates",
    version("opendp"),
)  # fmt: skip
