"""Whom a row belongs to: keys of other names, keys of two columns, windows, and one person written
in two ways."""

from __future__ import annotations

import threading
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dither import steward
from dither.catalog import parse
from dither.catalog.owners import owner_names
from dither.cli.main import app
from dither.data.register import limits, owners, registration
from dither.data.register.connections import CANNOT_ENCRYPT
from dither.data.register.registration import RegistrationError, write_copy_and_facts
from dither.data.register.stages import list_stages, watch_progress
from dither.plan.algebra import Cells, Count, Join, Named, PerUnit, Scan
from tests.datasets import clinic, hospital, shop
from tests.datasets.catalog_texts import write_head, write_private_head
from tests.neighbours import check_rows, measured

ROWS = {
    "customers": [{"c_key": "ann", "vip": "true"}, {"c_key": "bob", "vip": "false"}],
    "orders": [
        {"o_number": "1", "o_year": "24", "o_customer": "ann", "paid": "true"},
        {"o_number": "1", "o_year": "25", "o_customer": "bob", "paid": "true"},
        {"o_number": "2", "o_year": "25", "o_customer": "nobody", "paid": "true"},
    ],
    "lines": [
        {"l_order": "1", "l_year": "24", "price": "3"},
        {"l_order": "1", "l_year": "25", "price": "4"},
        {"l_order": "1", "l_year": None, "price": "5"},
        {"l_order": "1", "l_year": "26", "price": "6"},
        {"l_order": "2", "l_year": "25", "price": "7"},
    ],
}


class TestKeysOfOtherNames:
    def test_a_path_of_keys_of_other_names_and_of_two_columns(self):
        with hospital.registered(ROWS, parse(shop.CATALOG)) as both:
            found = both.rows(Scan("lines"))
            assert {(owner, values[-1]) for owner, values in found} == {
                (both.name_owner("ann"), 3),
                (both.name_owner("bob"), 4),
            }
            for table in ("lines", "orders", "customers"):
                assert both.rows(Scan(table)) == both.expected(Scan(table))

    def test_a_half_of_the_key_would_have_two_owners(self):
        """o_number 1 belongs to ann and to bob: only with the year is it one order."""
        text = shop.CATALOG.replace(
            "by: {l_order: o_number, l_year: o_year}", "by: {l_order: o_number}"
        )
        text = text.replace(
            "unique: [[o_number, o_year]]", "unique: [[o_number], [o_number, o_year]]"
        )
        text = text.replace("      l_year:  {type: id}\n", "")
        rows = {**ROWS, "lines": [{"l_order": "1", "price": "3"}]}
        with (
            pytest.raises(RegistrationError, match="o_number belong to two owners"),
            hospital.registered(rows, parse(text)),
        ):
            pass

    def test_the_owner_under_another_name_needs_no_second_protection(self):
        catalog = parse(shop.CATALOG)
        assert owner_names(catalog, catalog.table("orders")) == {"o_customer"}
        assert catalog.owner_column(catalog.table("lines")) == "c_key"
        parse(
            shop.CATALOG.replace("people: {c_key", "people: {o_customer: {protected: true}, c_key")
        )


WINDOWS = """\
dither: 1
dataset: ward
lineage: ward
population: patients
neighbours: add_remove
unit: {kind: person_window, column: day, every: month, zone: UTC}
people: {person: {protected: true}}
source: {engine: csv, location: .}
tables:
  stays:
    kind: private
    from: stays.csv
    owner: {column: person}
    unique: [[stay]]
    rows_per_unit: 2
    max_rows: 99
    columns:
      stay:   {type: id}
      person: {type: id}
      day:    {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: x}
  doses:
    kind: private
    from: doses.csv
    owner: {references: stays, by: stay}
    unique: []
    rows_per_unit: 3
    max_rows: 99
    columns:
      stay: {type: id}
      day:  {type: date, bounds: [2024-01-01, 2024-12-31], nulls: drop, provenance: x}
      mg:   {type: integer, bounds: [0, 9], nulls: keep, provenance: x}
"""
JANUARY, FEBRUARY = f"{2024 * 12}:p", f"{2024 * 12 + 1}:p"


