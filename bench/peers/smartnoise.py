"""SmartNoise SQL over SQLite: metadata with max_ids 10, rows sampled by the library.

Its epsilon is the price of each column, so epsilon/2: COUNT(x) and SUM(x) are released and AVG(x)
reuses them, which get_privacy_cost confirms before the first answer.
"""

from __future__ import annotations

import sqlite3
from importlib.metadata import version
from typing import Any

import pandas as pd
from snsql import Privacy, from_connection
from work import EPSILON, ROWS_PER_OWNER, TOP, tell

META = {
    "": {
        "main": {
            "t": {
                "max_ids": ROWS_PER_OWNER, "censor_dims": False, "clamp_counts": False,
                "owner": {"type": "string", "private_id": True},
                "key": {"type": "string"},
                "x": {"type": "float", "lower": 0.0, "upper": TOP},
            }
        }
    }
}  # fmt: skip
QUESTION = "SELECT key, COUNT(x) AS n, SUM(x) AS s, AVG(x) AS a FROM main.t GROUP BY key"


def load(file: str) -> Any:
    base = sqlite3.connect(":memory:")
    frame = pd.read_parquet(file)
    base.execute("CREATE TABLE t (owner TEXT, key TEXT, x REAL)")
    base.executemany(
        "INSERT INTO t VALUES (?, ?, ?)", zip(frame["owner"], frame["key"], frame["x"], strict=True)
    )
    reader = from_connection(
        base, engine="sqlite", metadata=META, privacy=Privacy(epsilon=EPSILON / 2, delta=0.0)
    )
    price = reader.get_privacy_cost(QUESTION)[0]
    assert abs(price - EPSILON) < 1e-6, price
    return reader


def by_key(reader: Any) -> dict[str, list[float]]:
    return {row[0]: [float(value) for value in row[1:]] for row in reader.execute(QUESTION)[1:]}


tell(
    load, {"keys": by_key},
    "Laplace; max_ids 10 (rows sampled by the library), censor_dims and clamp_counts off, epsilon "
    "1/2 a column: COUNT(x), SUM(x), AVG(x) cost 1 by get_privacy_cost; SQLite in memory",
    version("smartnoise-sql"),
)  # fmt: skip
