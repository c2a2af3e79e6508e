"""Only owners whose rows the limits choose among are ranked; what stays is what ranking all keeps.

The reference is the ranking of every owner by its digest, as all registrations before did it.
"""

from __future__ import annotations

import csv
from random import Random

import duckdb
import pytest

from dither.catalog import parse
from dither.data.register import limits, registration
from dither.data.register.registration import write_copy_and_facts
from tests.case_lists import mark_rest
from tests.datasets import clinic, hospital
from tests.datasets.owners import OWNERS


def rank_everybody(catalog, table, source):
    """SQL of the table of owners to rank, if all are ranked."""
    return f"CREATE OR REPLACE TEMP TABLE {limits.RANKED} AS SELECT * FROM {limits.COUNTED}"


def register(folder, catalog, raws):
    """Write sources and the copy of a catalog; return what is stored by table, without numbers."""
    folder.mkdir()
    for name, rows in raws.items():
        with (folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.DictWriter(file, list(catalog.table(name).column_names))
            writer.writeheader()
            writer.writerows(rows)
    target = folder / "data.duckdb"
    write_copy_and_facts(catalog, folder, clinic.KEY, target, folder / "spill", lambda _: None)
    with duckdb.connect(str(target), read_only=True) as connection:
        return {
            table.name: connection.sql(
                f"SELECT {OWNERS}, * EXCLUDE (dither_unit) FROM {table.name} ORDER BY ALL"
            ).fetchall()
            for table in catalog.private_tables
        }


def without_ranks(rows):
    return sorted((row[:1] + row[2:] for row in rows), key=repr)


def draw_visits(random: Random) -> list[dict]:
    """Owners below, at and above the limit of three rows; repeated keys and identical rows."""
    rows = []
    for owner in range(30):
        for _ in range(random.choice([1, 2, 3, 3, 4, 9])):
            key = f"v{random.randrange(6)}"
            rows.append(clinic.row(key, f"p{owner}", cost=str(random.randrange(3))))
    return rows


@pytest.mark.parametrize("seed", mark_rest(range(12), quick=2))
@pytest.mark.parametrize("unique", ["[[visit]]", "[]", "[[visit], [cost]]", "[[patient]]"])
def test_kept_rows_are_those_of_ranking_everybody(tmp_path, monkeypatch, seed, unique):
    text = clinic.CATALOG.replace("unique: [[visit]]", f"unique: {unique}")
    if "visit" not in unique:
        text = text.replace("visit:   {type: id}", "visit: {type: text, width: 9, nulls: keep}")
    catalog = parse(text)
    raws = {"visits": draw_visits(Random(seed))}
    quick = register(tmp_path / "quick", catalog, raws)["visits"]
    monkeypatch.setattr(registration, "find_ranked", rank_everybody)
    everybody = register(tmp_path / "all", catalog, raws)["visits"]
    assert without_ranks(quick) == without_ranks(everybody)
    assert any(row[1] == limits.UNRANKED for row in quick)
    assert any(row[1] > limits.UNRANKED for row in quick)
    assert {row for row in quick if row[1] > limits.UNRANKED} <= set(everybody)


def test_owners_along_foreign_keys_too(tmp_path, monkeypatch):
    raws = hospital.random_people(30, seed=4)
    raws["items"] = [
        hospital.item(visit["visit"], str(number % 9))
        for number, visit in enumerate(raws["visits"] * 3)
    ]
    quick = register(tmp_path / "quick", hospital.catalog(), raws)
    monkeypatch.setattr(registration, "find_ranked", rank_everybody)
    everybody = register(tmp_path / "all", hospital.catalog(), raws)
    for table, rows in quick.items():
        assert without_ranks(rows) == without_ranks(everybody[table])


def test_planted_bug_repeated_keys_forgotten_is_caught(tmp_path, monkeypatch):
    """An owner below the limit who repeats a unique key must be ranked as well."""
    raws = {"visits": [clinic.row("v", "p", cost="1"), clinic.row("v", "p", cost="2")]}
    honest = register(tmp_path / "honest", clinic.catalog(), raws)["visits"]
    assert len(honest) == 1
    monkeypatch.setattr(
        registration,
        "find_ranked",
        lambda catalog, table, source: (
            f"CREATE OR REPLACE TEMP TABLE {limits.RANKED} AS SELECT {limits.OWNER} FROM "
            f"{limits.COUNTED} WHERE dither_rows > {table.rows_per_unit}"
        ),
    )
    assert register(tmp_path / "planted", clinic.catalog(), raws)["visits"] != honest


def test_planted_bug_a_limit_off_by_one_is_caught(tmp_path, monkeypatch):
    raws = {"visits": [clinic.row(f"v{i}", "p") for i in range(4)]}
    assert len(register(tmp_path / "honest", clinic.catalog(), raws)["visits"]) == 3
    honest = limits.find_ranked
    monkeypatch.setattr(
        registration,
        "find_ranked",
        lambda catalog, table, source: honest(catalog, table, source).replace(
            "rows > 3", "rows > 4"
        ),
    )
    assert len(register(tmp_path / "planted", clinic.catalog(), raws)["visits"]) == 4