class TestPathsUnderWindows:
    """Rule every-window-pays: one month of a person is the unit; taking it away takes no other
    month's rows."""

    STAYS = [
        {"stay": "s", "person": "p", "day": "2024-01-20"},
        {"stay": "s", "person": "p", "day": "2024-02-02"},
    ]
    DOSES = [
        {"stay": "s", "day": day, "mg": "1"}
        for day in ("2024-01-21", "2024-02-03", "2024-03-01", None)
    ]
    MARCH = [{"stay": "t", "person": "p", "day": "2024-03-05"}]

    def test_a_row_finds_its_owner_within_its_own_window(self):
        with hospital.registered(
            {"stays": self.STAYS, "doses": self.DOSES}, parse(WINDOWS)
        ) as both:
            assert {owner for owner, _ in both.rows(Scan("doses"))} == {
                both.name_owner(JANUARY),
                both.name_owner(FEBRUARY),
            }
            assert both.rows(Scan("doses")) == both.expected(Scan("doses"))

    def test_the_lost_ones_are_counted_for_the_steward(self, tmp_path):
        for name, rows in {"stays": self.STAYS, "doses": self.DOSES}.items():
            hospital.write_csv(
                tmp_path / f"{name}.csv", parse(WINDOWS).table(name).column_names, rows
            )
        target = tmp_path / "data.duckdb"
        done, _ = write_copy_and_facts(
            parse(WINDOWS), tmp_path, hospital.KEY, target, tmp_path / "s", lambda _: None
        )
        assert dict(done[1].counts)["rows without an owner, dropped"] == 2

    def one_month_goes(self) -> None:
        """January is taken away in the raw rows: its stay and its doses. February must not move."""
        left = {"stays": self.STAYS[1:], "doses": self.DOSES[1:]}
        only = {
            "stays": self.STAYS[:1],
            "doses": self.DOSES,
        }  # no stay in February: its doses had none there before
        for before, after in (
            (left, {"stays": self.STAYS, "doses": self.DOSES}),
            ({**only, "stays": []}, only),
        ):
            with (
                hospital.registered(before, parse(WINDOWS)) as one,
                hospital.registered(after, parse(WINDOWS)) as two,
            ):
                check_rows(
                    Scan("doses"),
                    one.rows(Scan("doses")),
                    two.rows(Scan("doses")),
                    one,
                    one.name_owner(JANUARY),
                )

    def test_a_month_that_goes_takes_no_other_month_along(self, monkeypatch):
        self.one_month_goes()
        monkeypatch.setattr(
            owners, "window_sql", lambda *_: "0"
        )  # planted: owners are found across windows
        with pytest.raises(AssertionError):
            self.one_month_goes()

    def test_joins_and_groups_meet_within_the_pair(self):
        """A person's January never meets the same person's February."""
        plan = Join(PerUnit(Scan("stays"), (), (Named("n", Count()),)), Scan("doses"), (), "inner")
        with hospital.registered(
            {"stays": self.STAYS + self.MARCH, "doses": self.DOSES}, parse(WINDOWS)
        ) as both:
            assert both.rows(plan) == both.expected(plan)
            assert measured(both, Cells(plan, (), (Count(),))).tolist() == [[2]]


def test_owners_that_differ_by_case_spaces_or_zeros_are_counted_for_the_steward_alone(tmp_path):
    people = ["Ann", "ann", " ann ", "bob", "carl", "ca\u00a0rl", "dora"]
    people += ["7", "7.0", "007", "70", "0", "00", "8.5", "8.50", "0x7", "x07"]  # 5 of them more
    file, place = clinic.register(
        tmp_path, [clinic.row(f"v{i}", person) for i, person in enumerate(people)]
    )
    done = steward.register(file, state=place)
    counts = dict(done.repairs[0].counts)
    assert counts["owners that differ from another by case, spaces or zeros only"] == 10
    assert "differ from another" in place.log.read_text()
    assert place.log.stat().st_mode & 0o077 == 0
    for stored in place.version(1).glob("*.json"):
        assert "differ" not in stored.read_text()


