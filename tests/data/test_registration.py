"""Registration: which rows stay is nobody else's business, and every text becomes a value."""

from __future__ import annotations

import os
from pathlib import Path

import duckdb
import pytest
from hypothesis import strategies as st

from dither import DitherError, RefusedError, connect, steward
from dither.catalog import Source, parse
from dither.data.register import limits, registration, sources
from dither.data.register.csv_source import csv_relation
from dither.data.register.registration import RegistrationError
from dither.state import State
from dither.steward import registration as steward_registration
from tests.case_lists import mark_rest, run_examples
from tests.datasets import clinic
from tests.datasets.owners import OWNERS, hash_owner


def of_owner(rows: list[tuple], owner: str) -> list[tuple]:
    return [found for found in rows if found[0] == hash_owner(owner, clinic.KEY)]


MINE = [clinic.row(f"v{i}", "me", cost=str(i), score=str(i % 5)) for i in range(8)] + [
    clinic.row("v1", "me")
] * 3
OTHERS = [clinic.row(f"w{i}", f"p{i % 20}", cost=str(i)) for i in range(100)]


class TestOwnersRowsDependOnNobodyElse:
    """Rule rank-by-content: byte-identical whatever other owners have, in any order, over any
    history of versions."""

    def test_whatever_rows_others_have(self, tmp_path):
        alone = of_owner(clinic.registered_rows(tmp_path / "a", MINE), "me")
        assert len(alone) == 3
        for place in ("first", "last", "between"):
            rows = {
                "first": MINE + OTHERS,
                "last": OTHERS + MINE,
                "between": OTHERS[:50] + MINE + OTHERS[50:],
            }[place]
            assert of_owner(clinic.registered_rows(tmp_path / place, rows), "me") == alone

    def test_in_any_order(self, tmp_path):
        rows = MINE + OTHERS
        assert clinic.registered_rows(tmp_path / "a", rows) == clinic.registered_rows(
            tmp_path / "b", rows[::-1]
        )

    def test_a_victim_that_gains_a_row_changes_nobody_else_over_two_versions(self, tmp_path):
        """The counterexample of the rule: rank by rowid re-draws everybody's sample."""
        before = clinic.registered_rows(tmp_path / "a", OTHERS + MINE[:1])
        after = clinic.registered_rows(tmp_path / "b", MINE[:2] + OTHERS)
        mine = hash_owner("me", clinic.KEY)
        assert [r for r in before if r[0] != mine] == [r for r in after if r[0] != mine]

    def test_over_any_history_of_versions(self, tmp_path):
        file, place = clinic.register(tmp_path / "x", MINE + OTHERS)

        mine = hash_owner("me", place.key_file.read_bytes())

        def read_mine(version):
            copy = place.version(version) / "data.duckdb"
            with duckdb.connect(str(copy), read_only=True) as connection:
                return connection.execute(
                    f"SELECT * EXCLUDE (dither_unit) FROM visits WHERE {OWNERS} = '{mine}' "
                    "ORDER BY ALL"
                ).fetchall()

        kept = read_mine(1)
        for version, rows in enumerate([OTHERS, MINE, OTHERS[::-1] + MINE[::-1]], 2):
            clinic.write_csv(file.parent / "visits.csv", rows)
            assert steward.register(file, state=place).version == version
        assert kept
        assert read_mine(4) == kept

    def test_planted_bug_rank_by_position_is_caught(self, tmp_path, monkeypatch):
        honest = limits.keep_rows_sql
        swaps = {
            "AS dither_n FROM (": "AS dither_n, position FROM (",
            "(SELECT * FROM dither_repaired": "(SELECT *, rowid AS position FROM dither_repaired",
        }

        def rank_by_position(*given):
            sql = honest(*given)
            for honest_words, planted_words in swaps.items():
                assert honest_words in sql
                sql = sql.replace(honest_words, planted_words)
            return sql

        monkeypatch.setattr(registration, "keep_rows_sql", rank_by_position)
        monkeypatch.setattr(
            limits, "digest", lambda columns: "lpad(CAST(position AS VARCHAR), 12, '0')"
        )
        with pytest.raises(AssertionError):
            self.test_in_any_order(tmp_path)


