"""PipelineDP on the local backend: public partitions, at most 10 partitions and 10 rows each per owner."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
import pipeline_dp
from work import DELTA, EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def load(file: str) -> Any:
    frame = pd.read_parquet(file)
    return list(zip(frame["owner"], frame["key"], frame["x"], strict=True))


def by_key(data: Any) -> dict[str, list[float]]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=[pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN],
        max_partitions_contributed=ROWS_PER_OWNER,
        max_contributions_per_partition=2,
        min_value=0.0,
        max_value=TOP,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=lambda row: row[1],
        value_extractor=lambda row: row[2],
    )
    result = engine.aggregate(data, params, extractors, public_partitions=KEYS)
    accountant.compute_budgets()
    return {key: [m.count, m.sum, m.mean] for key, m in result}


def median(data: Any) -> float:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=DELTA)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        metrics=[pipeline_dp.Metrics.PERCENTILE(50)],
        max_partitions_contributed=1,
        max_contributions_per_partition=ROWS_PER_OWNER,
        min_value=0.0,
        max_value=TOP,
    )
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0], partition_extractor=lambda row: "all", value_extractor=lambda row: row[2]
    )
    result = engine.aggregate(data, params, extractors, public_partitions=["all"])
    accountant.compute_budgets()
    return float(next(iter(result))[1].percentile_50)


tell(load, {"keys": by_key, "median": median},
     "Gaussian noise, public partitions, 10 partitions with 2 rows each per owner, local backend", version("pipeline-dp"))  # fmt: skip
