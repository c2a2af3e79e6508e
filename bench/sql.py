"""One question the whole way against the same question on the bare engine.

ours: con.sql (parse, bind, price, prepare, reserve, measure, noise, commit, intervals) on the registered copy.
base: the plain DuckDB query on the raw table, no limits, no clamps, no noise. Target: 3x plus 25 ms at 1e6 rows.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import duckdb
from common import line, options, report, seconds

KEYS = 100
CATALOG = f"""\
dither: 1
dataset: bench
lineage: bench
population: nobody
neighbours: add_remove
unit: {{kind: person}}
people:
  owner: {{protected: true}}
source: {{engine: csv, location: .}}
tables:
  t:
    kind: private
    from: t.csv
    owner: {{column: owner}}
    unique: []
    rows_per_unit: 10
    max_rows: 100000000
    columns:
      owner: {{type: id}}
      key:   {{type: category, values: [{", ".join(f"k{i}" for i in range(KEYS))}], other: keep, nulls: keep}}
      age:   {{type: integer, bounds: [0, 110], nulls: drop, provenance: invented}}
      x:     {{type: decimal, bounds: [0, 1000], resolution: 0.01, nulls: keep, provenance: invented}}
"""
QUESTION = "SELECT key, COUNT(*) AS n, SUM(x) AS x FROM t WHERE age >= 18 GROUP BY key"


def main() -> None:
    asked = options(__doc__ or "")
    lines = []
    for rows in (1_000_000,) if asked.quick else (100_000, 1_000_000, 10_000_000):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["XDG_STATE_HOME"] = str(Path(folder) / "heads")
            lines.append(measure(Path(folder) / "data", rows))
    report("sql", lines, ("duckdb", "sqlglot", "numpy"), as_json=asked.json)


def measure(folder: Path, rows: int) -> dict[str, object]:
    from dither import connect, steward
    from dither.catalog import load

    folder.mkdir()
    file = folder / "bench.yaml"
    file.write_text(CATALOG)
    bare = duckdb.connect()
    bare.execute(
        f"CREATE TABLE t AS SELECT 'u' || (i * 7919 % {rows // 8}) AS owner, 'k' || (i * 104729 % {KEYS}) AS key, "
        f"CAST(i * 31 % 100 AS INTEGER) AS age, (i * 37 % 99991) / 100.0 AS x FROM range({rows}) r(i)"
    )
    bare.execute(f"COPY t TO '{folder / 't.csv'}' (HEADER)")
    steward.register(file)
    from dither.state import State

    purpose = {
        "question": "How fast is one question?",
        "population": "people who were invented",
        "recipient": "a person at a desk",
    }
    steward.open_pot(State.beside(file), load(file), "total", epsilon="1000", ceiling="1000", purpose=purpose)
    con = connect(file)
    ours = seconds(lambda: con.sql(QUESTION, epsilon=0.1, fresh=True))
    base = seconds(lambda: bare.execute(QUESTION).fetchall())
    return line(f"{rows:,} rows, {KEYS} keys, COUNT and SUM", ours, base, 3.0, extra=0.025)


if __name__ == "__main__":
    main()
