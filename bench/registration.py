"""Registration and bounding against the bare engine, in the same run.

    python bench/registration.py [--quick] [--json] [--rows N]

Three lines: registration of a CSV against a plain `CREATE TABLE AS SELECT ... ORDER BY owner` of the same file; bounding
of groups and values per (unit, group) against the bare `GROUP BY owner, key`; questions over a copy made from half bad
rows against one made from good rows. Medians of several runs. --quick: 1e6 rows; without: 1e7.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb

from dither.catalog import Catalog, parse
from dither.data.lower.cells import cells_sql
from dither.data.lower.plan import Lowering
from dither.data.measure import Measurer
from dither.data.registration import write_copy
from dither.plan.algebra import (
    Call,
    Cells,
    Column,
    Count,
    Filter,
    Holds,
    LimitGroups,
    Named,
    PerUnit,
    Project,
    Scan,
    Sum,
    Value,
)

CATALOG = """\
dither: 1
dataset: bench
lineage: bench
population: bench
neighbours: add_remove
unit: {kind: person}
people: {person: {protected: true}}
source: {engine: csv, location: .}
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: person}
    unique: []
    rows_per_unit: 20
    max_rows: 1000000000
    columns:
      person: {type: id}
      ward:   {type: integer, bounds: [0, 99], nulls: keep, provenance: bench}
      cost:   {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: keep, provenance: bench}
      sex:    {type: category, values: [f, m], other: keep, nulls: keep}
      day:    {type: date, bounds: [2024-01-01, 2026-12-31], nulls: keep, provenance: bench}
"""


def write_rows(file: Path, rows: int, *, bad: bool) -> None:
    """About ten rows a person, scattered; `bad`: every second row has values that must be repaired."""
    spoil = "i % 2 = 1" if bad else "false"
    duckdb.execute(
        f"""COPY (SELECT 'p' || (hash(i) % {rows // 10}) AS person,
            CASE WHEN {spoil} THEN 'n/a' ELSE CAST(hash(i + 1) % 100 AS VARCHAR) END AS ward,
            CASE WHEN {spoil} THEN 'nan' ELSE CAST((hash(i + 2) % 500000) / 100 AS VARCHAR) END AS cost,
            CASE WHEN {spoil} THEN 'zz' WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,
            CASE WHEN {spoil} THEN '9999-99-99' ELSE CAST(DATE '2024-01-01' + CAST(hash(i + 3) % 900 AS INTEGER) AS VARCHAR)
            END AS day FROM range({rows}) AS t(i)) TO '{file}' (HEADER)"""
    )


def seconds(work: Any, runs: int) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def plain(folder: Path) -> None:
    """What the bare engine needs to bring the file in order of owners."""
    target = folder / "plain.duckdb"
    target.unlink(missing_ok=True)
    with duckdb.connect(str(target)) as connection:
        connection.execute("SET preserve_insertion_order = false")
        columns = "{" + ", ".join(f"'{name}': 'VARCHAR'" for name in ("person", "ward", "cost", "sex", "day")) + "}"
        connection.execute(
            f"CREATE TABLE t AS SELECT * FROM read_csv('{folder}/visits.csv', auto_detect = false, header = true, "
            f"delim = ',', quote = '\"', columns = {columns}) ORDER BY person"
        )


def ours(folder: Path, facts: Catalog) -> None:
    (folder / "data.duckdb").unlink(missing_ok=True)
    write_copy(facts, folder, bytes(32), folder / "data.duckdb", folder / "spill", lambda _: None)


def bounded() -> Cells:
    """At most five wards a person, at most 1000.00 a ward."""
    limited = LimitGroups(Scan("visits"), ("ward",), 5)
    summed = PerUnit(limited, ("ward",), (Named("cost", Sum("cost")),))
    clamp = Call("clamp", (Column("cost"), Value("number", Fraction(0)), Value("number", Fraction(1000))))
    return Cells(Project(summed, (Named("ward", Column("ward")), Named("c", clamp))), ("ward",), (Sum("c"),))


def questions() -> list[Cells]:
    half = Holds(Call("gt", (Call("divide", (Column("cost"), Column("ward"))), Value("number", Fraction(50)))))
    return [
        Cells(Scan("visits"), ("ward",), (Sum("cost"),)),
        Cells(Filter(Scan("visits"), half), ("sex",), (Count(),)),
        Cells(Project(Scan("visits"), (Named("m", Call("month", (Column("day"),))),)), ("m",), (Count(),)),
    ]


def line(name: str, our: float, base: float, target: float) -> dict[str, Any]:
    ratio = our / base
    return {
        "name": name,
        "ours_s": round(our, 4),
        "base_s": round(base, 4),
        "ratio": round(ratio, 3),
        "target": target,
        "ok": ratio <= target,
    }


def run(rows: int, runs: int) -> list[dict[str, Any]]:
    facts, lines = parse(CATALOG), []
    with tempfile.TemporaryDirectory() as name:
        good, bad = Path(name) / "good", Path(name) / "bad"
        for folder in (good, bad):
            folder.mkdir()
            write_rows(folder / "visits.csv", rows, bad=folder is bad)
        base = seconds(lambda: plain(good), runs)
        our = seconds(lambda: ours(good, facts), runs)
        lines.append(line(f"registration, {rows:.0e} rows of CSV", our, base, 3.0))
        measurer = Measurer(good / "data.duckdb", facts)
        bare = "SELECT ward, sum(c) FROM (SELECT dither_owner, ward, sum(cost) AS c FROM visits GROUP BY ALL) GROUP BY ward"
        connection = measurer._connection
        sql = cells_sql(bounded(), Lowering(facts))
        base = seconds(lambda: connection.sql(bare).to_arrow_table(), runs + 2)
        lines.append(
            line(
                "per (unit, group) bounding", seconds(lambda: connection.sql(sql).to_arrow_table(), runs + 2), base, 1.5
            )
        )
        times = []
        ours(bad, facts)
        half = Measurer(bad / "data.duckdb", facts)
        for query in questions():
            clean, spoilt = (cells_sql(query, Lowering(facts)) for _ in range(2))
            first = seconds(lambda: measurer._connection.sql(clean).to_arrow_table(), runs + 4)  # noqa: B023
            second = seconds(lambda: half._connection.sql(spoilt).to_arrow_table(), runs + 4)  # noqa: B023
            times.append((second, first))
        worst = max(times, key=lambda pair: pair[0] / pair[1])
        lines.append(line("questions, half the rows bad against none", *worst, 1.3))
        measurer.close()
        half.close()
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    options.add_argument("--rows", type=int)
    given = options.parse_args()
    rows = given.rows or (1_000_000 if given.quick else 10_000_000)
    lines = run(rows, 3)
    versions = {"duckdb": duckdb.__version__, "python": platform.python_version()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows:,} rows, {os.cpu_count()} cores, {versions}, peak memory {peak:.1f} GiB")
    print(f"{'':45}{'ours s':>9}{'base s':>9}{'ratio':>8}{'target':>8}")
    for each in lines:
        print(f"{each['name']:45}{each['ours_s']:9}{each['base_s']:9}{each['ratio']:8}{each['target']:8}")
    if given.json:
        print(json.dumps({"bench": "registration", "versions": versions, "cores": os.cpu_count(), "lines": lines}))


if __name__ == "__main__":
    main()
