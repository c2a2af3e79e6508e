"""PipelineDP on its local backend: public partitions, at most 10 rows per owner in all partitions
together."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
import pipeline_dp
from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def load(file: str) -> Any:
    frame = pd.read_parquet(file)
    return list(zip(frame["owner"], frame["key"], frame["x"], strict=True))


def aggregate_rows(
    data: Any, partition: Any, partitions: list[str], **params: Any
) -> dict[str, Any]:
    accountant = pipeline_dp.NaiveBudgetAccountant(total_epsilon=EPSILON, total_delta=0)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    extractors = pipeline_dp.DataExtractors(
        privacy_id_extractor=lambda row: row[0],
        partition_extractor=partition,
        value_extractor=lambda row: row[2],
    )
    stated = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.LAPLACE, min_value=0.0, max_value=TOP, **params
    )
    result = engine.aggregate(data, stated, extractors, public_partitions=partitions)
    accountant.compute_budgets()
    return dict(result)


def by_key(data: Any) -> dict[str, list[float]]:
    metrics = [pipeline_dp.Metrics.COUNT, pipeline_dp.Metrics.SUM, pipeline_dp.Metrics.MEAN]
    metrics_by_key = aggregate_rows(
        data, lambda row: row[1], KEYS, metrics=metrics, max_contributions=ROWS_PER_OWNER
    )
    return {key: [float(m.count), float(m.sum), float(m.mean)] for key, m in metrics_by_key.items()}


def median(data: Any) -> float:
    metrics_by_key = aggregate_rows(
        data, lambda row: "all", ["all"], metrics=[pipeline_dp.Metrics.PERCENTILE(50)],
        max_partitions_contributed=1, max_contributions_per_partition=ROWS_PER_OWNER,
    )  # fmt: skip
    return float(metrics_by_key["all"].percentile_50)


tell(
    load, {"keys": by_key, "median": median},
    "Laplace; NaiveBudgetAccountant, max_contributions=10, public partitions, COUNT+SUM+MEAN in "
    "one aggregate (it centres the sum: count and centred sum get epsilon/2 each); local backend",
    version("pipeline-dp"),
)  # fmt: skip
