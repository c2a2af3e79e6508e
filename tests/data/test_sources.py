"""Registration beyond one CSV table: paths, public tables, windows, rows, Parquet and DuckDB,
drafts and checks."""

from __future__ import annotations

import json
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dither import CatalogError, RefusedError, steward
from dither.audit import naive
from dither.catalog import parse
from dither.cli.main import app
from dither.data.measure import Measurer
from dither.data.register.registration import RegistrationError, write_copy_and_facts
from dither.plan.algebra import Cells, Count, CountUnits, Scan, Sum
from dither.plan.facts import Facts, load_facts
from dither.plan.of_catalog import sensitivity
from dither.state import State
from tests.case_lists import mark_between
from tests.datasets import clinic, hospital
from tests.datasets.owners import OWNERS, hash_owner

PEOPLE = [hospital.patient("p1"), hospital.patient("p2"), hospital.patient(None)]
VISITS = [
    hospital.visit("a", "p1"),
    hospital.visit("b", "p2", county="elm"),
    hospital.visit("c", "nobody"),
    hospital.visit("d", None),
]
ITEMS = [
    hospital.item("a"),
    hospital.item("a"),
    hospital.item("b"),
    hospital.item("c"),
    hospital.item(None),
]


class TestOwnerPaths:
    def test_owners_are_found_along_the_path_and_orphans_are_dropped_and_counted(self, tmp_path):
        facts = hospital.catalog()
        rows = hospital.raws(PEOPLE, VISITS, ITEMS)
        for table in facts.tables:
            hospital.write_csv(tmp_path / table.source_name, table.column_names, rows[table.name])
        repairs, _ = write_copy_and_facts(
            facts,
            tmp_path,
            hospital.KEY,
            tmp_path / "data.duckdb",
            tmp_path / "spill",
            lambda _: None,
        )
        counts = {each.table: dict(each.counts) for each in repairs}
        assert counts["patients"]["rows without an owner, dropped"] == 1
        assert counts["visits"]["rows without an owner, dropped"] == 2
        assert counts["items"]["rows without an owner, dropped"] == 2
        with duckdb.connect(str(tmp_path / "data.duckdb"), read_only=True) as connection:
            owners = connection.execute(f"SELECT {OWNERS} FROM items").fetchall()
        one, two = (hash_owner(owner, hospital.KEY) for owner in ("p1", "p2"))
        assert sorted(owners) == sorted([(one,), (one,), (two,)])

    def test_a_parent_key_with_two_owners_stops_registration(self):
        """Rule one-owner-per-row: otherwise u, by owning an order with v's key, could delete v's
        line items."""
        stolen = [*VISITS, hospital.visit("a", "p2")]
        with (
            pytest.raises(RegistrationError, match="visit belong to two owners"),
            hospital.registered(hospital.raws(PEOPLE, stolen, ITEMS)),
        ):
            pass

    def test_a_parent_key_repeated_by_one_owner_is_one_owner(self):
        twice = [*VISITS, hospital.visit("a", "p1", cost="7")]
        with hospital.registered(hospital.raws(PEOPLE, twice, ITEMS)) as both:
            assert both.rows(Scan("items")) == both.expected(Scan("items"))
            assert both.measurer.measure(Cells(Scan("visits"), (), (Count(),))).tolist() == [[2]]

    def test_the_message_names_no_row(self):
        stolen = [*VISITS, hospital.visit("secret-key", "p1"), hospital.visit("secret-key", "p2")]
        with (
            pytest.raises(RegistrationError) as caught,
            hospital.registered(hospital.raws(PEOPLE, stolen, ITEMS)),
        ):
            pass
        assert "secret-key" not in str(caught.value) and "p1" not in str(caught.value)


