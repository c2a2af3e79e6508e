"""Qrlew: the question is rewritten into SQL that limits, clips and adds noise itself; DuckDB runs
it.

Its own accounting splits epsilon and delta over the aggregates of a question. AVG beside COUNT and
SUM would be four aggregates, so COUNT and SUM are asked and AVG is made from them. The catalogue is
read from an empty SQLite table (its way of connecting to a database), with the number of rows,
which it takes as public, filled in.
"""

from __future__ import annotations

import re
from importlib.metadata import version
from typing import Any

import duckdb
import sqlalchemy
from pyqrlew import Dataset, Dialect
from work import DELTA, EPSILON, KEYS, ROWS_PER_OWNER, TOP, tell

QUESTION = "SELECT key, COUNT(x) AS n, SUM(x) AS s FROM t GROUP BY key"


def load(file: str) -> Any:
    base = duckdb.connect()
    base.execute(f"CREATE TABLE t AS SELECT * FROM read_parquet('{file}')")
    rows = base.execute("SELECT count(*) FROM t").fetchall()[0][0]
    engine = sqlalchemy.create_engine("sqlite://")
    with engine.begin() as empty:
        empty.execute(sqlalchemy.text("CREATE TABLE t (owner VARCHAR, key VARCHAR, x FLOAT)"))
    bare = Dataset.from_database("d", engine)
    match = re.search(r"Dataset: (\{.*?\})\nSchema", str(bare), re.DOTALL)
    assert match is not None
    size = bare.size.replace('"multiplicity": 1.0', f'"size": "{rows}", "multiplicity": 1.0')
    dataset = Dataset.from_str(match.group(1), bare.schema, size)
    dataset = dataset.with_range(None, "t", "x", 0.0, TOP).with_possible_values(
        None, "t", "key", KEYS
    )
    return base, dataset


def by_key(data: Any) -> dict[str, list[float]]:
    base, dataset = data
    private = dataset.relation(QUESTION).rewrite_with_differential_privacy(
        dataset, [("t", [], "owner")], {"epsilon": EPSILON, "delta": DELTA},
        max_multiplicity=ROWS_PER_OWNER, max_privacy_unit_groups=ROWS_PER_OWNER,
    )  # fmt: skip
    rows = base.execute(private.relation().to_query(Dialect.PostgreSql)).fetchall()
    return {key: [float(n), float(s), s / max(1, n)] for key, n, s in rows}


tell(
    load, {"keys": by_key},
    "Gaussian (all it has); epsilon 1, delta 1e-6 split by the library over COUNT and SUM, AVG "
    "from them; max_multiplicity 10, declared range and possible values; the rewritten SQL runs in "
    "DuckDB; rewriting is part of the answer's time",
    version("pyqrlew"),
)  # fmt: skip
