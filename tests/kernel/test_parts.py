"""Parallel composition through the kernel: only over a function of the unit (rule
parts-follow-the-unit)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from dither import steward
from dither.errors import RefusedError
from dither.plan.algebra import (
    Column,
    Compare,
    Distinct,
    Filter,
    Group,
    Join,
    Named,
    Or,
    PerUnit,
    Plan,
    Project,
    Scan,
    UnionAll,
)
from dither.privacy.kernel.parts import _lies_within
from tests.datasets.regional_clinic import COUNT, Clinic

NORTH = COUNT + " WHERE region = 'north'"


IS_NORTH = Compare("region", "=", "north")
NORTHERN = Filter(Filter(Scan("patients"), IS_NORTH), Compare("age", ">=", Fraction(18)))


def partition(clinic: Clinic, column: str = "patients.region") -> None:
    inside: dict[str, Any] = {"epsilon": 2, "ceiling": 2}
    clinic.open("regions", inside="total", kind="partition", column=column, **inside)
    for part in ("north", "south"):
        clinic.open(part, inside="regions", kind="part", value=part, **inside)


def test_parts_are_paid_in_parallel(clinic: Clinic) -> None:
    clinic.open()
    partition(clinic)
    clinic.connect("north").sql(NORTH, epsilon=1)
    clinic.connect("south").sql(COUNT + " WHERE age >= 18 AND region = 'south'", epsilon=1)
    assert (
        clinic.spent() == {"total": 1, "regions": 1, "north": 1, "south": 1} and clinic.verify().ok
    )


@pytest.mark.parametrize(
    "sql",
    [
        COUNT,
        COUNT + " WHERE region = 'south'",
        COUNT + " WHERE region <> 'south'",
        COUNT + " WHERE region = 'north' OR age >= 18",
        COUNT + " WHERE NOT region = 'north'",
        "SELECT region, COUNT(*) AS n FROM patients GROUP BY region",
    ],
)
def test_what_could_read_beyond_its_part_is_refused_for_free(clinic: Clinic, sql: str) -> None:
    clinic.open()
    partition(clinic)
    for ask in (clinic.connect("north").sql, clinic.connect("north").preview):
        with pytest.raises(RefusedError, match="WHERE region = 'north' only"):
            ask(sql, epsilon=1)  # type: ignore[operator]
    assert clinic.spent()["total"] == 0


def test_averages_and_medians_of_a_part_are_paid_by_it(clinic: Clinic) -> None:
    clinic.open()
    partition(clinic)
    ask = clinic.connect("north").sql
    ask("SELECT AVG(age) AS a, COUNT(*) AS n FROM patients WHERE region = 'north'", epsilon=1)
    assert clinic.spent()["north"] > 0 and clinic.spent()["south"] == 0


@pytest.mark.parametrize(
    ("plan", "within"),
    [
        (NORTHERN, True),
        (Project(NORTHERN, (Named("region", Column("age")),)), True),
        (
            Filter(Project(Scan("patients"), (Named("region", Column("region")),)), IS_NORTH),
            False,
        ),  # renamed or not
        (Join(Scan("visits"), NORTHERN, (), "inner"), True),
        (Join(Scan("visits"), NORTHERN, (), "left"), False),  # keeps visits of others
        (Join(NORTHERN, Scan("visits"), (), "left"), True),
        (UnionAll(NORTHERN, NORTHERN), True),
        (UnionAll(NORTHERN, Scan("patients")), False),
        (Distinct(PerUnit(NORTHERN, (), ()), True), True),
        (Group(Scan("patients"), ("region",), ()), False),
        (Filter(Group(Scan("patients"), ("region",), ()), IS_NORTH), False),
        (Filter(Scan("visits"), IS_NORTH), False),
        (Filter(Scan("patients"), Or((IS_NORTH, IS_NORTH))), False),
    ],
)
def test_which_plans_read_their_part_alone(plan: Plan, within: bool) -> None:
    assert _lies_within(plan, "patients", "region", "north") is within


def test_an_analyst_inside_a_part_is_bound_too(clinic: Clinic) -> None:
    clinic.open()
    partition(clinic)
    clinic.open("ann", inside="north", kind="analyst", epsilon=1, ceiling=1)
    with pytest.raises(RefusedError, match="WHERE region = 'north' only"):
        clinic.connect("ann").sql(COUNT, epsilon=1)
    clinic.connect("ann").sql(NORTH, epsilon=1)
    assert clinic.spent() == {"total": 1, "regions": 1, "north": 1, "south": 0, "ann": 1}


def test_a_column_on_which_a_person_may_have_several_values_makes_no_partition(
    visits: Clinic,
) -> None:
    visits.open()
    with pytest.raises(RefusedError, match="several rows of one person"):
        visits.open(
            "wards", inside="total", kind="partition", column="visits.ward", epsilon=2, ceiling=2
        )
    for column in ("visits.nowhere", "nowhere.ward", "ward", "VISITS.WARD"):
        with pytest.raises(RefusedError):
            visits.open(
                "wards", inside="total", kind="partition", column=column, epsilon=2, ceiling=2
            )
    assert [pot.name for pot in visits.ledger().pots()] == ["total"]


def test_a_new_version_closes_the_partition(clinic: Clinic) -> None:
    clinic.open()
    partition(clinic)
    clinic.connect("north").sql(NORTH, epsilon=1)
    steward.register(clinic.file)
    with pytest.raises(RefusedError, match="may have moved people"):
        clinic.connect("south").sql(COUNT + " WHERE region = 'south'", epsilon=1)
    clinic.connect().sql(NORTH, epsilon=1)
    assert clinic.spent()["total"] == Fraction(2)