class TestPublicTables:
    def test_facts_hold_multiplicities_and_lists(self):
        with hospital.registered(hospital.raws(PEOPLE, VISITS, ITEMS)) as both:
            facts = both.facts
        assert facts.multiplicity("wards", ("county",)) == 2
        assert facts.multiplicity("wards", ("level",)) == 3
        assert facts.multiplicity("counties", ("county",)) == 1
        assert facts.labels("counties", "county") == ("ash", "elm", "oak")
        assert Facts.from_json(json.loads(json.dumps(facts.to_json()))) == facts
        with pytest.raises(RefusedError):
            facts.multiplicity("wards", ())
        with pytest.raises(RefusedError):
            facts.labels("wards", "county")

    def test_facts_do_not_depend_on_private_rows(self):
        with (
            hospital.registered(hospital.raws()) as one,
            hospital.registered(hospital.raws(PEOPLE, VISITS)) as two,
        ):
            assert one.facts == two.facts

    def test_a_declared_unique_key_that_repeats_stops_registration(self):
        text = hospital.CATALOG.replace(
            "    unique: []\n    columns:\n      county",
            "    unique: [[county]]\n    columns:\n      county",
        )
        with (
            pytest.raises(RegistrationError, match="declared unique"),
            hospital.registered(hospital.raws(), parse(text)),
        ):
            pass

    def test_the_label_other_in_a_list_stops_registration(self):
        rows = hospital.raws()
        rows["counties"] = [*rows["counties"], {"county": "other", "region": "n", "beds": "1"}]
        with pytest.raises(RegistrationError, match="'other'"), hospital.registered(rows):
            pass

    def test_a_question_about_a_public_table_is_refused(self):
        with (
            hospital.registered(hospital.raws()) as both,
            pytest.raises(RefusedError, match="not a private table"),
        ):
            both.measurer.measure(Cells(Scan("counties"), (), (Count(),)))


WINDOWS = (
    hospital.CATALOG[: hospital.CATALOG.index("tables:")].replace(
        "kind: person}", "kind: person_window, column: at, every: month, zone: +01:00}"
    )
    + """\
tables:
  visits:
    kind: private
    from: visits.csv
    owner: {column: person}
    unique: [[visit]]
    rows_per_unit: 2
    max_rows: 100
    columns:
      visit:  {type: id}
      person: {type: id}
      at:     {type: timestamp, bounds: ["2024-01-01T00:00:00", "2024-12-31T23:59:59"], 
               zone: UTC, nulls: drop, provenance: x}
      cost:   {type: integer, bounds: [0, 10], nulls: keep, provenance: x}
"""
)


@pytest.mark.parametrize("every", mark_between(["day", "week", "month", "year"], step=2))
def test_windows_are_part_of_the_owner_and_limits_hold_per_window(every):
    """Rule every-window-pays: the unit is the pair, so a person has so many rows in each window."""
    facts = parse(WINDOWS.replace("every: month", f"every: {every}"))
    times = [
        "2024-01-31 22:59:59",
        "2024-01-31 23:00:00",
        "2024-02-01 00:30:00",
        "2024-02-05 00:00:00",
        None,
        "x",
        "1999-01-01",
    ]
    rows = {
        "visits": [
            {"visit": str(i), "person": "p", "at": at, "cost": str(i)}
            for i, at in enumerate(times * 3)
        ]
    }
    with hospital.registered(rows, facts) as both:
        assert both.rows(Scan("visits")) == both.expected(Scan("visits"))
        owners = {owner for owner, _ in both.rows(Scan("visits"))}
        if every == "month":
            assert owners == {
                hash_owner(f"{month}:p", hospital.KEY) for month in (2024 * 12, 2024 * 12 + 1)
            }  # 23:00 UTC is the next month at +01:00
        assert (
            max(
                sum(n for (o, _), n in both.rows(Scan("visits")).items() if o == one)
                for one in owners
            )
            <= 2
        )
        assert both.measurer.measure(Cells(Scan("visits"), (), (CountUnits(),))).tolist() == [
            [len(owners)]
        ]