@pytest.mark.parametrize("examples", mark_rest([3, 24], quick=1))
def test_kept_rows_are_a_function_of_the_owners_rows_as_a_multiset(examples, tmp_path_factory):
    strategies = {"order": st.permutations(range(12)), "drop": st.sets(st.integers(0, 11))}
    rows = [clinic.row(f"v{i % 5}", "me", cost=str(i % 3)) for i in range(6)]
    rows += [clinic.row(f"w{i}", f"p{i}") for i in range(6)]
    expected = of_owner(clinic.registered_rows(tmp_path_factory.mktemp("order"), rows), "me")

    def check_rows(order, drop):
        shuffled = [rows[i] for i in order if i < 6 or i not in drop]
        assert (
            of_owner(clinic.registered_rows(tmp_path_factory.mktemp("orders"), shuffled), "me")
            == expected
        )

    run_examples(check_rows, examples, strategies)


def test_the_copy_names_nobody(tmp_path):
    """Rows have the number of their owner; the id itself is nowhere in the file."""
    clinic.registered_rows(tmp_path, [clinic.row("visit-unmistakable", "zebra-unmistakable")])
    content = (tmp_path / "data.duckdb").read_bytes()
    assert b"visit-unmistakable" in content  # a text of a row would be seen
    assert b"zebra" not in content


def test_unique_keys_are_made_unique_per_owner_and_never_across_owners(tmp_path):
    rows = [
        clinic.row("v", "a"),
        clinic.row("v", "a", cost="3"),
        clinic.row("v", "b"),
        clinic.row("w", "b"),
    ]
    owners = [found[0] for found in clinic.registered_rows(tmp_path, rows)]
    assert sorted(owners) == sorted(hash_owner(owner, clinic.KEY) for owner in "abb")


def test_fields_of_the_digest_cannot_run_into_each_other(tmp_path):
    """'ab' + 'c' and 'a' + 'bc', NULL and '-': different rows have different digests."""
    sql = limits.limit_rows_sql(clinic.catalog(), clinic.catalog().table("visits"), "SELECT 1")
    assert "strlen" in sql and "concat_ws" not in sql and "rowid" not in sql


def test_a_file_with_broken_lines_registers_and_counts_them_for_the_steward(tmp_path):
    text = "visit,patient,ward,kind,age,score,cost,weight,urgent,day\n"
    text += "v1,p1,north,a,40,1,10,70,true,2024-05-01\n"
    text += "too,few\n" + "v2,p1" + ",x" * 20 + "\n"
    (tmp_path / "visits.csv").write_bytes(
        text.encode() + b"v3,p1,\xff\xfe,a,40,1,10,70,true,2024-05-01\n"
    )
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    done = steward.register(tmp_path / "clinic.yaml")
    counts = dict(done.repairs[0].counts)
    assert counts["lines that could not be read"] == 3
    assert counts["rows registered"] == 1


