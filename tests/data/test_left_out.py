"""Counts of rows that registration read and left out: for the steward alone."""

from __future__ import annotations

import json
from itertools import product

import duckdb
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from dither import connect, steward
from dither.cli.main import app
from dither.data.register.text_sql import fold_spelling
from dither.state import State
from tests.datasets import clinic

BEYOND = "beyond 3 per person, left out"
REPEATED = "rows of a repeated unique key, left out"


def count(folder, rows, text=clinic.CATALOG):
    """The counts of a registration, by their words."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "clinic.yaml").write_text(text)
    clinic.write_csv(folder / "visits.csv", rows)
    (repairs,) = steward.register(folder / "clinic.yaml").repairs
    return dict(repairs.counts)


def test_rows_read_and_beyond_the_limit_add_up(tmp_path):
    """Ten rows of a, two of b, one without an owner: 13 read, 7 of a beyond 3, 5 registered."""
    rows = [clinic.row(f"a{i}", "a") for i in range(10)]
    rows += [clinic.row("b1", "b"), clinic.row("b2", "b"), clinic.row("c1", None)]
    counts = count(tmp_path, rows)
    assert counts["rows read"] == 13 and counts["rows without an owner, dropped"] == 1
    assert counts[BEYOND] == 7 and counts[REPEATED] == 0 and counts["rows registered"] == 5


def test_repeated_keys_are_counted_apart(tmp_path):
    """Key a0 four times, then five other keys of the same owner: 3 repeats, 6 keys, 3 beyond."""
    rows = [clinic.row("a0", "a", age=str(30 + i)) for i in range(4)]
    rows += [clinic.row(f"a{i}", "a") for i in range(1, 6)]
    counts = count(tmp_path, rows)
    assert counts[REPEATED] == 3 and counts[BEYOND] == 3 and counts["rows registered"] == 3


def test_a_key_that_two_owners_share_is_no_repeat(tmp_path):
    counts = count(tmp_path, [clinic.row("same", "a"), clinic.row("same", "b")])
    assert counts[REPEATED] == 0 == counts[BEYOND] and counts["rows registered"] == 2


@pytest.mark.parametrize("unique", ["[]", "[[visit], [age]]"])
def test_tables_with_no_key_or_several_have_one_number(tmp_path, unique):
    rows = [clinic.row(f"a{i}", "a", age=str(i)) for i in range(8)]
    text = clinic.CATALOG.replace("[[visit]]", unique)
    if unique == "[]":
        text = text.replace("visit:   {type: id}", "visit: {type: text, width: 9, nulls: keep}")
    counts = count(tmp_path, rows, text)
    (words,) = [words for words in counts if words.endswith(BEYOND)]
    assert counts[words] == 5 and counts["rows registered"] == 3


def test_the_steward_sees_them_and_analysts_do_not(tmp_path):
    rows = [clinic.row(f"a{i}", "a") for i in range(4321)]
    text = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 10000")
    (tmp_path / "clinic.yaml").write_text(text)
    clinic.write_csv(tmp_path / "visits.csv", rows)
    done = CliRunner().invoke(app, ["register", str(tmp_path / "clinic.yaml")])
    assert "4,321" in done.output and "4,318" in done.output and BEYOND in done.output
    state = State(tmp_path / "clinic.dither")
    log = [json.loads(line) for line in state.log.read_text().splitlines()]
    assert {entry["what"]: entry["count"] for entry in log}[BEYOND] == 4318
    clinic.open_total(state)
    con = connect(tmp_path / "clinic.yaml")
    answer = con.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward", epsilon=0.1)
    shown = (con, con.tables, con.describe("visits"), con.budget(), con.history(), answer.explain())
    texts = " ".join(map(str, shown)) + json.dumps(answer.info) + str(answer.footnotes)
    assert not any(number in texts for number in ("4321", "4,321", "4318", "4,318"))


def test_spellings_fold_as_regular_expressions_say():
    """Short texts of digits, zeros, points, letters and spaces, and each kind of space that is."""
    parts = ["0", "7", ".", "a", "-", " ", "\n"]
    texts = ["".join(text) for length in range(5) for text in product(parts, repeat=length)]
    texts += [f"{chr(code)}07.0" for code in range(1, 0x3100)]
    with duckdb.connect() as connection:
        connection.register("texts", pa.table({"v": texts}))
        spaceless = r"regexp_replace(v, '[\s\p{Z}]', '', 'g')"
        folded = rf"regexp_replace({spaceless}, '^0*([0-9]+)([.]0*)?$', '\1')"
        differ = f"SELECT v FROM texts WHERE {folded} <> {fold_spelling('v')}"
        assert connection.execute(differ).fetchall() == []
