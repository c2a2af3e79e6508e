"""Sources as the catalog says they are written: names, delimiters, quotes, nulls, blanks."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import duckdb
import pytest

from dither.catalog import Catalog, Source, parse
from dither.data.measure import Measurer
from dither.data.register.csv_source import read_header
from dither.data.register.generated import write_generated
from dither.data.register.registration import RegistrationError, write_copy
from dither.plan.algebra import Cells, Count, Scan
from dither.plan.facts import NO_FACTS
from tests.case_lists import mark_between
from tests.datasets import adult

KEY = bytes(range(32))
NULL = 169
"""A kept null is the code above the upper bound."""
CATALOG = """\
dither: 1
dataset: adult
lineage: adult
population: adults
neighbours: add_remove
unit: {kind: row, one_row_is: person}
people: {}
source: SOURCE
tables:
  adult:
    kind: private
    from: FILE
    unique: []
    rows_per_unit: 1
    max_rows: 1000
    columns:
      hours:
        {type: integer, bounds: [0, 168], nulls: keep, provenance: a week, from: hours-per-week}
      work:
        {type: category, values: [Private, 'a;b', "it's"], other: keep, nulls: keep,
         from: workclass}
"""


def make_catalog(source: str, file: str = "adult.csv") -> Catalog:
    return parse(CATALOG.replace("SOURCE", source).replace("FILE", file))


def read_registered(folder: Path, catalog: Catalog) -> list[tuple[object, object]]:
    """Hours and the label of work of every registered row, sorted."""
    target = folder / "data.duckdb"
    target.unlink(missing_ok=True)
    write_copy(catalog, folder, KEY, target, folder / "spill", lambda _: None)
    labels = (*catalog.table("adult").column("work").values, "other", None)
    with duckdb.connect(str(target), read_only=True) as connection:
        rows = connection.execute("SELECT hours, work FROM adult").fetchall()
    return sorted(
        ((None if hours == NULL else hours, labels[code]) for hours, code in rows), key=repr
    )


def test_a_header_with_blanks_and_hyphens_and_values_with_blanks(tmp_path):
    adult.write_adult(tmp_path / "adult.csv", rows=50)
    catalog = make_catalog("{engine: csv, location: ., null_texts: ['?'], trim: true}")
    rows = read_registered(tmp_path, catalog)
    lines = (tmp_path / "adult.csv").read_text().splitlines()[1:]
    fields = [[field.strip() for field in line.split(",")] for line in lines]
    expected = {"Private": "Private", "State-gov": "other", "?": None}
    truth = [(int(field[12]), expected[field[1]]) for field in fields]
    assert rows == sorted(truth, key=repr)


def test_without_trim_blanks_are_part_of_a_name(tmp_path):
    adult.write_adult(tmp_path / "adult.csv", rows=1)
    with pytest.raises(RegistrationError, match="missing: hours-per-week"):
        read_registered(tmp_path, make_catalog("{engine: csv, location: .}"))


@pytest.mark.parametrize(
    ("source", "text", "rows"),
    mark_between(
        [
            ("delimiter: ';'", 'workclass;hours-per-week\n"a;b";40\n', [(40, "a;b")]),
            ("delimiter: tab", "workclass\thours-per-week\nPrivate\t40\n", [(40, "Private")]),
            ('quote: "\'"', "workclass,hours-per-week\n'it''s',40\n", [(40, "it's")]),
            (
                "null_texts: [NA, '-']",
                "workclass,hours-per-week\nPrivate,NA\n",
                [(None, "Private")],
            ),
            ("null_texts: [NA, '-']", "workclass,hours-per-week\nPrivate,-\n", [(None, "Private")]),
            ("trim: true", "workclass , hours-per-week\nPrivate\t, 40 \n", [(40, "Private")]),
        ],
        step=3,
    ),
)
def test_each_option_means_what_it_says(tmp_path, source, text, rows):
    (tmp_path / "adult.csv").write_text(text)
    catalog = make_catalog(f"{{engine: csv, location: ., {source}}}")
    assert read_registered(tmp_path, catalog) == rows


def test_names_of_columns_that_are_not_declared_may_be_any_texts(tmp_path):
    header = ",Age,age,dither_x,workclass,hours-per-week"
    (tmp_path / "adult.csv").write_text(f"{header}\n1,2,3,4,Private,40\n")
    catalog = make_catalog("{engine: csv, location: .}")
    assert read_registered(tmp_path, catalog) == [(40, "Private")]


def test_parquet_has_names_of_its_own_too(tmp_path):
    duckdb.sql(
        "COPY (SELECT 40 AS \"hours-per-week\", 'Private' AS workclass, 1 AS rest) "
        f"TO '{tmp_path}/adult.parquet' (FORMAT parquet)"
    )
    catalog = make_catalog("{engine: parquet, location: .}", "adult.parquet")
    assert read_registered(tmp_path, catalog) == [(40, "Private")]


def test_duckdb_has_names_of_its_own_too(tmp_path):
    with duckdb.connect(str(tmp_path / "base.duckdb")) as connection:
        connection.execute("CREATE TABLE v AS SELECT 40 AS \"hours-per-week\", 'x' AS workclass")
    target = tmp_path / "data.duckdb"
    catalog = make_catalog("{engine: duckdb, location: base.duckdb}", "v")
    spill = tmp_path / "spill"
    write_copy(catalog, tmp_path / "base.duckdb", KEY, target, spill, lambda _: None)
    with duckdb.connect(str(target), read_only=True) as connection:
        assert connection.execute("SELECT hours FROM adult").fetchall() == [(40,)]


def test_a_quote_that_is_never_closed_still_stops_registration(tmp_path):
    (tmp_path / "adult.csv").write_text("workclass,hours-per-week\n'Private,40\nPrivate,41\n")
    catalog = make_catalog('{engine: csv, location: ., quote: "\'"}')
    with pytest.raises(RegistrationError, match="span several lines"):
        read_registered(tmp_path, catalog)


def test_not_a_byte_after_the_header_line_is_read(tmp_path):
    """A pipe holds the header and one more byte; what was not read is still in it."""
    pipe = tmp_path / "adult.csv"
    os.mkfifo(pipe)
    rest: list[bytes] = []

    def serve() -> None:
        descriptor = os.open(pipe, os.O_RDWR)
        os.write(descriptor, adult.HEADER.encode() + b"\nsecret")
        ready.set()
        done.wait(60)
        rest.append(os.read(descriptor, 100))
        os.close(descriptor)

    ready = threading.Event()
    done = threading.Event()
    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(60)
    names = read_header(pipe, Source("csv", ".", trim=True))
    done.set()
    thread.join(60)
    assert len(names) == 15 and names[12] == "hours-per-week"
    assert rest == [b"secret"]


@pytest.mark.parametrize(
    "source",
    [
        "{engine: csv, location: ., null_texts: ['?'], trim: true}",
        "{engine: csv, location: ., delimiter: ';', quote: \"'\", null_texts: [Private]}",
        "{engine: parquet, location: .}",
    ],
)
def test_a_rehearsal_invents_rows_whatever_names_and_options_the_source_has(tmp_path, source):
    """Before, a column with a name of its own at the source stopped every rehearsal. Each of the
    thousand invented people has one row; a text that means null at the source is a label here."""
    catalog = make_catalog(source)
    write_generated(catalog, NO_FACTS, tmp_path / "invented.duckdb")
    measurer = Measurer(tmp_path / "invented.duckdb", catalog, NO_FACTS)
    by_work = measurer.measure(Cells(Scan("adult"), ("work",), (Count(),)))
    measurer.close()
    assert int(by_work.sum()) == 1000 and (by_work > 0).all()
