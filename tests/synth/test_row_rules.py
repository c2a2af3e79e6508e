"""Rules between columns: read from the catalog, enforced row by row at registration, met by every
synthetic row, listed as unprotected."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dither
from dither.catalog import from_json, parse, to_json
from dither.catalog.row_rules import RowRule
from dither.errors import CatalogError
from dither.synth import Constraint
from dither.synth.constraints import find_zeros
from tests.synth.survey import CATALOG, FIRST_DAY, invent_people, invent_trips

RULES = """\
    rules:
      - {rule: ended >= begun, provenance: the form refuses it}
      - {never: {work: none, town: true}, provenance: shops are in towns}
      - {column: work, follows: age, values: {7: shop}, provenance: the oldest keep shops}
"""
COLUMNS = ["age", "work", "town", "begun", "ended"]


def write_catalog(rules: str = RULES) -> str:
    text = CATALOG.format(neighbours="add_remove")
    return text.replace("    max_rows: 100000\n", f"    max_rows: 100000\n{rules}", 1)


def break_rules(people: pa.Table) -> pa.Array:
    """Which rows break a rule, by plain Python."""
    rows = people.to_pylist()
    broken = [
        row["ended"] < row["begun"]
        or (row["work"] == "none" and row["town"])
        or (row["age"] == 7 and row["work"] != "shop")
        for row in rows
    ]
    return pa.array(broken)


@pytest.fixture(scope="module")
def people() -> pa.Table:
    table = invent_people(3000)
    days = table["ended"].to_pylist()
    ended = [day if number % 7 else FIRST_DAY for number, day in enumerate(days)]
    return table.set_column(table.column_names.index("ended"), "ended", pa.array(ended))


@pytest.fixture(scope="module")
def con(people: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("rules") / "survey.yaml"
    file.write_text(write_catalog())
    frames = {"people": people, "trips": invent_trips(people)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dither.PrivacyWarning)
        return dither.connect(frames, catalog=file, epsilon=10_000)


def test_registration_drops_rows_that_break_a_rule(con: Any, people: pa.Table) -> None:
    """The oracle is plain Python; the noise at epsilon 1000 is 0 but for a chance below 1e-200."""
    kept = people.num_rows - sum(break_rules(people).to_pylist())
    assert 0 < kept < people.num_rows
    result = con.sql("SELECT COUNT(*) AS n FROM people", epsilon=1000)
    assert result.to_dict()["n"] == [kept]


def test_every_synthetic_row_meets_the_rules(con: Any) -> None:
    made = con.synthesize("people", epsilon=100, columns=COLUMNS, method="aim")
    table = made.sample()
    assert not any(break_rules(table).to_pylist())
    facts = json.loads(table.schema.metadata[b"dither"])
    assert facts["missing"] == 0 and facts["rejected"] < table.num_rows / 10
    joint = made.find_marginal("work", "town")
    assert joint[0, 1] < 1e-6 * joint.sum()  # left out of the model
    unprotected = made.describe()["unprotected"]
    assert "ended >= begun: the form refuses it (catalog)" in unprotected
    assert "drawn again" in made.report()


def test_rules_stay_in_the_stored_catalog_and_old_ones_keep_their_bytes() -> None:
    catalog = parse(write_catalog())
    assert from_json(to_json(catalog)) == catalog
    assert len(catalog.table("people").rules) == 3
    plain = to_json(parse(CATALOG.format(neighbours="add_remove")))
    assert all("rules" not in table for table in plain["tables"])


BAD = {
    "other types": "{rule: age >= begun, provenance: x}",
    "no column": "{rule: age >= wage, provenance: x}",
    "no label": "{never: {work: baker, town: true}, provenance: x}",
    "undeclared labels": "{never: {hobby: chess, town: true}, provenance: x}",
    "one value": "{never: {town: true}, provenance: x}",
    "no provenance": "{rule: ended >= begun}",
    "no form": "{rule: ended after begun, provenance: x}",
    "two forms": "{rule: ended >= begun, never: {town: true, work: none}, provenance: x}",
    "a digit that is no number": '{column: work, follows: age, values: {"²": shop}, provenance: x}',
    "outside the bounds": "{column: work, follows: age, values: {9: shop}, provenance: x}",
}


@pytest.mark.parametrize("rule", BAD.values(), ids=BAD)
def test_rules_that_do_not_fit_are_refused(rule: str) -> None:
    with pytest.raises(CatalogError):
        parse(write_catalog(f"    rules: [{rule}]\n"))


def test_a_null_breaks_nothing() -> None:
    table = pa.table({"a": pa.array([None, 1, 2], pa.int64()), "b": pa.array([1, 2, None])})
    for text in ("a >= b", 'never {"a": "1", "b": "2"}', 'a follows b {"2": "5", "1": "1"}'):
        rejected = Constraint(text, provenance="x").find_rejected(table)
        assert rejected.tolist() == [False, True, False]
    assert not RowRule("a >= a", "x").is_sound
    assert not RowRule("never [1]", "x").is_sound


def test_cells_are_left_out_only_where_all_their_values_break_a_rule(con: Any) -> None:
    """Bins of dates: the oracle compares the first and last day of each pair of bins."""
    made = con.synthesize("people", epsilon=10, columns=["begun", "ended"], bins={"begun": 12})
    zeros = find_zeros(made.constraints, made.columns)[0, 1]
    begun, ended = made.columns
    for first, second in np.ndindex(zeros.shape):
        earliest = begun.first + first * begun.width
        latest = min(ended.high, ended.first + (second + 1) * ended.width - 1)
        assert zeros[first, second] == (latest < earliest)
