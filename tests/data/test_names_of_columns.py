"""A catalog may call its columns what it likes: no name is also one that registration uses on the
way."""

from __future__ import annotations

import pytest

from dither.catalog import parse
from dither.data.register.owners import RegistrationError
from dither.plan.algebra import Scan
from tests.case_lists import mark_between
from tests.datasets import hospital
from tests.datasets.one_table import write_catalog
from tests.datasets.owners import OWNERS, hash_owner

NUMBER = "{type: integer, bounds: [0, 100], nulls: keep, provenance: x}"
SHORT, LONG = "{type: text, width: 2, nulls: keep}", "{type: text, width: 9, nulls: keep}"


def registered(kinds: dict[str, str], rows: list[list[str]]):
    text = write_catalog(kinds)
    return hospital.registered(
        {"one": [dict(zip(["who", *kinds], row, strict=True)) for row in rows]}, parse(text)
    )


@pytest.mark.parametrize(
    "names",
    mark_between(
        [
            ["x", "p_x"],
            ["p_x", "X"],
            ["rowid", "raw"],
            ["l", "r", "s", "code", "place", "parent", "kept", "n"],
            ["filename", "all", "values", "columns", "rank"],
        ],
        step=2,
    ),
)
def test_numbers_are_registered_under_any_names(names):
    rows = [
        [who, *(str((7 * row + 3 * place + 1) % 50) for place in range(len(names)))]
        for row, who in enumerate("aba")
    ]
    with registered(dict.fromkeys(names, NUMBER), rows) as both:
        assert both.rows(Scan("one")) == both.expected(Scan("one"))


def test_a_text_is_not_taken_from_the_column_called_p_and_its_name():
    """Registered was the other column's text, not even cut at the width."""
    with registered({"x": SHORT, "p_x": LONG}, [["a", "right", "wrong one"]]) as both:
        assert both.measurer.engine.connection.sql("SELECT x, p_x FROM one").fetchall() == [
            ("ri", "wrong one")
        ]


PATH = """\
      KEY: {type: id}
  two:
    kind: private
    from: two.csv
    owner: {references: one, by: KEY}
    unique: []
    rows_per_unit: 3
    max_rows: 100
    columns:
      KEY: {type: id}
"""


def with_path(key: str, parents: list[tuple[str, str]], children: str):
    rows = {
        "one": [{"who": who, key: value} for who, value in parents],
        "two": [{key: value} for value in children],
    }
    text = write_catalog({}, unique=f"[[{key}]]") + PATH.replace("KEY", key)
    return hospital.registered(rows, parse(text))


@pytest.mark.parametrize("key", mark_between(["k", "owner", "other", "parent", "raw"], step=2))
def test_owners_are_found_by_a_key_of_any_name(key):
    with with_path(key, [("p1", "a"), ("p1", "b"), ("p2", "c")], "aabc") as both:
        connection = both.measurer.engine.connection
        found = connection.sql(f"SELECT {OWNERS}, count(*) FROM two GROUP BY 1").fetchall()
    assert {hash_owner("p1", hospital.KEY): 3, hash_owner("p2", hospital.KEY): 1} == dict(found)


@pytest.mark.parametrize("key", ["k", "owner", "other"])
@pytest.mark.parametrize("second", ["a", "y"])
def test_a_key_of_two_owners_stops_registration_whatever_its_name(key, second):
    """By the name `owner` or `other` the key itself was compared: a key that is also a person's
    name hid the second."""
    with (
        pytest.raises(RegistrationError, match="two owners"),
        with_path(key, [("m", "m"), (second, "m")], "m"),
    ):
        pass