def test_rows_as_units_are_named_by_content_and_depend_on_nobody(tmp_path):
    text = clinic.CATALOG.replace("kind: person}", "kind: row}").replace(
        "people:\n  patient: {protected: true}", "people: {}"
    )
    text = text.replace("    owner: {column: patient}\n", "").replace(
        "rows_per_unit: 3", "rows_per_unit: 1"
    )
    text = text.replace("      patient: {type: id}\n", "")
    facts = parse(text)
    same = [clinic.row("v", "x")] * 3
    others = [clinic.row(f"w{i}", "y", cost=str(i)) for i in range(5)]
    kept = {}
    for name, rows in {"one": others + same, "two": same[:1] + others[::-1]}.items():
        with hospital.registered({"visits": rows}, facts) as both:
            kept[name] = both.rows(Scan("visits"))
            assert kept[name] == both.expected(Scan("visits"))
    assert (
        sum((kept["one"] - kept["two"]).values()) == 2
    )  # two rows of three identical ones came, nothing else moved
    assert not kept["two"] - kept["one"]
    assert sensitivity(Cells(Scan("visits"), (), (Count(),)), facts).l1 == 1


def test_replace_doubles_across_cells_but_not_within_one():
    """Rule replace-is-two-changes; SUM in [L, U] moves by U - L in one cell where L <= 0 <= U."""
    facts = clinic.catalog(add_remove="replace")
    assert sensitivity(Cells(Scan("visits"), (), (Count(),)), facts).l1 == 3
    assert sensitivity(Cells(Scan("visits"), (), (Sum("score"),)), facts).l1 == 3 * 10
    assert sensitivity(Cells(Scan("visits"), (), (Sum("age"),)), facts).l1 == 3 * 110
    spread = sensitivity(Cells(Scan("visits"), ("ward",), (Count(),)), facts)
    assert (spread.l0, spread.l1, spread.linf, spread.l2_squared) == (4, 6, 3, 18)


class TestOtherEngines:
    ROWS = [
        clinic.row("v1", "p1", cost="3.5", day="2024-02-29"),
        clinic.row("v2", "p1", ward=None, urgent="false"),
        clinic.row("v3", "p2", age="200", score=None),
    ]

    def typed(self) -> str:
        """The rows with the types that a typical engine gives them."""
        rows = ", ".join(
            "("
            + ", ".join("NULL" if value is None else f"'{value}'" for value in row.values())
            + ")"
            for row in self.ROWS
        )
        types = {
            "age": "INTEGER",
            "score": "BIGINT",
            "cost": "DOUBLE",
            "weight": "DECIMAL(9,2)",
            "urgent": "BOOLEAN",
            "day": "DATE",
        }
        names = list(self.ROWS[0])
        wanted = ", ".join(
            f"CAST({name} AS {types.get(name, 'VARCHAR')}) AS {name}" for name in names
        )
        return f"SELECT {wanted}, 1 AS extra FROM (VALUES {rows}) AS t({', '.join(names)})"

    def check(self, facts, place: Path, tmp_path: Path) -> None:
        repairs, found = write_copy_and_facts(
            facts, place, clinic.KEY, tmp_path / "data.duckdb", tmp_path / "spill", lambda _: None
        )
        assert dict(repairs[0].counts)["rows registered"] == 3
        measurer = Measurer(tmp_path / "data.duckdb", facts, found)
        kept = naive.registered(self.ROWS, facts.table("visits"), clinic.KEY)
        for query in (
            Cells(Scan("visits"), ("ward",), (Sum("cost"),)),
            Cells(Scan("visits"), ("urgent",), (Sum("day"),)),
        ):
            assert measurer.measure(query).tolist() == naive.evaluate(query, facts, kept)
        measurer.close()

    def test_parquet(self, tmp_path):
        duckdb.execute(f"COPY ({self.typed()}) TO '{tmp_path}/visits.parquet' (FORMAT parquet)")
        text = clinic.CATALOG.replace("engine: csv", "engine: parquet").replace(
            "visits.csv", "visits.parquet"
        )
        self.check(parse(text), tmp_path, tmp_path)

    def test_duckdb(self, tmp_path):
        with duckdb.connect(str(tmp_path / "raw.duckdb")) as connection:
            connection.execute(f"CREATE TABLE visits AS {self.typed()}")
        text = clinic.CATALOG.replace(
            "engine: csv, location: .", "engine: duckdb, location: raw.duckdb"
        )
        self.check(
            parse(text.replace("from: visits.csv", "from: visits")),
            tmp_path / "raw.duckdb",
            tmp_path,
        )


