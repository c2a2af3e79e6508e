"""TPC-H on every engine: time against the same engine without privacy, and how both grow.

    python bench/scale.py [--quick] [--json] [--scale 0.1 1] [--engine duckdb postgres spark]

The customer is the protected person, through foreign keys (`tpch/tpch.yaml`); the questions are the
15 statistical ones of `tpch/queries`, as the specification writes them. ours: `con.sql` the whole
way at epsilon 1, with the limits that `con.suggest` bought, on the registered copy. base: the same
question on the same engine, without privacy, over its own tables (PostgreSQL: with indexes on the
keys of TPC-H, and analysed). Both in the same run, medians of some runs; the first does not count.

Each engine runs in a process of its own. Its peak memory is that of the process with all its
children and the server, sampled ten times a second, shared pages counted once. A base that runs
longer than --patience seconds is not waited for.

--quick: scale 0.1, without Spark. Without: scale 1, all engines. Scale 10 needs about 15 GB of disk
for each engine and is asked for by name; growth is measured where an engine ran at two scales.

Data: tpchgen-cli 4.0.0 (pip install tpchgen-cli==4.0.0), found on the path or by TPCHGEN_CLI.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import duckdb
from common import line, report, seconds
from tpch.lines import FOLDER, TABLES, VALUES

ENGINES = ("duckdb", "postgres", "spark")
INDEXES = (
    "customer (c_custkey)",
    "orders (o_orderkey)",
    "orders (o_custkey)",
    "lineitem (l_orderkey)",
    "lineitem (l_partkey)",
    "part (p_partkey)",
    "supplier (s_suppkey)",
    "partsupp (ps_partkey, ps_suppkey)",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="scale 0.1, without Spark")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--scale", nargs="+", type=float, help="scale factors of TPC-H")
    parser.add_argument("--engine", nargs="+", choices=ENGINES)
    parser.add_argument("--times", type=int, default=3, help="runs of each question")
    parser.add_argument("--patience", type=int, default=120, help="seconds for one base")
    parser.add_argument("--data", type=Path, help="a folder in which generated data is kept")
    parser.add_argument("--child", nargs=2, metavar=("FOLDER", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child:
        figures = measure_engine(chosen.engine[0], Path(chosen.child[0]), chosen)
        Path(chosen.child[1]).write_text(json.dumps(figures))
        return
    scales = chosen.scale or ([0.1] if chosen.quick else [1.0])
    engines = chosen.engine or (ENGINES[:2] if chosen.quick else ENGINES)
    generator = os.environ.get("TPCHGEN_CLI") or shutil.which("tpchgen-cli")
    if generator is None:
        why = "TPC-H: skipped, tpchgen-cli is not there: pip install tpchgen-cli==4.0.0"
        lines = [_make_line(why, None, None, 1.0, None)]
        report("scale", lines, ("dither", "duckdb"), as_json=chosen.json)
        return
    with tempfile.TemporaryDirectory() as name:
        root = chosen.data or Path(name)
        measured = {}
        for scale in scales:
            data = _generate(generator, scale, root)
            for engine in engines:
                measured[engine, scale] = _run_child(engine, data, chosen)
    report("scale", list_lines(measured), ("dither", "duckdb"), as_json=chosen.json)


def _generate(generator: str, scale: float, root: Path) -> Path:
    data = root / f"tpch-{scale:g}"
    if not (data / "lineitem.parquet").exists():
        command = [generator, "parquet", "-s", f"{scale:g}", "--output-dir", str(data)]
        subprocess.run(command, check=True)
    text = (FOLDER / "tpch.yaml").read_text()
    for written, rows in (("[1, 20000]", 200_000), ("[1, 1000]", 10_000)):
        assert written in text
        text = text.replace(written, f"[1, {int(rows * scale)}]")
    (data / "tpch.yaml").write_text(text)
    return data


def _run_child(engine: str, data: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure one engine in a process of its own."""
    file = data / f"{engine}.json"
    file.unlink(missing_ok=True)
    command = [sys.executable, __file__, "--engine", engine, "--times", str(chosen.times)]
    command += ["--patience", str(chosen.patience), "--child", str(data), str(file)]
    done = subprocess.run(command, check=False)
    if not file.exists():
        return {"failed": f"its process ended with {done.returncode}"}
    figures: dict[str, Any] = json.loads(file.read_text())
    return figures


