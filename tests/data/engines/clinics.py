"""The tutorial's clinic on each engine: one invented set of files, loaded, and one line changed."""

from __future__ import annotations

import csv
from pathlib import Path
from shutil import copytree
from typing import Any

import duckdb
import psycopg

from dither import connect, steward
from dither.catalog import load
from dither.state import State
from tests.answer.asked import PURPOSE

TERMS = {"rule": "approx", "delta": "0.5", "delta_per_question": "1e-6"}
LINE = "source: {engine: csv, location: .}"
TYPES = {
    "age": "smallint",
    "smoker": "boolean",
    "urgent": "boolean",
    "day": "date",
    "wait": "integer",
    "price": "numeric(12, 2)",
    "days": "bigint",
    "beds": "integer",
}
"""Types of the tables in a server; columns without one are texts."""


def change_engine(folder: Path, target: Path, line: str) -> Path:
    """A copy of the clinic's folder whose catalog names another engine, in one line."""
    copytree(folder, target)
    file = target / "clinic.yaml"
    text = file.read_text()
    assert text.count(LINE) == 1
    file.write_text(text.replace(LINE, line))
    return file


def load_into_postgres(folder: Path, location: str, schema: str) -> None:
    """Load the clinic's CSV files into typed tables of a schema."""
    with psycopg.connect(location, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}")
        connection.execute(f"SET search_path = {schema}")
        for file in sorted(folder.glob("*.csv")):
            with file.open(encoding="utf-8", newline="") as source:
                names = next(csv.reader(source))
            columns = ", ".join(f'"{name}" {TYPES.get(name, "text")}' for name in names)
            connection.execute(f'CREATE TABLE "{file.stem}" ({columns})')
            with connection.cursor().copy(
                f'COPY "{file.stem}" FROM STDIN (FORMAT csv, HEADER)'
            ) as copy:
                copy.write(file.read_bytes())


def register_clinic(file: Path, key: bytes | None = None) -> Any:
    """Register a clinic and open a budget for tests; with a key given before, ranks are equal."""
    state = State.beside(file)
    if key is not None:
        state.root.mkdir(parents=True, exist_ok=True)
        state.key_file.write_bytes(key)
    steward.register(file, dev=True)
    steward.open_pot(
        state, load(file), "total", epsilon="9999", ceiling="9999", purpose=PURPOSE, **TERMS
    )
    return connect(file)


def write_parquet(folder: Path, target: Path) -> None:
    """Write the clinic's CSV files as Parquet, with types as in a server."""
    target.mkdir()
    with duckdb.connect() as connection:
        for file in sorted(folder.glob("*.csv")):
            with file.open(encoding="utf-8", newline="") as source:
                names = next(csv.reader(source))
            columns = ", ".join(
                f'CAST("{name}" AS {TYPES.get(name, "text")}) AS "{name}"' for name in names
            )
            connection.execute(
                f"COPY (SELECT {columns} FROM read_csv('{file}', all_varchar = true)) "
                f"TO '{target / file.stem}.parquet' (FORMAT parquet)"
            )
