"""Registration and bounding against the bare engine, in the same run.

    python bench/registration.py [--quick] [--json] [--rows N] [--loads]
    python bench/registration.py --spill ROWS [--memory 2GB]

Registration of CSV and Parquet against a plain `CREATE TABLE AS` of the same file; against one with
ORDER BY owner, which is how a copy lies; and against one that also casts every column to the type
of the copy, which is the least that any registration does (--loads: these alone); bounding of
groups and values per (unit, group) against the bare `GROUP BY owner, key`; questions over copies
made from bad rows against one made from good rows: half the rows bad and repaired to values, half
of them kept as nulls, and one bad row alone. Best of interleaved runs, in seconds of processor
time, which other work on the machine disturbs least; registration also by the clock, since a CSV
file with quotes is read by one thread. --quick: 1e6 rows; without: 1e7. --spill registers a Parquet
file of so many rows, a tenth of them owners, within --memory, and reports time and peak memory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import duckdb
from common import write_catalog

from dither.catalog import Catalog, parse
from dither.data.lower.cells import query_sql
from dither.data.measure import Measurer
from dither.data.register.registration import write_copy, write_copy_and_facts
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
from dither.plan.analyse import analyse

COLUMNS = """\
      ward:   {type: integer, bounds: [0, 99], nulls: keep, provenance: bench}
      cost:   {type: decimal, bounds: [0, 5000], resolution: 0.01, nulls: keep, provenance: bench}
      sex:    {type: category, values: [f, m], other: keep, nulls: keep}
      day:    {type: date, bounds: [2024-01-01, 2026-12-31], nulls: keep, provenance: bench}