# -- one engine


def measure_engine(engine: str, data: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """Load, register and ask everything on one engine."""
    from dither import connect, steward
    from dither.catalog import load
    from dither.state import State

    purpose = {
        "question": "How do answers grow with the data?",
        "population": "customers who were invented",
        "recipient": "a person at a desk",
    }
    with tempfile.TemporaryDirectory(dir=data) as name, ExitStack() as cleanup:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "home")  # no dataset of this machine
        base = BASES[engine](data, folder, chosen.patience)
        cleanup.callback(base.close)  # also where a question fails: a server would go on
        memory = PeakMemory(base.processes)
        text = (data / "tpch.yaml").read_text()
        file = folder / "tpch.yaml"
        written = "source: {engine: parquet, location: .}"
        assert text.count(written) == 1
        file.write_text(text.replace(written, f"source: {base.source}"))
        start = time.perf_counter()
        steward.register(file, spill=folder)  # invented rows may lie in plain
        registered = {"seconds": time.perf_counter() - start, "peak": memory.read_and_reset()}
        catalog = load(file)
        steward.open_pot(
            State.beside(file), catalog, "total", epsilon="90000", ceiling="100000", purpose=purpose
        )
        con = connect(file)
        questions = {}
        for number in VALUES:
            questions[number] = _measure_question(con, base, number, chosen.times)
            print(engine, number, questions[number], file=sys.stderr, flush=True)
        source_bytes = sum((data / f"{table}.parquet").stat().st_size for table in TABLES)
        return {
            "registered": registered,
            "source_gb": source_bytes / 1e9,
            "questions": questions,
            "peak": memory.read_and_reset(),
        }


def _measure_question(con: Any, base: Any, number: int, times: int) -> dict[str, Any]:
    """The times of one question with and without privacy, and its error."""
    from dither import DitherError

    sql = (FOLDER / "queries" / f"q{number:02}.sql").read_text()
    try:
        limits = _buy_limits(con, sql)
        epsilon = "1" if limits is None else "0.9"

        def ask() -> Any:
            return con.sql(sql, epsilon=epsilon, limits=limits, fresh=True)

        ours = seconds(lambda: ask().table, times)
        results = [ask() for _ in range(times)]
    except DitherError as error:
        return {"refused": str(error).split("\n")[0][:200]}
    try:
        columns, truth = base.fetch(sql)
        base_s = seconds(lambda: base.fetch(sql), times)
    except TimeoutError:
        return {"ours": ours}
    errors = [_find_error(result, columns, truth, VALUES[number].split()) for result in results]
    return {"ours": ours, "base": base_s, "error": statistics.median(errors)}


def _buy_limits(con: Any, sql: str) -> Any:
    from dither import DitherError

    try:
        return con.suggest("limits", sql, epsilon="0.1", fresh=True)
    except DitherError:
        return None


def _find_error(result: Any, columns: list[str], rows: list[Any], values: list[str]) -> float:
    """The median over cells of the relative error."""
    keys = [column for column in columns if column not in values]
    truth = {}
    for row in rows:
        named = dict(zip(columns, row, strict=True))
        truth[tuple(str(named[key]) for key in keys)] = named
    answer = result.to_dict(intervals=False)
    errors = []
    for position in range(len(answer[columns[0]])):
        exact = truth.get(tuple(str(answer[key][position]) for key in keys))
        for value in values if exact is not None else ():
            if exact[value] and answer[value][position] is not None:
                distance = abs(float(answer[value][position]) - float(exact[value]))
                errors.append(distance / abs(float(exact[value])))
    return statistics.median(errors) if errors else 1.0


class DuckDBBase:
    """The bare engine over tables in a file of its own."""

    def __init__(self, data: Path, folder: Path, patience: int) -> None:
        self.source = f"{{engine: parquet, location: {data}}}"
        self.processes: list[int] = []
        self._patience = patience
        self._connection = duckdb.connect(str(folder / "base.duckdb"))
        for table in TABLES:
            file = data / f"{table}.parquet"
            self._connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{file}'")

    def fetch(self, sql: str) -> tuple[list[str], list[Any]]:
        clock = threading.Timer(self._patience, self._connection.interrupt)
        clock.start()
        try:
            rows = self._connection.execute(sql)
            return [column[0] for column in rows.description or ()], rows.fetchall()
        except duckdb.InterruptException:
            raise TimeoutError from None
        finally:
            clock.cancel()

    def close(self) -> None:
        self._connection.close()


