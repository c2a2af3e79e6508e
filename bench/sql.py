"""Questions the whole way against the same questions on the bare engine, and their error against
its law.

ours: con.sql (parse, bind, price, prepare, reserve, measure, noise, commit, intervals) on the
registered copy. base: the plain DuckDB query on the raw tables, no limits, no clamps, no noise.
Target: 3x plus 25 ms, for a median by keys 5x.

Errors: 200 repetitions; the figures are then root mean squared errors, in the unit shown. The law
for one price epsilon and k rows per person: what a row adds to (count, sum less the middle m of its
bounds) fills the box [-1, 1] x [-m, m], and the K-norm mechanism of that box has standard
deviations 2 k / epsilon and 2 k m / epsilon (continuous noise); the sum itself sqrt(v_centred + m^2
v_count), an average of n values sqrt(v_centred + (mean - m)^2 v_count) / n. Two Laplaces with half
of epsilon each err by 1.41 times as much. A median is the law of the exponential mechanism over the
same grid, computed exactly, for k rows of a person in all groups together and the whole price: it
is asked for without an interval. With one, by default, an eighth of the price is for the interval;
no target is set.

TPC-H at scale factor 0.1: see tpch/lines.py. `--tpch` measures it alone.
"""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
from common import line, options, report, seconds
from tpch.lines import tpch_lines

KEYS = 100
REPETITIONS = 200
CATALOG = f"""\
dither: 1
dataset: bench
lineage: bench
population: nobody
neighbours: add_remove
unit: {{kind: person}}
people:
  owner: {{protected: true}}
source: {{engine: parquet, location: .}}
tables:
  patients:
    kind: private
    from: patients.parquet
    owner: {{column: owner}}
    unique: [[owner]]
    rows_per_unit: 1
    max_rows: 100000000
    columns:
      owner: {{type: id}}
      sex:   {{type: category, values: [f, m], other: drop, nulls: keep}}
      age:   {{type: integer, bounds: [0, 110], nulls: drop, provenance: invented}}
  visits:
    kind: private
    from: visits.parquet
    owner: {{references: patients, by: owner}}
    unique: []
    rows_per_unit: 10
    max_rows: 100000000
    columns:
      owner: {{type: id}}
      key:   {{type: category, values: [{", ".join(f"k{i}" for i in range(KEYS))}], other: drop,
          nulls: drop}}
      x:     {{type: decimal, bounds: [0, 1000], resolution: 0.01, nulls: drop,
          provenance: invented}}
"""
BY_KEY = "SELECT key, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a FROM visits GROUP BY key"
JOINED = (
    "SELECT p.sex, COUNT(*) AS n, AVG(v.x) AS a FROM visits v JOIN patients p ON v.owner = p.owner "
    "WHERE p.age >= 18 GROUP BY p.sex"
)
MEDIANS = "SELECT key, MEDIAN(x) AS m FROM visits GROUP BY key"


def main() -> None:
    chosen = options(__doc__ or "", "tpch")
    lines: list[dict[str, object]] = []
    small = (1_000_000, 100_000)
    sizes = (small,) if chosen.quick else (small, (10_000_000, 1_000_000))
    for rows, owners in () if chosen.tpch else sizes:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = str(Path(folder) / "heads")
            con, bare = registered(Path(folder) / "data", rows, owners)
            lines += times(con, bare, rows)
            if rows == 1_000_000:
                lines += errors(con, bare, 40 if chosen.quick else REPETITIONS)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        lines += tpch_lines(quick=chosen.quick)
    report("sql", lines, ("duckdb", "sqlglot", "numpy"), as_json=chosen.json)
    print(
        f"peak memory of this process: "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB"
    )


def registered(folder: Path, rows: int, owners: int) -> tuple[Any, Any]:
    from dither import connect, steward
    from dither.catalog import load
    from dither.state import State

    folder.mkdir()
    file = folder / "bench.yaml"
    file.write_text(CATALOG)
    bare = duckdb.connect()
    bare.execute(
        "CREATE TABLE patients AS SELECT 'u' || i AS owner, CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' "
        f"END AS sex, CAST(i * 31 % 100 AS INTEGER) AS age FROM range({owners}) r(i)"
    )
    bare.execute(
        f"CREATE TABLE visits AS SELECT 'u' || (i % {owners}) AS owner, 'k' || (i * 104729 // 7 % "
        f"{KEYS}) AS key, (i * 37 % 99991) / 100.0 AS x FROM range({rows}) r(i)"
    )
    for table in ("patients", "visits"):
        bare.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")
    steward.register(file)
    purpose = {
        "question": "How fast is one question?",
        "population": "people who were invented",
        "recipient": "a person at a desk",
    }
    steward.open_pot(
        State.beside(file), load(file), "total", epsilon="9000", ceiling="10000", purpose=purpose
    )
    return connect(file), bare


