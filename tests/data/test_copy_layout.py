"""How a copy of DuckDB lies on disk: owners side by side, and compressed as the catalog says."""

from __future__ import annotations

import duckdb
import pytest

from dither.catalog import parse
from dither.data.register import registration
from tests.data.test_ranked_owners import register
from tests.datasets import clinic, hospital

FIXED = ("TINYINT", "SMALLINT", "INTEGER")
OWN = {"dither_unit", "dither_rank", "dither_a", "dither_b"}


def visits(owners: int, rows_each: int) -> list[dict]:
    """Rows of many owners, those of one far apart."""
    return [
        clinic.row(f"v{number}-{owner}", f"p{owner}", cost=str(number))
        for number in range(rows_each)
        for owner in range(owners)
    ]


def count_runs(file) -> tuple[int, int]:
    """How many runs of rows of one owner a copy has, and how many owners."""
    before = "SELECT dither_unit, lag(dither_unit) OVER (ORDER BY rowid) AS before FROM visits"
    with duckdb.connect(str(file), read_only=True) as connection:
        (runs,) = connection.execute(
            f"SELECT count(*) FROM ({before}) WHERE dither_unit IS DISTINCT FROM before"
        ).fetchone()
        (owners,) = connection.execute("SELECT count(DISTINCT dither_unit) FROM visits").fetchone()
    return runs, owners


@pytest.mark.parametrize(("owners", "rows_each"), [(3, 200), (100, 3), (300, 1)])
def test_rows_of_an_owner_lie_side_by_side(tmp_path, owners, rows_each):
    catalog = clinic.catalog()
    register(tmp_path / "copy", catalog, {"visits": visits(owners, rows_each)})
    assert count_runs(tmp_path / "copy" / "data.duckdb") == (owners, owners)


def test_planted_bug_rows_in_the_order_of_the_source_are_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(registration, "order_by_owner", lambda rows: rows)
    register(tmp_path / "copy", clinic.catalog(), {"visits": visits(300, 3)})
    runs, owners = count_runs(tmp_path / "copy" / "data.duckdb")
    assert runs > owners == 300


def register_hospital(folder) -> tuple[int, int]:
    """Count runs and owners of ten people's visits, three each, where 300 people have a number."""
    raws = hospital.random_people(300, seed=4)
    people = [patient["person"] for patient in raws["patients"]][:10]
    visit = raws["visits"][0]
    raws["visits"] = [
        {**visit, "visit": f"v{number}-{person}", "person": person, "score": str(number)}
        for number in range(3)
        for person in people
    ]
    register(folder, parse(hospital.CATALOG), {**hospital.PUBLIC, **raws, "items": []})
    return count_runs(folder / "data.duckdb")


def test_few_rows_of_many_owners_lie_side_by_side(tmp_path):
    assert register_hospital(tmp_path / "copy") == (10, 10)


def test_planted_bug_owners_put_through_rows_are_seen(tmp_path, monkeypatch):
    """Where rows are fewer than owners, the engine swaps the join unless it may reorder nothing."""
    monkeypatch.setattr(registration, "_REORDERING", "")
    runs, owners = register_hospital(tmp_path / "copy")
    assert runs > owners == 10


def list_compressions(file) -> set[tuple[str, str]]:
    """The compressions of blocks that hold more than one value, by column."""
    with duckdb.connect(str(file), read_only=True) as connection:
        rows = connection.execute(
            "SELECT column_name, segment_type, compression FROM pragma_storage_info('visits') "
            "WHERE segment_type <> 'VALIDITY' AND compression <> 'Constant'"
        ).fetchall()
    return {(column, way) for column, kind, way in rows if column in OWN or kind in FIXED}


def test_compression_follows_the_catalog_and_not_the_rows(tmp_path):
    varied = visits(100, 3)
    alike = [{**row, "score": str(place % 2), "age": "40"} for place, row in enumerate(varied)]
    for name, rows in {"varied": varied, "alike": alike}.items():
        register(tmp_path / name, clinic.catalog(), {"visits": rows})
        ways = list_compressions(tmp_path / name / "data.duckdb")
        assert {column for column, _ in ways} >= OWN - {"dither_rank"}
        assert all(way == ("RLE" if column in OWN else "Uncompressed") for column, way in ways)
