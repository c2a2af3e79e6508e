"""Tumult Analytics on local Spark: AddRowsWithID, MaxRowsPerID(10), a public KeySet."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import (
    AddRowsWithID,
    ApproxDPBudget,
    KeySet,
    MaxRowsPerID,
    QueryBuilder,
    Session,
)
from work import DELTA, EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def load(file: str) -> Any:
    spark = SparkSession.builder.master("local[2]").config("spark.driver.memory", "6g").getOrCreate()
    frame = spark.read.parquet(file).cache()
    frame.count()
    return frame


def session(frame: Any) -> Any:
    return Session.from_dataframe(
        privacy_budget=ApproxDPBudget(EPSILON, DELTA), source_id="t", dataframe=frame, protected_change=AddRowsWithID("owner")
    )


def by_key(frame: Any) -> dict[str, list[float]]:
    asked = session(frame)
    keys = KeySet.from_dict({"key": KEYS})
    base = QueryBuilder("t").enforce(MaxRowsPerID(ROWS_PER_OWNER)).groupby(keys)
    half = ApproxDPBudget(EPSILON / 2, DELTA / 2)
    counts = {row["key"]: row["count"] for row in asked.evaluate(base.count(), half).collect()}
    sums = {row["key"]: row["x_sum"] for row in asked.evaluate(base.sum("x", 0.0, TOP), half).collect()}
    return {key: [counts[key], sums[key], sums[key] / max(1, counts[key])] for key in KEYS}


def median(frame: Any) -> float:
    query = QueryBuilder("t").enforce(MaxRowsPerID(ROWS_PER_OWNER)).median("x", 0.0, TOP)
    return float(session(frame).evaluate(query, ApproxDPBudget(EPSILON, DELTA)).collect()[0][0])


tell(load, {"keys": by_key, "median": median}, "MaxRowsPerID(10), public KeySet, half of the budget for each of count and sum",
     version("tmlt.analytics"))  # fmt: skip