class TestDraftAndCheck:
    def draft(self, *arguments: str) -> str:
        done = CliRunner().invoke(app, ["catalog", "draft", *arguments])
        assert done.exit_code == 0, done.output
        return done.stdout

    def test_a_draft_of_csv_has_names_only_and_cannot_be_loaded_undecided(self, tmp_path):
        clinic.write_csv(tmp_path / "visits.csv", [clinic.row("v1", "secret")])
        text = self.draft(str(tmp_path))
        assert "secret" not in text and "cost: {type: ???}" in text
        with pytest.raises(CatalogError, match=r"\?\?\?"):
            parse(text)

    def test_a_draft_of_parquet_and_duckdb_knows_types_and_no_enum_labels(self, tmp_path):
        made = (
            "SELECT 1 AS n, DATE '2024-01-01' AS d, 'secret'::ENUM('secret') AS e, "
            "1.5::DECIMAL(9,2) AS x, true AS b"
        )
        duckdb.execute(f"COPY ({made}) TO '{tmp_path}/t.parquet' (FORMAT parquet)")
        with duckdb.connect(str(tmp_path / "raw.duckdb")) as connection:
            connection.execute(f"CREATE TABLE t AS {made}")
        for text in (
            self.draft(str(tmp_path), "--engine", "parquet"),
            self.draft(f"{tmp_path}/raw.duckdb", "--engine", "duckdb"),
        ):
            assert (
                "n: {type: integer" in text
                and "d: {type: date" in text
                and "b: {type: boolean" in text
            )
            assert "x: {type: decimal" in text and "e: {type: ???}" in text and "secret" not in text

    def test_check_compares_names_and_prints_the_guarantee(self, tmp_path):
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        clinic.write_csv(tmp_path / "visits.csv", [])
        done = CliRunner().invoke(app, ["catalog", "check", str(tmp_path / "clinic.yaml")])
        assert (
            done.exit_code == 0
            and "has every declared column" in done.output
            and "Not protected" in done.output
        )
        (tmp_path / "visits.csv").write_text("visit,patient\n")
        done = CliRunner().invoke(app, ["catalog", "check", str(tmp_path / "clinic.yaml")])
        assert isinstance(done.exception, CatalogError) and "has no column ward, kind" in str(
            done.exception
        )


def test_a_version_stores_its_facts_and_their_hash_is_in_the_ledger(tmp_path):
    (tmp_path / "hospital.yaml").write_text(hospital.CATALOG)
    facts = hospital.catalog()
    rows = hospital.raws(PEOPLE, VISITS, ITEMS)
    for table in facts.tables:
        hospital.write_csv(tmp_path / table.source_name, table.column_names, rows[table.name])
    steward.register(tmp_path / "hospital.yaml")
    place = State.beside(tmp_path / "hospital.yaml")
    stored = load_facts(place.version(1))
    ledger = steward.open_ledger(place)
    assert ledger.registered().public["facts_hash"] == stored.hash
    ledger.close()
    measurer = Measurer(place.version(1) / "data.duckdb", facts)
    assert measurer.facts == stored
    assert measurer.measure(Cells(Scan("visits"), ("county",), (Count(),))).tolist() == [
        [1],
        [1],
        [0],
        [0],
        [0],
    ]
    measurer.close()