class PostgresBase:
    """A server of our own, with the tables of TPC-H, their indexes and their statistics."""

    def __init__(self, data: Path, folder: Path, patience: int) -> None:
        import pgserver
        import psycopg

        self._folder = Path(tempfile.mkdtemp(prefix="dither-scale-"))
        self._server = pgserver.get_server(self._folder, cleanup_mode="stop")
        location = self._server.get_uri()
        self.source = f'{{engine: postgres, location: "{location}"}}'
        self.processes = [int((self._folder / "postmaster.pid").read_text().split()[0])]
        self._connection = psycopg.connect(location, autocommit=True)
        self._cancelled = psycopg.errors.QueryCanceled
        with duckdb.connect() as engine:
            for table in TABLES:
                _copy_to_postgres(engine, data / f"{table}.parquet", table, self._connection)
        for index in INDEXES:
            self._connection.execute(f"CREATE INDEX ON {index}")
        self._connection.execute("VACUUM ANALYZE")
        self._connection.execute(f"SET statement_timeout = '{patience}s'")

    def fetch(self, sql: str) -> tuple[list[str], list[Any]]:
        import sqlglot

        written = sqlglot.transpile(sql, read="duckdb", write="postgres")[0]
        try:
            rows = self._connection.execute(written)
        except self._cancelled:
            raise TimeoutError from None
        return [column.name for column in rows.description], rows.fetchall()

    def close(self) -> None:
        self._connection.close()
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)


def _copy_to_postgres(engine: Any, file: Path, table: str, connection: Any) -> None:
    """Load one Parquet file into a table, in batches."""
    import io

    import pyarrow.csv

    described = engine.execute(f"DESCRIBE SELECT * FROM '{file}'").fetchall()
    columns = ", ".join(f"{row[0]} {row[1].replace('VARCHAR', 'TEXT')}" for row in described)
    connection.execute(f"CREATE TABLE {table} ({columns})")
    options = pyarrow.csv.WriteOptions(include_header=False)
    reader = engine.sql(f"SELECT * FROM '{file}'").to_arrow_reader(1 << 16)
    with connection.cursor().copy(f"COPY {table} FROM STDIN (FORMAT csv)") as copy:
        for batch in reader:
            buffer = io.BytesIO()
            pyarrow.csv.write_csv(batch, buffer, options)
            copy.write(buffer.getvalue())


class SparkBase:
    """A session over the Parquet files."""

    def __init__(self, data: Path, folder: Path, patience: int) -> None:
        from dither.data.engines.spark.session import open_session

        self.source = f"{{engine: spark, location: {data}}}"
        self.processes: list[int] = []
        self._patience = patience
        self._session = open_session()
        for table in TABLES:
            rows = self._session.read.parquet(str(data / f"{table}.parquet"))
            rows.createOrReplaceTempView(table)

    def fetch(self, sql: str) -> tuple[list[str], list[Any]]:
        import sqlglot

        written = sqlglot.transpile(sql, read="duckdb", write="spark", identify=False)[0]
        late = threading.Event()

        def cancel() -> None:
            late.set()
            self._session.sparkContext.cancelAllJobs()

        clock = threading.Timer(self._patience, cancel)
        clock.start()
        try:
            rows = self._session.sql(written.replace("`", '"'))
            return list(rows.columns), [tuple(row) for row in rows.collect()]
        except Exception:
            if late.is_set():
                raise TimeoutError from None
            raise
        finally:
            clock.cancel()

    def close(self) -> None:
        self._session.stop()


BASES: dict[str, Callable[[Path, Path, int], Any]] = {
    "duckdb": DuckDBBase,
    "postgres": PostgresBase,
    "spark": SparkBase,
}


class PeakMemory:
    """The most memory of this process, its children and servers, in GiB."""

    def __init__(self, servers: list[int]) -> None:
        self._roots = [os.getpid(), *servers]
        self._peak = 0
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while True:
            self._peak = max(self._peak, sum(map(_read_memory, _list_processes(self._roots))))
            time.sleep(0.1)

    def read_and_reset(self) -> float:
        peak = self._peak
        self._peak = 0
        return peak / 2**20


