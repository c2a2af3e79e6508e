"""PyDP (Google's C++ library): one object per key and aggregate; rows limited in pandas, which it leaves to the caller."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
from pydp.algorithms.laplacian import BoundedSum, Count, Median
from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def load(file: str) -> Any:
    return pd.read_parquet(file)


def by_key(data: Any) -> dict[str, list[float]]:
    limited = data[data.groupby("owner").cumcount() < ROWS_PER_OWNER]
    groups = dict(list(limited.groupby("key")["x"]))
    found = {}
    for key in KEYS:
        values = groups[key].tolist() if key in groups else []
        count = Count(epsilon=EPSILON / 2, l0_sensitivity=ROWS_PER_OWNER, linf_sensitivity=1, dtype="float")
        total = BoundedSum(
            epsilon=EPSILON / 2, l0_sensitivity=ROWS_PER_OWNER, linf_sensitivity=1,
            lower_bound=0.0, upper_bound=TOP, dtype="float",
        )  # fmt: skip
        n, s = count.quick_result(values), total.quick_result(values)
        found[key] = [n, s, s / max(1, n)]
    return found


def median(data: Any) -> float:
    limited = data[data.groupby("owner").cumcount() < ROWS_PER_OWNER]
    finder = Median(
        epsilon=EPSILON, l0_sensitivity=1, linf_sensitivity=ROWS_PER_OWNER, lower_bound=0.0, upper_bound=TOP, dtype="float"
    )
    return float(finder.quick_result(limited["x"].tolist()))


tell(load, {"keys": by_key, "median": median},
     "l0 10, linf 1, limits kept in pandas before the library sees the rows", version("python-dp"))  # fmt: skip
