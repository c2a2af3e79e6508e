"""The guarantee in plain words: who is protected, how far, and who and what is not (rule
who-is-protected)."""

from pathlib import Path

import pytest

from dither.catalog import UNPROTECTED, guarantee, horizon, load, parse
from tests.datasets.broken_clinic import CLINIC, change

TEXT = guarantee(load(Path(__file__).parent / "clinic.yaml"))
FLAT = " ".join(TEXT.split())


def test_the_whole_page():
    assert (Path(__file__).parent / "guarantee.txt").read_text().rstrip("\n") == TEXT


def test_who_is_protected():
    assert (
        "each person named by patient_id, with all their rows in patients and visits together"
        in FLAT
    )
    assert "whether a person is in the data at all" in FLAT


def test_who_is_not_and_why():
    assert "people named by doctor_id, because: staff listed on the public web page." in FLAT


def test_limits_per_person():
    assert "visits: at most 20 rows, found through visits -> patients" in FLAT


def test_what_is_public():
    assert "table counties, every row of it." in FLAT
    assert "the bounds of visits.cost, from: tariff 2026." in FLAT


def test_what_no_noise_covers_is_a_closed_list():
    assert "; ".join(UNPROTECTED) in FLAT
    assert len(UNPROTECTED) == 7


def test_replace_says_that_presence_is_not_hidden():
    told = " ".join(guarantee(parse(change("add_remove", "replace"))).split())
    assert "but not whether the person is in the data (neighbours: replace)" in told


def test_windows_say_that_losses_add_up():
    patients = (
        "      visited: {type: date, bounds: [2024-01-01, 2026-12-31], nulls: "
        "drop, provenance: extract}\n"
    )
    text = change(
        "kind: person}", "kind: person_window, column: visited, every: month, zone: +01:00}"
    )
    text = text.replace("      sex:", f"{patients}      sex:").replace(
        "      date:", "      visited:"
    )
    told = " ".join(guarantee(parse(text)).split())
    assert "of one month (visited, midnight at +01:00)" in told
    assert (
        "Someone with rows in W months is hidden at W times its epsilon, W^2 times its rho, and "
        "delta *" in told
    )
    assert (
        "W is at most 36 here" in told
        and "one at epsilon 3.6, delta 0, for a person who was always there" in told
    )
    assert "rows whose parent lies in another month are left out" in told


@pytest.mark.parametrize(
    ("every", "windows"), [("day", 1096), ("week", 157), ("month", 36), ("year", 3)]
)
def test_the_horizon_counts_the_windows_within_the_bounds(every, windows):
    """2024-01-01 is a Monday and 2026-12-31 a Thursday: 156 whole weeks, and 4 days; 2024 is a leap
    year."""
    assert horizon(parse(CLINIC)) is None
    date = (
        "      date: {type: date, bounds: [2024-01-01, 2026-12-31], nulls: drop, "
        "provenance: extract}\n"
    )
    text = change(
        "kind: person}", f"kind: person_window, column: date, every: {every}, zone: UTC}}"
    )
    assert horizon(parse(text.replace("      sex:", f"{date}      sex:"))) == windows


def test_rows_say_that_a_person_is_more_than_a_row():
    text = CLINIC.replace("kind: person}", "kind: row}").replace(
        "{protected: true}", "{protected: false, because: law}"
    )
    text = text.replace("    owner: {column: patient_id}\n", "").replace(
        "rows_per_unit: 20", "rows_per_unit: 1"
    )
    text = text.replace("    owner: {references: patients, by: patient_id}\n", "")
    told = " ".join(guarantee(parse(text)).split())
    assert "A person with several rows is protected that many times less." in told
