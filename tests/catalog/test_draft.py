"""Drafts: the names of a source, the types that its schema says, and a menu where it says none."""

from __future__ import annotations

import re

import duckdb
import pytest

from dither import DitherError, steward
from dither.catalog.file.draft import draft
from dither.catalog.file.load import list_problems
from dither.catalog.file.names import make_column_names, write_scalar
from dither.catalog.file.tree import read_tree
from tests.datasets import adult


def test_a_csv_file_is_drafted_by_its_path(tmp_path):
    adult.write_adult(tmp_path / "adult.csv", rows=3)
    text = steward.draft_catalog(tmp_path / "adult.csv")
    assert "trim: true" in text and "from: adult.csv" in text
    assert "      hours_per_week: {type: ???, from: hours-per-week}" in text
    menu = [
        line for line in text.splitlines() if line.startswith("      # hours_per_week: {type: ")
    ]
    types = [re.findall(r"type: (\w+)", line)[0] for line in menu]
    assert types == ["id", "integer", "decimal", "boolean", "category", "date", "timestamp", "text"]
    integer = "# hours_per_week: {type: integer, bounds: [???, ???], nulls: ???, provenance: ???, "
    assert integer + "from: hours-per-week}" in text


def test_a_folder_is_recognised_by_what_it_holds(tmp_path):
    adult.write_adult(tmp_path / "adult.csv", rows=1)
    assert "engine: csv" in steward.draft_catalog(tmp_path)


def test_types_come_from_the_schema_of_parquet_and_duckdb(tmp_path):
    columns = "1::INT AS n, 1.5::DOUBLE AS x, true AS b, DATE '2024-01-01' AS d, 'a' AS t"
    with duckdb.connect(str(tmp_path / "base.duckdb")) as connection:
        connection.execute(f"CREATE TABLE v AS SELECT {columns}")
        connection.execute(f"COPY v TO '{tmp_path}/v.parquet'")
    for path in (tmp_path / "v.parquet", tmp_path / "base.duckdb"):
        text = steward.draft_catalog(path)
        for column, kind in (("n", "integer"), ("x", "decimal"), ("b", "boolean"), ("d", "date")):
            assert f"      {column}: {{type: {kind}, " in text
        assert "      t: {type: ???}" in text  # a text may be an id, a category or a text


def test_labels_of_an_enum_are_values_and_stay_out_of_a_draft(tmp_path):
    with duckdb.connect(str(tmp_path / "base.duckdb")) as connection:
        connection.execute("CREATE TYPE mood AS ENUM ('sad', 'secret')")
        connection.execute("CREATE TABLE v (m mood)")
    assert "secret" not in steward.draft_catalog(tmp_path / "base.duckdb")


def test_what_is_not_recognised_is_refused_with_the_remedy(tmp_path):
    (tmp_path / "adult.txt").write_text("a\n")
    with pytest.raises(DitherError, match="say --engine"):
        steward.draft_catalog(tmp_path / "adult.txt")
    with pytest.raises(DitherError, match="no CSV or Parquet files"):
        steward.draft_catalog(tmp_path)
    with pytest.raises(DitherError, match="there is no"):
        steward.draft_catalog(tmp_path / "none.csv")


def test_every_undecided_key_of_a_draft_is_a_problem(tmp_path):
    adult.write_adult(tmp_path / "adult.csv", rows=1)
    file = tmp_path / "adult.yaml"
    file.write_text(steward.draft_catalog(tmp_path / "adult.csv"))
    problems = list_problems(file)
    assert len(problems) >= 15 + 4  # each column, and what the dataset needs


@pytest.mark.parametrize(
    "name", ["a b", " x", "?", "#1", "a: b", "é", "1st", "-", "'", '"', "a\tb"]
)
def test_any_name_of_a_source_is_written_so_that_yaml_reads_it_back(name):
    (entry,) = read_tree(f"k: {write_scalar(name)}", "x.yaml").entries
    assert entry.node.text == name
    text = draft("d", "csv", ".", [("t", "t.csv", [(name, None), ("y", None)])])
    read_tree(text.replace("???", "decided"), "x.yaml")


def test_names_are_distinct_whatever_the_header():
    names = make_column_names(["a-b", "a b", "A_B", "", "dither_x", "1", "é"])
    assert len({name.lower() for name in names}) == 7