class TestOneLineIsOneRow:
    """Rule rows-read-apart: nobody's row can change how another's is read."""

    HEADER = ",".join(clinic.COLUMNS) + "\n"

    def line(self, visit: str, patient: str, ward: str = "north") -> str:
        return f"{visit},{patient},{ward},a,40,1,10,70,true,2024-05-01\n"

    @pytest.mark.parametrize(
        "ward", ['"nor', '"nor""', 'nor"th', '"no\nrth"', '"no\rrth"', '"a\nb,c,d"']
    )
    @pytest.mark.parametrize("place", mark_rest([10, 0, 20], quick=1))
    def test_an_unclosed_quote_or_a_broken_field_never_costs_another_persons_row(
        self, tmp_path, ward, place
    ):
        lines = [self.line(f"v{i}", f"p{i}") for i in range(20)]
        lines.insert(place, self.line("v", "culprit", ward))
        (tmp_path / "visits.csv").write_bytes((self.HEADER + "".join(lines)).encode())
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        try:
            done = steward.register(tmp_path / "clinic.yaml")
        except RegistrationError as error:
            reasons = (
                "span several lines",
                "could not register",
                "carriage returns that do not end a line",
            )
            assert any(reason in str(error) for reason in reasons)
        else:
            assert dict(done.repairs[0].counts)["rows registered"] in (20, 21)

    @pytest.mark.all
    def test_a_large_file_is_read_the_same_whatever_row_comes_first(self, tmp_path):
        """A parallel reader guesses where quotes begin by what it meets at its cuts: one row moved
        40,000 others."""
        text = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 1000000")
        ward = '"x, "" ,y' + ",z" * 60 + '"'
        body = "".join(
            self.line(f"v{i}", f"p{i}", ward if i % 2 else '"north"') for i in range(150_000)
        )
        assert len(body) > 2 * 8_000_000
        kept = set()
        for first in (
            "",
            self.line("v", "culprit", '"a"'),
            self.line("v", "culprit", '"' + "b" * 31 + '"'),
        ):
            folder = tmp_path / str(len(first))
            folder.mkdir()
            (folder / "visits.csv").write_text(self.HEADER + first + body)
            (folder / "clinic.yaml").write_text(text)
            counts = dict(steward.register(folder / "clinic.yaml").repairs[0].counts)
            kept.add(counts["rows registered"] - (first != ""))
        assert kept == {150_000}

    def test_the_reader_is_not_parallel(self):
        table = parse(clinic.CATALOG).table("visits")
        sql = csv_relation(Source("csv", "."), Path("visits.csv"), table, fields=9)
        assert "parallel = false" in sql

    def test_a_file_with_one_quote_is_read_by_one_thread(self, tmp_path, monkeypatch):
        """All threads read a file only where no byte of it is a quote."""
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        readers = []
        for name in ("csv_relation", "open_lines"):
            honest = getattr(sources, name)
            monkeypatch.setattr(
                sources,
                name,
                lambda *given, name=name, honest=honest: readers.append(name) or honest(*given),
            )
        for ward, expected in (
            ("north", ["open_lines"]),
            ('"north"', ["csv_relation"]),
            ('nor"th', ["csv_relation"]),
        ):
            lines = [self.line("v1", "p1"), self.line("v2", "p2", ward)]
            (tmp_path / "visits.csv").write_text(self.HEADER + "".join(lines))
            readers.clear()
            steward.register(tmp_path / "clinic.yaml")
            assert readers == expected

    def test_a_line_that_is_no_row_is_met_by_one_thread(self, tmp_path):
        """Read by all threads it would be left out without a word."""
        lines = [self.line("v1", "p1"), "too,few\n", self.line("v2", "p2")]
        (tmp_path / "visits.csv").write_text(self.HEADER + "".join(lines))
        (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
        counts = dict(steward.register(tmp_path / "clinic.yaml").repairs[0].counts)
        assert counts["lines that could not be read"] == 1
        assert counts["rows read"] == counts["rows registered"] == 2


def test_tables_and_columns_may_have_any_name(tmp_path):
    text = clinic.CATALOG.replace("  visits:", "  reject_errors:")
    text = text.replace("      score:", "      digest:").replace("      ward:", "      place:")
    (tmp_path / "clinic.yaml").write_text(text)
    clinic.write_csv(tmp_path / "visits.csv", MINE + OTHERS)
    lines = (
        (tmp_path / "visits.csv")
        .read_text()
        .replace("score,", "digest,", 1)
        .replace("ward,", "place,", 1)
    )
    (tmp_path / "visits.csv").write_text(lines)
    done = steward.register(tmp_path / "clinic.yaml")
    assert dict(done.repairs[0].counts)["rows registered"] == 3 + 20 * 3


def test_columns_are_read_by_name_and_never_sniffed(tmp_path):
    header = list(reversed(clinic.COLUMNS))
    values = clinic.row("v1", "p1", age="n/a")
    body = (
        ",".join([*header, "extra"])
        + "\n"
        + ",".join([*(values[name] or "" for name in header), "x"])
        + "\n"
    )
    (tmp_path / "visits.csv").write_text(body)
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    counts = dict(steward.register(tmp_path / "clinic.yaml").repairs[0].counts)
    assert counts["age: values repaired"] == counts["age: rows dropped"] == 1


def test_a_missing_column_stops_registration_before_anything_is_written(tmp_path):
    (tmp_path / "visits.csv").write_text("visit,patient\nv1,p1\n")
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    with pytest.raises(RegistrationError, match=r"missing: ward, kind, age"):
        steward.register(tmp_path / "clinic.yaml")
    assert not list((tmp_path / "clinic.dither" / "versions").glob("0*"))


def test_more_rows_than_max_rows_stop_registration_and_nobody_is_pushed_out(tmp_path):
    """The table is never cut: one person's row would push out another's."""
    text = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 5")
    clinic.register(tmp_path, [clinic.row(f"v{i}", f"p{i}") for i in range(5)], text)
    with pytest.raises(RegistrationError, match="max_rows 5"):
        clinic.register(tmp_path, [clinic.row(f"v{i}", f"p{i}") for i in range(6)], text)
    assert [p.name for p in State(tmp_path / "clinic.dither").versions.iterdir()] == ["0001"]


def test_rows_past_the_limit_of_one_owner_do_not_count_towards_max_rows(tmp_path):
    text = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 3")
    clinic.register(tmp_path, [clinic.row(f"v{i}", "p") for i in range(50)], text)


def test_the_key_is_made_once_and_never_replaced(tmp_path):
    file, place = clinic.register(tmp_path, OTHERS)
    key = place.key_file.read_bytes()
    assert len(key) == 32
    steward.register(file, state=place)
    assert place.key_file.read_bytes() == key
    place.key_file.unlink()
    with pytest.raises(DitherError, match="key is gone"):
        steward.register(file, state=place)


def test_the_state_folder_and_all_below_it_are_closed_to_others(tmp_path):
    """Also after a question, and where an earlier version left the folder of versions open."""
    before = os.umask(0o022)
    try:
        file, place = clinic.register(tmp_path, OTHERS)
        place.versions.chmod(0o755)
        steward.register(file, state=place)
        clinic.open_total(place)
        connect(file).sql("SELECT COUNT(*) AS n FROM visits", epsilon=1).certificate()
    finally:
        os.umask(before)
    assert place.root.stat().st_mode & 0o777 == 0o700
    entries = list(place.root.rglob("*"))
    assert {place.key_file, place.id_file, place.ledger, place.log, place.versions} < set(entries)
    is_open = {entry.name for entry in entries if entry.stat().st_mode & 0o077}
    assert is_open == {"signing.pub"}  # the public key, for readers of certificates


def test_the_registered_copy_is_read_only_and_reaches_no_other_file(tmp_path):
    measurer = clinic.measurer(tmp_path, OTHERS)
    for statement in (
        "CREATE TABLE x (a INT)",
        "SELECT * FROM read_csv('visits.csv')",
        "SET enable_external_access = true",
        "ATTACH 'other.duckdb'",
    ):
        with pytest.raises(duckdb.Error):
            measurer.engine.connection.execute(statement)


def test_several_connections_of_one_process_share_a_copy(tmp_path):
    file, place = clinic.register(tmp_path, OTHERS)
    clinic.open_total(place)
    first, second = connect(file), connect(file)
    for con in (first, second, first):
        con.sql("SELECT COUNT(*) FROM visits", epsilon=1)


def test_a_killed_registration_leaves_the_old_version_in_use(tmp_path, monkeypatch):
    file, place = clinic.register(tmp_path, OTHERS)
    clinic.open_total(place)
    with monkeypatch.context() as patched:
        patched.setattr(
            "dither.privacy.ledger.steward_ledger.StewardLedger.record_register",
            lambda *_: os._exit(9),
        )
        child = os.fork()
        if child == 0:
            steward.register(file, state=place)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert connect(file).sql("SELECT COUNT(*) FROM visits", epsilon=1).info["version"] == 1
    assert steward.register(file, state=place).version == 2


def test_two_registrations_at_once_are_refused(tmp_path):
    file, place = clinic.register(tmp_path, OTHERS)
    with (
        steward_registration._lock_registration(place),
        pytest.raises(DitherError, match="another registration"),
    ):
        steward.register(file, state=place)


def test_a_prod_lineage_never_becomes_dev(tmp_path):
    file, place = clinic.register(tmp_path, OTHERS)
    with pytest.raises(RefusedError, match="first registered as prod"):
        steward.register(file, state=place, dev=True)
    with pytest.raises(RefusedError, match="dev datasets only"):
        steward.truth(place, connect_query(file), clinic.catalog())


def connect_query(file: Path):
    return connect(file).bind("SELECT COUNT(*) FROM visits").queries[0]


def test_registration_within_little_memory_gives_the_same_copy(tmp_path):
    (tmp_path / "clinic.yaml").write_text(clinic.CATALOG)
    clinic.write_csv(
        tmp_path / "visits.csv", [clinic.row(f"v{i}", f"p{i % 9}", cost=str(i)) for i in range(400)]
    )
    found = []
    for version, memory in enumerate((None, "200MB"), 1):
        assert steward.register(tmp_path / "clinic.yaml", memory=memory).version == version
        copy = State.beside(tmp_path / "clinic.yaml").version(version) / "data.duckdb"
        with duckdb.connect(str(copy), read_only=True) as connection:
            found.append(
                connection.execute(
                    "SELECT * EXCLUDE (dither_unit) FROM visits ORDER BY ALL"
                ).fetchall()
            )
    assert found[0] == found[1]
    with pytest.raises(DitherError, match="512MB"):
        steward.register(tmp_path / "clinic.yaml", memory="'; --")
