"""Kinds of quantity: bounds that are known without looking."""

from __future__ import annotations

import pytest

from dither.catalog import Category, Source, Undeclared, parse
from dither.catalog.file.kinds import KINDS, TYPED_KINDS, read_kind, read_power_of_ten
from dither.catalog.file.quick import QuickDecisions, write_quick_catalog
from dither.cli.quick_decisions import write_first_question
from dither.errors import ParameterError


def decide(*kinds: tuple[str, str], person: str | None = None) -> QuickDecisions:
    chosen = tuple((column, read_kind(kind)) for column, kind in kinds)
    source = Source("csv", ".", null_texts=("?",), trim=True)
    is_row = person is None
    return QuickDecisions("my file", "my file.csv", source, person, is_row, 1, 1000, chosen)


@pytest.mark.parametrize("kind", [*KINDS, *TYPED_KINDS])
def test_every_kind_of_the_menu_makes_a_sound_column(kind):
    catalog = parse(write_quick_catalog(decide(("a column", kind))))
    assert catalog.tables[0].source_columns == (("a_column", "a column"),)
    assert catalog.source.trim and catalog.unit.one_row_is == "person"


@pytest.mark.parametrize(
    ("kind", "lower", "upper"),
    [("age", 0, 120), ("hours_a_week", 0, 168), ("count 1000", 0, 1000), ("-5..7", -5, 7)],
)
def test_bounds_follow_from_the_kind(kind, lower, upper):
    column = parse(write_quick_catalog(decide(("x", kind)))).tables[0].column("x")
    assert (column.lower_grid, column.upper_grid) == (lower, upper)


def test_labels_are_undeclared_or_pasted():
    table = parse(write_quick_catalog(decide(("a", "labels"), ("b", "Male | Female")))).tables[0]
    assert isinstance(table.column("a").values, Undeclared)
    pasted = table.column("b")
    assert isinstance(pasted, Category)
    assert pasted.values == ("Male", "Female") and pasted.other == "keep"


@pytest.mark.parametrize(
    "kind", ["years", "money", "money 12345", "5..", "7..5", "a | a", "a | other", ""]
)
def test_what_is_no_kind_is_refused(kind):
    with pytest.raises(ParameterError):
        read_kind(kind)


@pytest.mark.parametrize("text", ["32561", "0", "-10", "2e5", "1e16", "ten", ""])
def test_a_limit_that_could_follow_the_data_is_refused(text):
    with pytest.raises(ParameterError, match="power of ten"):
        read_power_of_ten(text, "max_rows")


def test_a_person_is_an_id_and_owns_the_rows():
    catalog = parse(write_quick_catalog(decide(("x", "age"), person="user id")))
    assert catalog.owner_column(catalog.tables[0]) == "user_id"
    assert catalog.unit.label == "person"


@pytest.mark.parametrize(
    ("kinds", "sql"),
    [
        ((("h", "age"), ("e", "labels")), "SELECT e, AVG(h) AS average_h FROM my_file GROUP BY e"),
        ((("e", "labels"),), "SELECT e, COUNT(*) AS n FROM my_file GROUP BY e"),
        ((("h", "age"),), "SELECT AVG(h) AS average_h FROM my_file"),
        ((("d", "date"),), "SELECT COUNT(*) AS n FROM my_file"),
    ],
)
def test_a_first_question_follows_from_the_kinds(kinds, sql):
    assert write_first_question(decide(*kinds)) == sql
