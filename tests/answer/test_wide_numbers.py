"""Whole numbers beyond 64 bits and their ends: answered, shown and covered exactly."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction as F
from pathlib import Path

import pytest

import dither
from dither import steward
from tests.case_lists import mark_between, mark_rest
from tests.datasets import clinic
from tests.datasets.one_table import write_catalog

WIDE = write_catalog(
    {
        "x": "{type: integer, bounds: [-1000000000000, 1000000000000], nulls: drop, "
        "provenance: none}"
    },
    name="people",
    owner="person",
    unique="[[person]]",
    rows_per_unit=1,
    max_rows=1000,
)
SQUARES = "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x * x) AS m FROM people"


def asked(folder: Path, value: int) -> dither.session.Connection:
    (folder / "wide.yaml").write_text(WIDE)
    (folder / "people.csv").write_text(
        "person,x\n" + "".join(f"p{i},{value}\n" for i in range(400))
    )
    steward.register(folder / "wide.yaml")
    place = dither.state.State((folder / "wide.yaml").with_suffix(".dither"))
    catalog = steward.registered_catalog(place)
    steward.open_pot(place, catalog, "total", epsilon=90, ceiling=100, purpose=clinic.PURPOSE)
    return dither.connect(folder / "wide.yaml")


@pytest.mark.parametrize("value", mark_rest([3, -(10**12)], quick=1))
@pytest.mark.parametrize("has_ends", [True, False])
def test_a_quantile_beyond_64_bits_is_answered(tmp_path: Path, value: int, has_ends: bool) -> None:
    """Squares reach 10^24. The answer was stored in 64 bits: charged, failed, and the dataset
    suspended, by one cheap question, and only where the value chosen (or an end, at the bound of
    the column) was large."""
    con = asked(tmp_path, value)
    found = con.sql(SQUARES, epsilon=40, quantile_intervals=has_ends)
    (row,) = found.to_arrow().to_pylist()
    assert abs(row["m"] - value * value) <= 2 * 10**18  # one step of the grid
    assert isinstance(row["m"], Decimal)
    if has_ends:  # exact integers: 10^24 as a float is 16,777,216 less
        assert row["m_low"] <= value * value <= row["m_high"]
    else:
        assert row["m_low"] is row["m_high"] is None
    again = con.sql(SQUARES, epsilon=40, quantile_intervals=has_ends)
    assert again.info["repeated"] and again.to_arrow().equals(found.to_arrow())


def test_ends_are_not_moved_inward_by_floats(tmp_path: Path) -> None:
    """An end at the bound of a wide column is the bound, not the nearest float (false alarms:
    1e-13)."""
    con = asked(tmp_path, 5)
    (row,) = con.sql(SQUARES, epsilon="0.001", confidence=1 - F(1, 10**13)).to_arrow().to_pylist()
    assert row["m_low"] == -(10**24) and row["m_high"] >= 10**24


FORMULAS = [
    ("2 * PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x * x) + 7", 2 * 10**24 + 7),
    ("-PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x * x)", -(10**24)),
    ("1000000 * SUM(x) - 1", 400 * 10**18 - 1),
    ("1000000 * SUM(x) - COUNT(*)", 400 * 10**18 - 400),
    ("COUNT(*) * 1000000000000000000", 400 * 10**18),
]


@pytest.mark.parametrize(
    ("formula", "exact"), mark_between(FORMULAS, step=2), ids=[formula for formula, _ in FORMULAS]
)
def test_whole_numbers_beyond_64_bits_are_shown_and_covered(
    tmp_path: Path, formula: str, exact: int
) -> None:
    """They stopped at 2^63 - 1, and so did both ends, which then covered nothing (false alarms:
    1e-13)."""
    con = asked(tmp_path, 10**12)
    (row,) = (
        con.sql(f"SELECT {formula} AS v FROM people", epsilon=40, confidence=1 - F(1, 10**13))
        .to_arrow()
        .to_pylist()
    )
    assert row["v_low"] <= exact <= row["v_high"] and row["v_low"] <= row["v"] <= row["v_high"]
    assert isinstance(row["v"], Decimal) and abs(row["v"]) > 2**63
