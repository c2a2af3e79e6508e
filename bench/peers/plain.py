"""Plain DuckDB: the exact answers, no limits and no noise. What the work costs without privacy."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import duckdb
from work import tell


def load(file: str) -> Any:
    base = duckdb.connect()
    base.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{file}')")
    return base


def by_key(base: Any) -> dict[str, list[float]]:
    rows = base.execute("SELECT key, count(*), sum(x), avg(x) FROM t GROUP BY key").fetchall()
    return {key: [float(n), float(s), float(a)] for key, n, s, a in rows}


def median(base: Any) -> float:
    return float(base.execute("SELECT median(x) FROM t").fetchall()[0][0])


tell(
    load,
    {"keys": by_key, "median": median},
    "exact: no limits, no noise, no privacy",
    version("duckdb"),
)
