"""Tumult Analytics on local Spark: AddRowsWithID, MaxRowsPerID(10), a public KeySet."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from typing import Any

from pyspark.sql import SparkSession
from tmlt.analytics import AddRowsWithID, KeySet, MaxRowsPerID, PureDPBudget, QueryBuilder, Session
from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def load(file: str) -> Any:
    os.environ["PYSPARK_PYTHON"] = (
        sys.executable
    )  # else Spark's workers run another interpreter, without the library
    cores = os.cpu_count()
    spark = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.shuffle.partitions", str(2 * (cores or 1)))
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    frame = spark.read.parquet(file).cache()
    frame.count()
    return frame


def session(frame: Any) -> Any:
    return Session.from_dataframe(
        privacy_budget=PureDPBudget(EPSILON),
        source_id="t",
        dataframe=frame,
        protected_change=AddRowsWithID("owner"),
    )


def by_key(frame: Any) -> dict[str, list[float]]:
    tumult_session = session(frame)
    base = (
        QueryBuilder("t")
        .enforce(MaxRowsPerID(ROWS_PER_OWNER))
        .groupby(KeySet.from_dict({"key": KEYS}))
    )
    half = PureDPBudget(EPSILON / 2)
    counts = {
        row["key"]: row["count"] for row in tumult_session.evaluate(base.count(), half).collect()
    }
    sums = {
        row["key"]: row["x_sum"]
        for row in tumult_session.evaluate(base.sum("x", 0.0, TOP), half).collect()
    }
    return {key: [counts[key], sums[key], sums[key] / max(1, counts[key])] for key in KEYS}


def median(frame: Any) -> float:
    query = QueryBuilder("t").enforce(MaxRowsPerID(ROWS_PER_OWNER)).median("x", 0.0, TOP)
    return float(session(frame).evaluate(query, PureDPBudget(EPSILON)).collect()[0][0])


tell(
    load, {"keys": by_key, "median": median},
    "Laplace; AddRowsWithID, MaxRowsPerID(10), a public KeySet, PureDPBudget(1/2) for each of "
    "count and sum, AVG from them; Spark local on all cores, few shuffle partitions, table cached",
    version("tmlt.analytics"),
)  # fmt: skip
