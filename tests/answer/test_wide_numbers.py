"""Fourth round of attacks: what was found, as tests. Each of the first ones fails on the code as it was found."""

from __future__ import annotations

import json
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction as F
from pathlib import Path

import duckdb
import pytest

import dither
from dither import steward
from dither.errors import DitherError, ParameterError
from dither.plan.algebra import Quantiles, Scan
from dither.plan.facts import Facts
from dither.privacy.kernel.calibrate import calibrate
from dither.privacy.kernel.request import Price, Request, Step
from dither.publish.commitment import commitment, opens
from tests.datasets import hospital

CATALOG = """\
dither: 1
dataset: wide
lineage: wide
population: county-residents
neighbours: add_remove
unit: {kind: person}
people:
  person: {protected: true}
source: {engine: csv, location: .}
tables:
  people:
    kind: private
    from: people.csv
    owner: {column: person}
    unique: [[person]]
    rows_per_unit: 1
    max_rows: 1000
    columns:
      person: {type: id}
      x: {type: integer, bounds: [-1000000000000, 1000000000000], nulls: drop, provenance: none}
"""
PURPOSE = {
    "question": "How large are squares?",
    "population": "residents of the county",
    "recipient": "the county board",
}
SQUARES = "SELECT PERCENTILE_DISC(0.5) WITHIN GROUP (ORDER BY x * x) AS m FROM people"


def asked(folder: Path, value: int) -> dither.session.Connection:
    (folder / "wide.yaml").write_text(CATALOG)
    (folder / "people.csv").write_text("person,x\n" + "".join(f"p{i},{value}\n" for i in range(400)))
    steward.register(folder / "wide.yaml")
    place = dither.state.State((folder / "wide.yaml").with_suffix(".dither"))
    catalog = steward.registered_catalog(place)
    steward.open_pot(place, catalog, "total", epsilon=90, ceiling=100, purpose=PURPOSE)
    return dither.connect(folder / "wide.yaml")


@pytest.mark.parametrize("value", [3, -(10**12)])
@pytest.mark.parametrize("has_ends", [True, False])
def test_a_quantile_beyond_64_bits_is_answered(tmp_path: Path, value: int, has_ends: bool) -> None:
    """Squares reach 10^24. The answer was stored in 64 bits: charged, failed, and the dataset suspended, by one cheap
    question, and only where the value chosen (or an end, at the bound of the column) was large."""
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
    """An end at the bound of a wide column is the bound, not the nearest float (false alarms: 1e-13)."""
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


@pytest.mark.parametrize(("formula", "exact"), FORMULAS, ids=[formula for formula, _ in FORMULAS])
def test_whole_numbers_beyond_64_bits_are_shown_and_covered(tmp_path: Path, formula: str, exact: int) -> None:
    """They stopped at 2^63 - 1, and so did both ends, which then covered nothing (false alarms: 1e-13)."""
    con = asked(tmp_path, 10**12)
    (row,) = (
        con.sql(f"SELECT {formula} AS v FROM people", epsilon=40, confidence=1 - F(1, 10**13)).to_arrow().to_pylist()
    )
    assert row["v_low"] <= exact <= row["v_high"] and row["v_low"] <= row["v"] <= row["v_high"]
    assert isinstance(row["v"], Decimal) and abs(row["v"]) > 2**63


@pytest.mark.parametrize("neighbours", ["add_remove", "replace"])
def test_a_quantile_by_an_empty_list_of_keys_has_a_price(neighbours: str) -> None:
    """A public list may be empty. Under replace the price was divided by its no cells."""
    kept = "county: {type: category, values: {from: counties.county}, other: keep, nulls: keep}"
    assert kept in hospital.CATALOG
    text = hospital.CATALOG.replace(kept, kept.replace("keep", "drop"))
    catalog = hospital.catalog(text.replace("neighbours: add_remove", f"neighbours: {neighbours}"))
    query = Quantiles(Scan("visits"), ("county",), "cost", (F(1, 2),))
    request = Request((Step(query, "exponential", F(1)),), Price(F(1)), "total")
    (found,) = calibrate(request, catalog, facts=Facts((), (("counties", "county", ()),)))
    assert found.cells == 0 and found.copies == 1


def test_a_level_that_no_float_tells_from_one_is_refused_before_any_charge() -> None:
    """How far away the ends are aimed was first computed after the charge, where 1 - level was 0: an incident."""
    query = Quantiles(Scan("visits"), (), "cost", (F(1, 2),), (1 - F(1, 10**330), F(1, 8)))
    with pytest.raises(ParameterError, match="level"):
        calibrate(Request((Step(query, "exponential", F(1)),), Price(F(1)), "total"), hospital.catalog())


@pytest.mark.parametrize(
    "text",
    [
        '{"columns": {"n": [999]}, "nonce": "%s", "columns": {"n": [12]}}',
        '{"columns": {"n": [999], "n": [12]}, "nonce": "%s"}',
    ],
)
def test_a_file_of_values_says_each_thing_once(text: str) -> None:
    """The check read the last of two columns and a reader the first: a changed table passed as the certified one."""
    nonce = "5a" * 32
    promised = commitment({"n": [12]}, nonce)
    assert opens(json.dumps({"columns": {"n": [12]}, "nonce": nonce}), promised)
    with pytest.raises(DitherError, match="columns and nonce"):
        opens(text.replace("%s", nonce), promised)


def test_no_bar_tells_how_long_a_measurement_took(tmp_path: Path) -> None:
    """In a notebook and under `python -c` DuckDB printed "100% (00:00:04.15 elapsed)" below a private answer."""
    duckdb.connect(str(tmp_path / "data.duckdb")).close()
    told = "print(*(opened.sql(f\"SELECT current_setting('{of}')\").fetchall()[0][0] for of in names))"
    code = (
        "from pathlib import Path; from dither.data.engines.duckdb import open_registered, duckdb; "
        f"path = {str(tmp_path / 'data.duckdb')!r}; names = ['enable_progress_bar', 'lock_configuration']; "
        f"opened = open_registered(Path(path)); {told}; again = open_registered(Path(path)); opened.close(); "
        f"opened = again; {told}; opened.close(); opened = duckdb.connect(path); {told}"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["False True", "False True", "True False"], found.stderr
