"""The example catalog, word by word."""

from datetime import date
from fractions import Fraction
from pathlib import Path

import pytest

from dither.catalog import (
    Boolean,
    Category,
    Date,
    Decimal,
    FromPublic,
    Id,
    Integer,
    Nulls,
    OwnerColumn,
    OwnerReference,
    Person,
    Source,
    Text,
    Unit,
    load,
)

FILE = Path(__file__).parent / "clinic.yaml"
CLINIC = load(FILE)
PATIENTS, VISITS, COUNTIES = CLINIC.tables


def test_dataset():
    assert (CLINIC.dataset, CLINIC.lineage, CLINIC.population) == (
        "clinic",
        "clinic",
        "county-residents",
    )
    assert CLINIC.neighbours == "add_remove"
    assert CLINIC.unit == Unit("person")
    assert CLINIC.source == Source("csv", "data")
    assert CLINIC.people == (
        Person("patient_id", True),
        Person("doctor_id", False, "staff listed on the public web page"),
    )


def test_tables():
    assert [table.name for table in CLINIC.tables] == ["patients", "visits", "counties"]
    assert (PATIENTS.kind, PATIENTS.source_name, PATIENTS.owner) == (
        "private",
        "patients.csv",
        OwnerColumn("patient_id"),
    )
    assert (PATIENTS.unique, PATIENTS.rows_per_unit, PATIENTS.max_rows) == (
        (("patient_id",),),
        1,
        200_000,
    )
    assert VISITS.owner == OwnerReference("patients", (("patient_id", "patient_id"),))
    assert (VISITS.unique, VISITS.rows_per_unit, VISITS.max_rows) == (
        (("visit_id",),),
        20,
        2_000_000,
    )
    assert (COUNTIES.kind, COUNTIES.owner, COUNTIES.rows_per_unit, COUNTIES.max_rows) == (
        "public",
        None,
        None,
        None,
    )


def test_columns():
    first = (date(2024, 1, 1) - date(1970, 1, 1)).days
    last = (date(2026, 12, 31) - date(1970, 1, 1)).days
    assert PATIENTS.columns == (
        Id("patient_id"),
        Category("sex", Nulls("keep"), ("f", "m", "x"), "drop"),
        Integer("age", Nulls("drop"), 0, 110, "public life tables"),
    )
    assert VISITS.columns == (
        Id("visit_id"),
        Id("patient_id"),
        Id("doctor_id"),
        Date("date", Nulls("drop"), first, last, "period of the extract"),
        Category("county", Nulls("keep"), FromPublic("counties", "county"), "keep"),
        Decimal(
            "cost", Nulls("keep"), Fraction(0), Fraction(5000), Fraction(1, 100), "tariff 2026"
        ),
        Boolean("urgent", Nulls("value", 0)),
        Text("note", Nulls("keep"), 40),
    )
    assert COUNTIES.columns == (
        Text("county", Nulls("drop"), 20),
        Integer("beds", Nulls("keep"), 0, 9000, "ministry list"),
    )


def test_lines_are_remembered_and_play_no_part_in_equality():
    lines = FILE.read_text().splitlines()
    assert lines[VISITS.line - 1].strip() == "visits:"
    assert lines[VISITS.column("cost").line - 1].strip().startswith("cost:")
    assert lines[VISITS.owner.line - 1].strip().startswith("owner: {references")
    assert lines[CLINIC.people[1].line - 1].strip().startswith("doctor_id:")
    assert CLINIC.file == str(FILE)


def test_the_owner_is_found_through_the_path_of_references():
    assert CLINIC.owner_path(VISITS) == (VISITS, PATIENTS)
    assert CLINIC.owner_column(VISITS) == "patient_id"
    assert CLINIC.owner_column(COUNTIES) is None


def test_names_are_found_in_any_case_since_sql_does_not_tell_case():
    assert CLINIC.table("Visits").column("COST").name == "cost"
    with pytest.raises(KeyError):
        CLINIC.table("visit")


class TestGrid:
    """Registered values are integers; the catalog says which."""

    def test_decimals_count_steps_of_their_resolution(self):
        cost = VISITS.column("cost")
        assert (cost.lower_grid, cost.upper_grid, cost.step) == (0, 500_000, Fraction(1, 100))
        assert (cost.multiplier, cost.divisor) == (100, 1)

    def test_a_resolution_may_be_an_integer(self):
        income = Decimal(
            "income", Nulls("drop"), Fraction(-2000), Fraction(90_000), Fraction(500), "law"
        )
        assert (income.lower_grid, income.upper_grid) == (-4, 180)
        assert (income.multiplier, income.divisor) == (1, 500)

    def test_booleans_are_zero_and_one(self):
        urgent = VISITS.column("urgent")
        assert (urgent.lower_grid, urgent.upper_grid) == (0, 1)

    def test_integers_and_dates_are_their_own_grid(self):
        assert (PATIENTS.column("age").lower_grid, PATIENTS.column("age").upper_grid) == (0, 110)
        assert (
            VISITS.column("date").lower_grid == 19_723
        )  # 54 years and 13 leap days after 1970-01-01
