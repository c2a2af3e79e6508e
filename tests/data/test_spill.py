"""Spilled rows: encrypted, in a folder that nobody else can read, and gone when their process
is."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

import dither
from dither.catalog import parse
from dither.cli.main import app
from dither.data.engines import duckdb as engine
from dither.data.engines import scratch
from dither.data.measure import MeasureError, Measurer
from dither.data.register import connections
from dither.data.register.registration import write_copy_and_facts
from dither.errors import DitherError
from dither.plan.algebra import Keys, Scan
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.ledger.reports import Reports
from tests.datasets import clinic
from tests.datasets.one_table import write_catalog

SECRET = "secret-diagnosis"
ROWS = 40_000
NOTES = write_catalog(
    {"note": "{type: category, values: undeclared, width: 500, nulls: drop}"},
    name="notes",
    owner="patient",
    engine="parquet",
    rows_per_unit=1,
    max_rows=1_000_000,
)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, object, object]:
    """A registered table in which every person has a text of their own."""
    folder = tmp_path_factory.mktemp("notes")
    with duckdb.connect() as connection:
        text = (
            f"concat('{SECRET}-', sha256(CAST(i AS VARCHAR)), repeat(sha256(CAST(-i AS "
            "VARCHAR)), 6))"
        )
        rows = f"SELECT CAST(i AS VARCHAR) AS patient, {text} AS note FROM range({ROWS}) r(i)"
        connection.execute(f"COPY ({rows}) TO '{folder / 'notes.parquet'}' (FORMAT parquet)")
    catalog = parse(NOTES)
    copy = folder / "data.duckdb"
    (folder / "spill").mkdir()
    _, facts = write_copy_and_facts(
        catalog, folder, clinic.KEY, copy, folder / "spill", lambda _: None
    )
    return copy, catalog, facts


def read_spilled(folder: Path) -> bytes:
    """The bytes of every file that the engine has spilled below a folder."""
    return b"".join(file.read_bytes() for file in folder.rglob("duckdb_temp*"))


@contextmanager
def half_read_question(measurer: Measurer) -> Iterator[None]:
    """A question whose groups are made and whose answer is not read yet: what was spilled is
    there."""
    sql = measurer.prepare(Keys(Scan("notes"), ("note",)))
    reader = measurer.engine.connection.sql(sql).to_arrow_reader(1000)
    reader.read_next_batch()
    yield
    reader.close()


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DITHER_MEMORY", "22MB")
    monkeypatch.setenv("DITHER_THREADS", "1")


@pytest.mark.usefixtures("little_memory")
class TestQuestions:
    def test_a_question_beyond_memory_spills_encrypted_into_a_private_folder(self, notes, tmp_path):
        """Before, 21,252 private texts could be read in files of mode 0644."""
        measurer = Measurer(*notes, scratch=tmp_path / "scratch")
        with half_read_question(measurer):
            spilled = read_spilled(tmp_path)
            (folder,) = {file.parent for file in tmp_path.rglob("duckdb_temp*")}
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert len(spilled) > 1 << 20
        assert SECRET.encode() not in spilled
        assert len(measurer.measure(Keys(Scan("notes"), ("note",)))) == ROWS
        measurer.close()
        assert not list(tmp_path.rglob("duckdb_temp*"))

    def test_the_same_rows_in_plain_would_have_been_seen(self, notes, tmp_path, monkeypatch):
        """The test above finds texts where encryption is off."""
        honest = duckdb.connect

        def connect_in_plain(path, *, config=None, **options):
            changed = {**(config or {}), "temp_file_encryption": "false"}
            return honest(path, config=changed, **options)

        monkeypatch.setattr(engine.duckdb, "connect", connect_in_plain)
        measurer = Measurer(*notes, scratch=tmp_path / "scratch")
        with half_read_question(measurer):
            assert read_spilled(tmp_path).count(SECRET.encode()) > 1000
        measurer.close()

    def test_without_a_way_to_encrypt_nothing_is_spilled(self, notes, tmp_path, monkeypatch):
        """As where OpenSSL was promised and is not there: the question fails, and no row is on
        disk."""
        monkeypatch.setattr(engine, "CRYPTOGRAPHY", "json")  # an extension that encrypts nothing
        engine._can_load_cryptography.cache_clear()
        try:
            measurer = Measurer(*notes, scratch=tmp_path / "scratch")
            with pytest.raises(MeasureError, match="engine failed"):
                measurer.measure(Keys(Scan("notes"), ("note",)))
            assert read_spilled(tmp_path) == b""
            measurer.close()
        finally:
            engine._can_load_cryptography.cache_clear()


def settings_of(connection: duckdb.DuckDBPyConnection, *names: str) -> list[object]:
    shown = ", ".join(f"current_setting('{name}')" for name in names)
    return list(connection.execute(f"SELECT {shown}").fetchone())


def make_database(folder: Path) -> Path:
    file = folder / "data.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE TABLE t AS SELECT * FROM range(10) r(i)")
    return file


class TestSettings:
    @pytest.mark.parametrize("extension", ["json", "no_such_extension"])
    def test_connections_are_locked_with_and_without_openssl(
        self, tmp_path, monkeypatch, extension
    ):
        monkeypatch.setattr(engine, "CRYPTOGRAPHY", extension)
        engine._can_load_cryptography.cache_clear()
        file = make_database(tmp_path)
        names = ("enable_external_access", "lock_configuration", "temp_file_encryption")
        try:
            opened = [engine.open_registered(file) for _ in range(2)]
            for connection in opened:
                assert settings_of(connection, *names) == [False, True, True]
                with pytest.raises(duckdb.Error):
                    connection.execute("SET temp_file_encryption = false")
                with pytest.raises(duckdb.Error):
                    connection.execute(f"COPY t TO '{tmp_path / 'out.csv'}'")
            for connection in opened:
                connection.close()
        finally:
            engine._can_load_cryptography.cache_clear()

    def test_reading_a_schema_spills_nowhere(self):
        """DuckDB's default is a folder in whichever folder the process runs."""
        with connections.open_for_schema() as connection:
            assert settings_of(connection, "temp_directory") == [""]

    def test_memory_and_threads_are_those_of_the_environment(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DITHER_MEMORY", "500MB")
        monkeypatch.setenv("DITHER_THREADS", "3")
        file = make_database(tmp_path)
        for connection in (
            engine.open_registered(file),
            connections.open_for_registration(tmp_path / "new.duckdb", tmp_path / "spill"),
        ):
            limits = settings_of(connection, "memory_limit", "threads")
            connection.close()
            assert limits == ["381.4 MiB", 3]  # four fifths of 500 MB

    def test_what_is_no_limit_is_refused_before_anything_is_charged(self, tmp_path, monkeypatch):
        file, place = clinic.register(tmp_path, [clinic.row("v", "p")])
        clinic.open_total(place)
        con = dither.connect(file)
        for name, value in (
            ("DITHER_MEMORY", "lots"),
            ("DITHER_THREADS", "0"),
            ("DITHER_THREADS", "2.5"),
        ):
            with (
                monkeypatch.context() as patch,
                pytest.raises(DitherError, match=r"512MB|whole number"),
            ):
                patch.setenv(name, value)
                con.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
        assert [pot.spent for pot in Reports.from_ledger(con._kernel.ledger).pots()] == [0]


HOLD = """
import sys, time
from pathlib import Path
from dither.data.engines.scratch import claim_folder
folder = claim_folder(Path(sys.argv[1]))
(folder / "duckdb_temp_storage").write_text("rows")
print(folder, flush=True)
sys.stdin.read()
"""


@contextmanager
def other_process(parent: Path) -> Iterator[tuple[subprocess.Popen, Path]]:
    """A process that holds a scratch folder with a file in it."""
    command = [sys.executable, "-c", HOLD, str(parent)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as process:
        try:
            yield process, Path(process.stdout.readline().strip())
        finally:
            process.kill()


class TestLeftovers:
    def test_what_a_killed_process_left_is_removed_and_a_living_one_keeps_its_files(self, tmp_path):
        with other_process(tmp_path) as (living, kept), other_process(tmp_path) as (killed, left):
            killed.send_signal(signal.SIGKILL)
            killed.wait()
            assert (left / "duckdb_temp_storage").exists()
            own = scratch.claim_folder(tmp_path)
            assert not left.exists()
            assert (kept / "duckdb_temp_storage").exists()
            assert stat.S_IMODE(own.stat().st_mode) == 0o700
            living.communicate("")  # ends by itself
            assert not kept.exists()

    def test_a_process_has_one_folder_and_makes_it_again_when_it_was_taken_away(self, tmp_path):
        folder = scratch.claim_folder(tmp_path)
        assert scratch.claim_folder(tmp_path) == folder
        (folder / scratch.LOCK_NAME).unlink()
        folder.rmdir()
        again = scratch.claim_folder(tmp_path)
        assert again.is_dir()
        scratch.remove_leftovers(tmp_path)
        assert again.is_dir()

    def test_the_folder_goes_with_the_last_measurer(self, tmp_path):
        """So that a process that opens many datasets holds no more files than it uses."""
        measurers = [clinic.measurer(tmp_path / "x", [clinic.row("v", "p")])]
        measurers.append(Measurer(tmp_path / "x" / "data.duckdb", clinic.catalog()))
        parent = tmp_path / "x" / "scratch"
        for measurer in measurers:
            assert [path for path in parent.iterdir() if path.is_dir()]
            measurer.close()
            measurer.close()
        assert not [path for path in parent.iterdir() if path.is_dir()]
        assert parent.absolute() not in scratch._claims

    def test_a_folder_that_cannot_be_written_is_refused_with_the_remedy(self, tmp_path):
        (tmp_path / "scratch").write_text("a file")
        with pytest.raises(DitherError, match="let this account write there"):
            scratch.claim_folder(tmp_path / "scratch")

    def test_opening_a_dataset_removes_what_a_killed_registration_spilled(self, tmp_path):
        _, place = clinic.register(tmp_path / "x", [clinic.row("v", "p")])
        plain = tmp_path / "fast" / f"dither-{place.installation_id()}"
        for folder in (plain, place.spill):
            folder.mkdir(parents=True)
            (folder / "duckdb_temp_storage").write_text("rows")
        place.plain_spill_file.write_bytes(os.fsencode(plain))
        with scratch._hold_lock(place.root / "lock"):  # a registration is running
            Kernel(place).ledger.close()
            assert plain.exists() and place.spill.exists()
        Kernel(place).ledger.close()
        assert not plain.exists() and not place.spill.exists()
        assert not place.plain_spill_file.exists()

    @pytest.mark.parametrize(
        "content", [b"", b".", b"/", b"precious"], ids=["nothing", "here", "all", "relative"]
    )
    def test_a_damaged_marker_removes_no_folder(self, tmp_path, monkeypatch, content):
        _, place = clinic.register(tmp_path / "x", [clinic.row("v", "p")])
        (tmp_path / "work" / "precious").mkdir(parents=True)
        monkeypatch.chdir(tmp_path / "work")
        place.plain_spill_file.write_bytes(content)
        Kernel(place).ledger.close()
        assert (tmp_path / "work" / "precious").exists() and not place.plain_spill_file.exists()

    def test_a_registration_that_spills_in_plain_says_where_while_it_runs(
        self, tmp_path, monkeypatch
    ):
        """So that the folder is found again, whatever the next registration is told."""
        file, place = clinic.register(tmp_path / "x", [clinic.row("v", "p")])
        (tmp_path / "fast").mkdir()
        named: list[Path] = []
        honest = connections.open_for_registration

        def look(path: Path, spill: Path, *rest: object, **options: bool):
            named.append(Path(os.fsdecode(place.plain_spill_file.read_bytes())))
            assert named == [spill]
            return honest(path, spill, *rest, **options)

        monkeypatch.setattr("dither.data.register.registration.open_for_registration", look)
        arguments = ["register", str(file), "--state", str(place.root), "--spill"]
        done = CliRunner().invoke(app, [*arguments, str(tmp_path / "fast")])
        assert done.exit_code == 0, done.output
        assert named and not place.plain_spill_file.exists()


def test_files_of_the_state_folder_are_for_the_steward_alone(tmp_path):
    file, place = clinic.register(tmp_path, [clinic.row("v", "p")])
    clinic.open_total(place)
    con = dither.connect(file)
    con.sql("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700
    open_files = [
        str(path.relative_to(place.root))
        for path in place.root.rglob("*")
        if path.is_file() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    assert open_files == []