def _list_processes(roots: list[int]) -> set[int]:
    """The processes below some roots, with them."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(
                (folder / "stat").read_text().rsplit(")", 1)[1].split()[1]
            )
        except (OSError, IndexError):
            continue
    found = set(roots)
    while more := {process for process, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def _read_memory(process: int) -> int:
    """Memory of a process in kB, pages that it shares with others counted in part."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    return int(text.split("\nPss:")[1].split()[0])


# -- lines


def list_lines(measured: dict[tuple[str, float], dict[str, Any]]) -> list[dict[str, object]]:
    """Every target of the issue as a line."""
    lines: list[dict[str, object]] = []
    for (engine, scale), figures in measured.items():
        title = f"{engine}, scale {scale:g}"
        if "failed" in figures:
            lines.append(_make_line(f"{title}: {figures['failed']}", None, None, 1.0, None))
            continue
        lines += _list_engine_lines(title, figures)
    for engine in dict.fromkeys(engine for engine, _ in measured):
        scales = sorted(scale for name, scale in measured if name == engine)
        for small, large in itertools.pairwise(scales):
            lines += _list_growth_lines(
                engine, small, large, measured[engine, small], measured[engine, large]
            )
    return lines


def _list_engine_lines(title: str, figures: dict[str, Any]) -> list[dict[str, object]]:
    lines: list[dict[str, object]] = []
    ratios = []
    errors = []
    for number, question in figures["questions"].items():
        name = f"{title}, q{int(number):02}"
        if "refused" in question:
            lines.append(_make_line(f"{name}: {question['refused']}", None, None, 5.0, False))
        elif "base" not in question:
            name = f"{name}: time; the base was not waited for"
            lines.append(_make_line(name, question["ours"], None, 5.0, None, unit="s"))
        else:
            ours, base, error = question["ours"], question["base"], question["error"]
            lines.append(line(f"{name}: time, error {error:.2%}", ours, base, 5.0))
            ratios.append(ours / base)
            errors.append(error)
    if ratios:
        median = statistics.median(ratios)
        name = f"{title}: median ratio of {len(ratios)} questions"
        lines.append(_make_line(name, median, 1.0, 3.0, median <= 3, unit="x"))
        name = f"{title}: median relative error at epsilon 1"
        lines.append(_make_line(name, statistics.median(errors), None, 1.0, None, unit="relative"))
    registered = figures["registered"]
    for name, value, unit in (
        ("registration", registered["seconds"], "s"),
        ("registration, a GB of Parquet", registered["seconds"] / figures["source_gb"], "s"),
        ("peak memory of registration", registered["peak"], "GiB"),
        ("peak memory of questions", figures["peak"], "GiB"),
    ):
        lines.append(_make_line(f"{title}: {name}", value, None, 1.0, None, unit=unit))
    return lines


def _list_growth_lines(
    engine: str, small: float, large: float, before: dict[str, Any], after: dict[str, Any]
) -> list[dict[str, object]]:
    """Growth over the growth of the data: 1 is linear."""
    if "failed" in before or "failed" in after:
        return []
    factor = large / small
    pairs = {"registration": (before["registered"]["seconds"], after["registered"]["seconds"])}
    both = [
        number
        for number, question in before["questions"].items()
        if "ours" in question and "ours" in after["questions"].get(number, {})
    ]
    if both:
        times = [[figures["questions"][n]["ours"] for n in both] for figures in (before, after)]
        pairs[f"all of {len(both)} questions"] = (sum(times[0]), sum(times[1]))
    return [
        line(f"{engine}: growth from {small:g} to {large:g}, {what}", late, early * factor, 1.0)
        for what, (early, late) in pairs.items()
    ]


def _make_line(
    name: str,
    measured: float | None,
    base: float | None,
    target: float,
    is_ok: bool | None,
    *,
    unit: str = "-",
) -> dict[str, object]:
    ratio = None if measured is None or not base else measured / base
    return {
        "unit": unit,
        "name": name,
        "ours_s": measured,
        "base_s": base,
        "ratio": ratio,
        "target": target,
        "ok": is_ok,
    }


if __name__ == "__main__":
    main()
