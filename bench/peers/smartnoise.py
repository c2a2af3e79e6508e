"""SmartNoise SQL over pandas: metadata with max_ids 10, rows sampled by the library."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import pandas as pd
import snsql
from snsql import Privacy
from snsql._ast.tokens import *  # noqa: F403  (loads the parser before the clock starts)
from work import DELTA, EPSILON, ROWS_PER_OWNER, TOP, tell

META = {
    "": {
        "s": {
            "t": {
                "max_ids": ROWS_PER_OWNER, "censor_dims": False, "clamp_counts": False,
                "owner": {"type": "string", "private_id": True},
                "key": {"type": "string"},
                "x": {"type": "float", "lower": 0.0, "upper": TOP},
            }
        }
    }
}  # fmt: skip


def load(file: str) -> Any:
    return pd.read_parquet(file)


def by_key(data: Any) -> dict[str, list[float]]:
    # one total price: COUNT and SUM are the two things measured (AVG follows from them), and a person may be in 10 groups
    reader = snsql.from_df(data, metadata=META, privacy=Privacy(epsilon=EPSILON / 2, delta=DELTA / 2))
    rows = reader.execute("SELECT key, COUNT(*) AS n, SUM(x) AS s FROM s.t GROUP BY key")
    return {row[0]: [row[1], row[2], row[2] / max(1, row[1])] for row in rows[1:]}


tell(load, {"keys": by_key}, "max_ids 10, censor_dims off (public keys), epsilon/2 for COUNT and for SUM; no median", version("smartnoise-sql"))