"""
CATALOG = write_catalog(COLUMNS, population="bench", rows_per_unit=20, max_rows=1_000_000_000)


def write_rows(file: Path, rows: int, bad: str) -> None:
    """About ten rows a person, scattered; the rows where `bad` holds have values that must be
    repaired."""
    spoil = bad
    duckdb.execute(
        f"""COPY (SELECT 'p' || (hash(i) % {rows // 10}) AS person,
            CASE WHEN {spoil} THEN 'n/a' ELSE CAST(hash(i + 1) % 100 AS VARCHAR) END AS ward,
            CASE WHEN {spoil} THEN 'nan'
                ELSE CAST((hash(i + 2) % 500000) / 100 AS VARCHAR) END AS cost,
            CASE WHEN {spoil} THEN 'zz' WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,
            CASE WHEN {spoil} THEN '9999-99-99'
            ELSE CAST(DATE '2024-01-01' + CAST(hash(i + 3) % 900 AS INTEGER) AS VARCHAR) END AS day
            FROM range({rows}) AS t(i)) TO '{file}' (HEADER)"""
    )


def seconds(runs: int, *works: Any, clock: Any = time.process_time) -> list[float]:
    """The best time of each piece of work, their runs taking turns."""
    best = [float("inf")] * len(works)
    for _ in range(runs):
        for position, work in enumerate(works):
            start = clock()
            work()
            best[position] = min(best[position], clock() - start)
    return best


CASTS = (
    "person, CAST(ward AS TINYINT) AS ward, CAST(floor(CAST(cost AS DOUBLE) * 100 + 0.5) AS "
    "INTEGER) AS cost, CAST(list_position(['f', 'm'], sex) AS TINYINT) AS sex, "
    "CAST(CAST(day AS DATE) - DATE '1970-01-01' AS SMALLINT) AS day"
)


def plain(folder: Path, *, kind: str = "csv", order: str = "", columns_sql: str = "*") -> None:
    """What the bare engine needs to load the file, perhaps in order of owners."""
    target = folder / "plain.duckdb"
    target.unlink(missing_ok=True)
    with duckdb.connect(str(target)) as connection:
        connection.execute("SET preserve_insertion_order = false")
        columns = (
            "{"
            + ", ".join(f"'{name}': 'VARCHAR'" for name in ("person", "ward", "cost", "sex", "day"))
            + "}"
        )
        rows = f"read_parquet('{folder}/visits.parquet')"
        if kind == "csv":
            rows = (
                f"read_csv('{folder}/visits.csv', auto_detect = false, header = true, "
                f"delim = ',', quote = '\"', columns = {columns})"
            )
        connection.execute(f"CREATE TABLE t AS SELECT {columns_sql} FROM {rows} {order}")


def register_ours(folder: Path, facts: Catalog) -> None:
    (folder / "data.duckdb").unlink(missing_ok=True)
    write_copy(facts, folder, bytes(32), folder / "data.duckdb", folder / "spill", lambda _: None)


def write_parquet(folder: Path) -> None:
    """The rows of the CSV file with their types."""
    duckdb.execute(
        f"""COPY (SELECT person, CAST(ward AS INTEGER) AS ward, CAST(cost AS DOUBLE) AS cost, sex,
        CAST(day AS DATE) AS day FROM read_csv('{folder}/visits.csv', all_varchar = true))
        TO '{folder}/visits.parquet'"""
    )


def load_lines(folder: Path, rows: int, runs: int) -> list[dict[str, Any]]:
    """Registration against a bare load, by the clock and in processor time."""
    write_parquet(folder)
    quoted = folder / "quoted"
    quoted.mkdir()
    duckdb.execute(
        f"COPY (FROM read_csv('{folder}/visits.csv', all_varchar = true)) TO "
        f"'{quoted}/visits.csv' (HEADER, FORCE_QUOTE *)"
    )
    binding = CATALOG.replace("rows_per_unit: 20", "rows_per_unit: 5")
    cases = {
        "CSV": (folder, "csv", CATALOG),
        "CSV, every field quoted": (quoted, "csv", CATALOG),
        "CSV, a limit that binds for most": (folder, "csv", binding),
        "Parquet": (folder, "parquet", CATALOG.replace("csv", "parquet")),
    }
    lines = []
    for what, (place, kind, text) in cases.items():
        facts = parse(text)
        works = [
            lambda place=place, kind=kind: plain(place, kind=kind),
            lambda place=place, kind=kind: plain(place, kind=kind, order="ORDER BY person"),
            lambda place=place, kind=kind: plain(
                place, kind=kind, order="ORDER BY person", columns_sql=CASTS
            ),
            lambda place=place, facts=facts: register_ours(place, facts),
        ]
        for measure, clock in {
            "by the clock": time.perf_counter,
            "processor": time.process_time,
        }.items():
            base, ordered, cast, ours = seconds(runs, *works, clock=clock)
            name = f"registration, {rows:.0e} rows of {what}, {measure}"
            lines.append(line(name, ours, base, 1.7))
            lines.append(line(f"{name}, against ORDER BY owner", ours, ordered, 1.7))
            lines.append(line(f"{name}, against ORDER BY owner and casts", ours, cast, 1.7))
    return lines


def bounded() -> Cells:
    """At most five wards a person, at most 1000.00 a ward."""
    limited = LimitGroups(Scan("visits"), ("ward",), 5)
    summed = PerUnit(limited, ("ward",), (Named("cost", Sum("cost")),))
    clamp = Call(
        "clamp", (Column("cost"), Value("number", Fraction(0)), Value("number", Fraction(1000)))
    )
    return Cells(
        Project(summed, (Named("ward", Column("ward")), Named("c", clamp))), ("ward",), (Sum("c"),)
    )


def questions() -> list[Cells]:
    half = Holds(
        Call(
            "gt", (Call("divide", (Column("cost"), Column("ward"))), Value("number", Fraction(50)))
        )
    )
    cost = Column("cost")
    ward = Column("ward")
    choice = Holds(
        Call("lt", (Call("least", (cost, ward)), Call("sqrt", (Call("nullif", (cost, ward)),))))
    )
    return [
        Cells(Scan("visits"), ("ward",), (Sum("cost"),)),
        Cells(Filter(Scan("visits"), half), ("sex",), (Count(),)),
        Cells(
            Project(Scan("visits"), (Named("m", Call("month", (Column("day"),))),)),
            ("m",),
            (Count(),),
        ),
        Cells(Filter(Scan("visits"), choice), ("sex",), (Count(),)),
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


def make_question(measurer: Measurer, sql: str) -> Any:
    return lambda: measurer.engine.fetch_table(sql)


def run_loads(rows: int, runs: int) -> list[dict[str, Any]]:
    """Registration alone."""
    with tempfile.TemporaryDirectory() as name:
        write_rows(Path(name) / "visits.csv", rows, "false")
        return load_lines(Path(name), rows, runs)


def run(rows: int, runs: int) -> list[dict[str, Any]]:
    kept = parse(CATALOG)
    text = CATALOG.replace("nulls: keep, provenance", "nulls: {value: 0}, provenance")
    valued = parse(
        text.replace("2026-12-31], nulls: {value: 0}", "2026-12-31], nulls: {value: 2024-06-01}")
    )
    with tempfile.TemporaryDirectory() as name:
        copies = {}
        for what, bad in {"good": "false", "half": "i % 2 = 1", "one": "i = 77"}.items():
            folder = Path(name) / what
            folder.mkdir()
            write_rows(folder / "visits.csv", rows, bad)
        good = Path(name) / "good"
        lines = load_lines(good, rows, runs)
        for what, facts in {"half": kept, "one": kept, "good": kept, "valued": valued}.items():
            folder = Path(name) / ("half" if what == "valued" else what)
            (folder / "data.duckdb").unlink(missing_ok=True)
            register_ours(folder, facts)
            (folder / "data.duckdb").rename(Path(name) / f"{what}.duckdb")
            copies[what] = Measurer(Path(name) / f"{what}.duckdb", facts)
        sql = query_sql(bounded(), analyse(bounded().plan, kept))
        sums = "SELECT dither_unit, ward, sum(cost) AS c FROM visits GROUP BY ALL"
        bare = f"SELECT ward, sum(c) FROM ({sums}) GROUP BY 1"
        base, our = seconds(
            runs + 2, make_question(copies["good"], bare), make_question(copies["good"], sql)
        )
        lines.append(line("per (unit, group) bounding, against numbered owners", our, base, 1.5))
        words_by_case = {
            "valued": "half the rows bad, repaired",
            "half": "half the rows bad, nulls kept",
            "one": "one row bad",
        }
        for what, words in words_by_case.items():
            pairs = []
            for query in questions():
                facts = valued if what == "valued" else kept
                sql = query_sql(query, analyse(query.plan, facts))
                pairs.append(
                    seconds(
                        runs + 6,
                        make_question(copies[what], sql),
                        make_question(copies["good"], sql),
                    )
                )
            for question, pair in zip(
                ("sum by key", "quotient in WHERE", "month", "least, nullif, root"),
                pairs,
                strict=True,
            ):
                lines.append(line(f"{words}: {question}", *pair, 1.3))
        for measurer in copies.values():
            measurer.close()
    return lines


def peak_memory() -> float:
    """The most memory that this process has held, in GiB."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 2**20


def spilled(rows: int, memory: str) -> None:
    """Registration within a bound on memory, its spill in plain in a declared folder."""
    text = CATALOG.replace("engine: csv", "engine: parquet").replace("visits.csv", "visits.parquet")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with duckdb.connect() as connection:
            connection.execute(f"SET memory_limit = '{memory}'")
            connection.execute(
                f"""COPY (SELECT 'p' || (hash(i) % {rows // 10}) AS person,
                CAST(hash(i + 1) % 100 AS INTEGER) AS ward,
                (hash(i + 2) % 500000) / 100 AS cost,
                CASE WHEN i % 3 = 0 THEN 'f' ELSE 'm' END AS sex,
                DATE '2024-01-01' + CAST(hash(i + 3) % 900 AS INTEGER) AS day
                FROM range({rows}) AS t(i)) TO '{folder}/visits.parquet'"""
            )
        Path("/proc/self/clear_refs").write_text("5")  # from here on the peak is registration's own
        clock = time.perf_counter()
        cpu = time.process_time()
        target = folder / "data.duckdb"
        spill = folder / "spill"

        def stage(what: str) -> None:
            wall = time.perf_counter() - clock
            took = f"{wall:8.1f} s {time.process_time() - cpu:8.1f} s of processor"
            print(f"{took}  peak {peak_memory():.2f} GiB  {what}", flush=True)

        write_copy_and_facts(
            parse(text), folder, bytes(32), target, spill, stage, memory, plain_spill=True
        )
        peak = peak_memory()
        print(
            f"{rows:,} rows within {memory}: {time.perf_counter() - clock:.0f} s, "
            f"{time.process_time() - cpu:.0f} s of "
            f"processor, peak memory {peak:.2f} GiB, copy {target.stat().st_size / 2**20:,.0f} MiB"
        )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--json", action="store_true")
    options.add_argument("--rows", type=int)
    options.add_argument("--loads", action="store_true", help="registration alone")
    options.add_argument("--spill", type=lambda text: int(float(text)), metavar="ROWS")
    options.add_argument("--memory", default="2GB")
    chosen = options.parse_args()
    if chosen.spill:
        spilled(chosen.spill, chosen.memory)
        return
    rows = chosen.rows or (1_000_000 if chosen.quick else 10_000_000)
    lines = run_loads(rows, 3) if chosen.loads else run(rows, 3)
    versions = {"duckdb": duckdb.__version__, "python": platform.python_version()}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{rows:,} rows, {os.cpu_count()} cores, {versions}, peak memory {peak:.1f} GiB")
    print(f"{'':96}{'ours s':>9}{'base s':>9}{'ratio':>8}{'target':>8}")
    for bench_line in lines:
        print(
            f"{bench_line['name']:96}{bench_line['ours_s']:9}{bench_line['base_s']:9}{bench_line['ratio']:8}{bench_line['target']:8}"
        )
    if chosen.json:
        print(
            json.dumps(
                {
                    "bench": "registration",
                    "versions": versions,
                    "cores": os.cpu_count(),
                    "lines": lines,
                }
            )
        )


if __name__ == "__main__":
    main()