def test_owners_that_two_tables_write_differently_are_counted(tmp_path):
    """Numbers that a spreadsheet or a data frame wrote once as 7 and once as 7.0."""
    person = "{column: patient_id}"
    text = write_head("clinic", "county-residents", "patient_id: {protected: true}")
    for table in ("patients", "visits"):
        text += write_private_head(table, person, 1) + "      patient_id: {type: id}\n"
    (tmp_path / "clinic.yaml").write_text(text)
    (tmp_path / "patients.csv").write_text("patient_id\n7\n8\n")
    (tmp_path / "visits.csv").write_text("patient_id\n7.0\n9.0\n")
    done = steward.register(tmp_path / "clinic.yaml")
    counts = [
        count for repairs in done.repairs for what, count in repairs.counts if "zeros" in what
    ]
    assert counts == [0, 2]


class TestProgress:
    def test_every_stage_is_told_in_order(self, tmp_path):
        facts, told = hospital.catalog(), []
        for table in facts.tables:
            hospital.write_csv(
                tmp_path / table.source_name, table.column_names, hospital.raws()[table.name]
            )
        write_copy_and_facts(
            facts, tmp_path, hospital.KEY, tmp_path / "d.duckdb", tmp_path / "s", told.append
        )
        assert told == list_stages(facts)
        assert (
            len(told) == 5 * 3 + 2 + 1
        )  # reading, repairing, writing of five tables; two owner maps; the file

    def test_the_engine_says_how_far_it_is(self):
        shares, enough = [], threading.Event()

        class Engine:
            def query_progress(self) -> float:
                return [-1.0, 25.0, 50.0][min(len(shares), 2)] if shares else 25.0

        def share(done: float) -> None:
            shares.append(done)
            if len(shares) > 1:
                enough.set()

        with watch_progress(Engine(), share):
            assert enough.wait(60)
        assert shares[0] == 0.25 and all(0 <= each <= 1 for each in shares)


class TestSpilling:
    def test_an_engine_that_cannot_encrypt_says_what_to_do(self, tmp_path, monkeypatch):
        def fails(*_: object) -> None:
            raise duckdb.Error(f"DuckDB currently has a {CANNOT_ENCRYPT} loaded")

        monkeypatch.setattr(registration._Registering, "run", fails)
        with pytest.raises(RegistrationError, match="--spill FOLDER"):
            clinic.register(tmp_path, [])

    def test_a_declared_folder_is_used_in_plain_and_left_empty(self, tmp_path, monkeypatch):
        seen: list[tuple[Path, bool]] = []
        honest = registration.open_for_registration

        def spied(
            path: Path, spill: Path, memory: str | None, *, plain: bool
        ) -> duckdb.DuckDBPyConnection:
            seen.append((spill, plain))
            assert spill.stat().st_mode & 0o077 == 0
            return honest(path, spill, memory, plain=plain)

        monkeypatch.setattr(registration, "open_for_registration", spied)
        file, place = clinic.register(tmp_path / "x", [clinic.row("v", "p")])
        (tmp_path / "fast").mkdir()
        arguments = [
            "register",
            str(file),
            "--state",
            str(place.root),
            "--memory",
            "300MB",
            "--spill",
        ]
        done = CliRunner().invoke(app, [*arguments, str(tmp_path / "fast")])
        assert done.exit_code == 0, done.output
        assert seen[0] == (place.root / "spill", False)
        assert seen[1][1] and seen[1][0].parent == tmp_path / "fast"
        assert not list((tmp_path / "fast").iterdir())


def test_rows_that_share_the_prefix_of_their_digests_are_ordered_by_the_whole(
    tmp_path, monkeypatch
):
    """The order of 64 bits is the order of the digest, or the statement is asked for again by the
    whole digest."""
    rows = [clinic.row(f"v{i}", f"p{i % 3}", cost=str(i)) for i in range(60)]
    honest = clinic.registered_rows(tmp_path / "a", rows)
    monkeypatch.setattr(limits, "PREFIX", "CAST(left(dither_digest, 1) < '8' AS UBIGINT)")
    assert clinic.registered_rows(tmp_path / "b", rows) == honest
    monkeypatch.setattr(limits, "TIE", "another message")  # not asked for again: the tie shows
    monkeypatch.setattr(limits, "_rank_rows", lambda sql, partition, order: (
        f"SELECT *, row_number() OVER (PARTITION BY {partition} ORDER BY {order}) AS "
        f"dither_rank FROM ({sql})"
    ))  # fmt: skip
    assert clinic.registered_rows(tmp_path / "c", rows) != honest
