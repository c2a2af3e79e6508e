"""The files of the first hour, and how long `dither quickstart` takes from each to an answer.

    python bench/first_hour_files.py [--quick] [--json] [--to FOLDER]

adult.csv: a file of the shape of the census extract, 32,561 rows, a header with blanks and hyphens.
taxi.parquet: 200,000 trips; most people make a few, some make hundreds. large.csv: ten million rows
of a million people. The target of each is 3 minutes. --quick: a tenth of each. --to writes the
files and stops. The noise of the invented values comes from NumPy's generator with a fixed seed: no
privacy depends on it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import tempfile
import time
from pathlib import Path

import common
import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

ADULT_ROWS = 32_561
TAXI_TRIPS = 200_000
LARGE_ROWS = 10_000_000
TARGET_SECONDS = 180
EDUCATIONS = ("Bachelors", "HS-grad", "11th", "Masters", "9th", "Some-college", "Assoc-acdm")
ADULT_COLUMNS = (
    "age, workclass, fnlwgt, education, education-num, marital-status, occupation, relationship, "
    "race, sex, capital-gain, capital-loss, hours-per-week, native-country, Salary"
)


def write_adult(file: Path, rows: int) -> None:
    """A CSV file with the header of the census extract, values behind blanks, and ? for a null."""
    draw = np.random.default_rng(1)
    age = draw.integers(17, 91, rows)
    work = draw.choice(["?", "Private", "State-gov"], rows, p=[0.06, 0.7, 0.24])
    weight = draw.integers(12_000, 900_000, rows)
    school = draw.choice(EDUCATIONS, rows)
    years = draw.integers(1, 17, rows)
    sex = draw.choice(["Male", "Female"], rows)
    hours = np.clip(draw.normal(40, 12, rows).round(), 1, 99).astype(int)
    salary = draw.choice(["<=50K", ">50K"], rows, p=[0.76, 0.24])
    columns = zip(age, work, weight, school, years, sex, hours, salary, strict=True)
    lines = (
        f"{a}, {w}, {f}, {e}, {y}, Never-married, Sales, Unmarried, White, {s}, 0, 0, {h}, "
        f"United-States, {p}"
        for a, w, f, e, y, s, h, p in columns
    )
    file.write_text("\n".join([ADULT_COLUMNS, *lines]) + "\n", encoding="utf-8")


def write_taxi(file: Path, trips: int) -> None:
    """A Parquet file of trips. How many one person makes follows a power law: a few make hundreds,
    so a limit of 30 leaves out about a third of all trips."""
    draw = np.random.default_rng(2)
    people = max(1, trips // 20)
    often = np.minimum(draw.pareto(1.1, people) * 6 + 1, 2_000)
    who = draw.choice(people, trips, p=often / often.sum())
    minutes = np.clip(draw.lognormal(2.4, 0.6, trips), 1, 180)
    start = np.datetime64("2025-01-01T00:00:00") + draw.integers(0, 365 * 86_400, trips)
    table = pa.table(
        {
            "rider id": pa.array(np.char.add("r", who.astype(str))),
            "pickup time": pa.array(start),
            "zone": pa.array(draw.choice([f"zone-{i}" for i in range(60)], trips)),
            "minutes": pa.array(minutes.round(1)),
            "fare": pa.array((2.5 + 1.4 * minutes + draw.exponential(2, trips)).round(2)),
        }
    )
    pq.write_table(table, file)


def write_large(file: Path, rows: int) -> None:
    """A CSV file of ten rows a person, written in pieces."""
    draw = np.random.default_rng(3)
    schema = pa.schema([("person", pa.int64()), ("kind", pa.string()), ("amount", pa.float64())])
    kinds = np.array(["a", "b", "c", "d"])
    with pacsv.CSVWriter(file, schema) as writer:
        for first in range(0, rows, 1_000_000):
            count = min(1_000_000, rows - first)
            person = draw.integers(0, max(1, rows // 10), count)
            amount = draw.gamma(2, 40, count).round(2)
            kind = kinds[draw.integers(0, 4, count)]
            writer.write(pa.table([person, kind, amount], schema=schema))


FILES = {
    "adult.csv": (
        write_adult,
        ADULT_ROWS,
        ["--header", "--person", "none", "--no-two-rows", "--max-rows", "1e6"],
        ["hours-per-week=hours_a_week", "education=labels"],
    ),
    "taxi.parquet": (
        write_taxi,
        TAXI_TRIPS,
        ["--person", "rider id", "--rows-per-person", "30", "--max-rows", "1e7"],
        ["fare=money 100", "zone=labels"],
    ),
    "large.csv": (
        write_large,
        LARGE_ROWS,
        ["--header", "--person", "person", "--rows-per-person", "20", "--max-rows", "1e8"],
        ["amount=money 1000", "kind=a | b | c | d"],
    ),
}
"""Each file: what writes it, how many rows, and the decisions that are handed to quickstart."""


def run_quickstart(file: Path, decisions: list[str], columns: list[str]) -> float:
    """Seconds from the raw file to an answer, without the start of Python."""
    from typer.testing import CliRunner

    from dither.cli.main import app

    words = [word for column in columns for word in ("--column", column)]
    purpose = ["--purpose", "How long does the first hour take?", "--relation", "*=disjoint"]
    started = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):
        ran = CliRunner().invoke(
            app, ["quickstart", str(file), *decisions, *words, *purpose, "--ask"]
        )
    if ran.exit_code != 0:
        raise SystemExit(f"{file.name}: {ran.exception}")
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows")
    parser.add_argument("--json", action="store_true", help="the last line is one JSON object")
    parser.add_argument("--to", type=Path, help="write the files into this folder and stop")
    arguments = parser.parse_args()
    share = 10 if arguments.quick else 1
    if arguments.to is not None:
        arguments.to.mkdir(parents=True, exist_ok=True)
        for name, (write, rows, _, _) in FILES.items():
            write(arguments.to / name, rows // share)
        return
    lines = []
    with tempfile.TemporaryDirectory(prefix="dither-first-hour-") as folder:
        os.environ["XDG_STATE_HOME"] = str(Path(folder) / "state")
        for name, (write, rows, decisions, columns) in FILES.items():
            write(Path(folder) / name, rows // share)
            taken = run_quickstart(Path(folder) / name, decisions, columns)
            what = f"{name}, {rows // share:,} rows, to an answer"
            lines.append(common.line(what, taken, TARGET_SECONDS, 1))
    common.report("first_hour_files", lines, ("dither", "duckdb"), as_json=arguments.json)


if __name__ == "__main__":
    main()
