"""PyDP (Google's C++ library): one object per key and aggregate; rows are limited in pandas, which
it leaves to the caller.

At most 10 rows an owner in all keys together move all counts by at most 10 in L1, and Laplace noise
asks for no more: this is what l0_sensitivity 10 with linf_sensitivity 1 stands for. The library has
no accountant: half of epsilon for each is ours.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
from pydp.algorithms.laplacian import BoundedSum, Count, Median
from work import EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell


def limited(data: Any) -> Any:
    return data[data.groupby("owner").cumcount() < ROWS_PER_OWNER]


def by_key(data: Any) -> dict[str, list[float]]:
    groups = {key: values.tolist() for key, values in limited(data).groupby("key")["x"]}
    answers = {}
    for key in KEYS:
        values = groups.get(key, [])
        count = Count(
            epsilon=EPSILON / 2, l0_sensitivity=ROWS_PER_OWNER, linf_sensitivity=1, dtype="float"
        )
        total = BoundedSum(
            epsilon=EPSILON / 2, l0_sensitivity=ROWS_PER_OWNER, linf_sensitivity=1,
            lower_bound=0.0, upper_bound=TOP, dtype="float",
        )  # fmt: skip
        n = count.quick_result(values)
        s = total.quick_result(values)
        answers[key] = [n, s, s / max(1, n)]
    return answers


def median(data: Any) -> float:
    finder = Median(
        epsilon=EPSILON,
        l0_sensitivity=1,
        linf_sensitivity=ROWS_PER_OWNER,
        lower_bound=0.0,
        upper_bound=TOP,
        dtype="float",
    )
    return float(finder.quick_result(limited(data)["x"].tolist()))


tell(
    pd.read_parquet, {"keys": by_key, "median": median},
    "Laplace; rows limited to 10 an owner in pandas; Count and BoundedSum with epsilon/2 each, AVG "
    "from them; Median with l0 1 and linf 10",
    version("python-dp"),
)  # fmt: skip