def times(con: Any, bare: Any, rows: int) -> list[dict[str, object]]:
    lines = []
    for what, sql, target in (
        (f"{KEYS} keys, COUNT+SUM+AVG", BY_KEY, 3.0),
        ("patients join visits, COUNT+AVG", JOINED, 3.0),
        (f"median by {KEYS} keys, with intervals", MEDIANS, 5.0),
    ):
        ours_s = seconds(lambda sql=sql: con.sql(sql, epsilon=0.1, fresh=True).table)  # type: ignore[misc]
        base_s = seconds(lambda sql=sql: bare.execute(sql).fetchall())  # type: ignore[misc]
        lines.append(line(f"{rows:,} rows, {what}", ours_s, base_s, target, extra=0.025))
    return lines


def errors(con: Any, bare: Any, repetitions: int) -> list[dict[str, object]]:
    epsilon = 1.0
    k = 10
    top = 1000.0
    truth = {row[0]: row[1:] for row in bare.execute(BY_KEY).fetchall()}
    n = np.mean([row[0] for row in truth.values()])
    mean = np.mean([row[2] for row in truth.values()])
    squares = np.zeros(3)
    medians = {
        row[0]: row[1]
        for row in bare.execute(MEDIANS.replace("MEDIAN(x)", "quantile_disc(x, 0.5)")).fetchall()
    }
    off = {False: 0.0, True: 0.0}
    for _ in range(repetitions):
        answer = con.sql(BY_KEY, epsilon=epsilon, fresh=True).to_dict(intervals=False)
        for position, name in enumerate(("n", "s", "a")):
            gap = np.array(answer[name], float) - [
                float(truth[key][position]) for key in answer["key"]
            ]
            squares[position] += np.mean(gap**2)
    times = max(2, repetitions // 4)
    for with_ends in off:
        for _ in range(times):
            answer = con.sql(
                MEDIANS, epsilon=epsilon, fresh=True, quantile_intervals=with_ends
            ).to_dict()
            gap = np.array(answer["m"], float) - [float(medians[key]) for key in answer["key"]]
            off[with_ends] += float(np.mean(gap**2)) / times
    rmse = np.sqrt(squares / repetitions)
    best = by_law(epsilon, k, top, float(n), float(mean))
    lines = [
        line(f"RMSE of {name} at epsilon 1, {KEYS} keys", float(column_rmse), least, 1.1, unit=unit)
        for name, unit, column_rmse, least in zip(
            ("counts", "sums", "averages"), ("rows", "x", "x"), rmse, best, strict=True
        )
    ]
    law = median_rmse(bare, epsilon, k)
    what = f"RMSE of medians at epsilon 1, {KEYS} keys"
    return [
        *lines,
        line(what, off[False] ** 0.5, law, 1.1, unit="x"),
        line(f"{what}, with intervals (no target is set)", off[True] ** 0.5, law, 100.0, unit="x"),
    ]


def by_law(epsilon: float, k: int, top: float, n: float, mean: float) -> tuple[float, float, float]:
    """Standard errors of count, sum and average."""
    count = 2 * k / epsilon
    centred = 2 * k * top / 2 / epsilon
    average = (centred**2 + (mean - top / 2) ** 2 * count**2) ** 0.5 / n
    return count, (centred**2 + (top / 2 * count) ** 2) ** 0.5, average


def median_rmse(bare: Any, epsilon: float, k: int) -> float:
    """Of the exponential mechanism on ranks over the column's grid, k rows of a person in all;
    exact law, float64."""
    squares = []
    rows = bare.execute(
        "SELECT key, CAST(round(x * 100) AS BIGINT) AS c, count(*) AS n FROM visits GROUP BY ALL"
    )
    columns = rows.fetchnumpy()
    scale = 2 * k / epsilon
    for key in [f"k{i}" for i in range(KEYS)]:
        is_key = columns["key"] == key
        counts = np.bincount(
            np.minimum(100_000, columns["c"][is_key]), columns["n"][is_key], 100_001
        )
        upto = np.cumsum(counts)
        below = upto - counts
        above = upto[-1] - upto
        score = -np.maximum(0, np.maximum(2 * below - upto[-1], 2 * above - upto[-1]))
        weights = np.exp(score / scale)
        weights /= weights.sum()
        middle = np.searchsorted(upto, upto[-1] / 2)
        squares.append(float((weights * (np.arange(100_001) - middle) ** 2).sum()) / 1e4)
    return float(np.mean(squares)) ** 0.5


if __name__ == "__main__":
    main()
