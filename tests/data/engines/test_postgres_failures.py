"""A lost server: free before the charge, one constant response after it, at most two re-runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dither import connect, steward
from dither.data.engines.postgres.engine import PostgresEngine
from dither.data.measure import MeasureError
from dither.errors import DitherError, RefusedError, UnavailableError
from dither.state import State
from tests.data.engines.test_postgres_source import make_table
from tests.datasets import clinic
from tests.postgres_server import running_server

COUNT = "SELECT COUNT(*) AS n FROM visits"
SUM = "SELECT SUM(cost) AS s FROM visits"


class Site:
    """A clinic registered in a server that a test may stop."""

    def __init__(self, server: Any, folder: Path, people: int = 50) -> None:
        self.server = server
        self.location = server.get_uri()
        rows = [clinic.row(f"v{i}", f"p{i}") for i in range(people)]
        make_table(self.location, "visits", rows)
        self.file = folder / "clinic.yaml"
        line = f'source: {{engine: postgres, location: "{self.location}"}}'
        self.file.write_text(clinic.CATALOG.replace("source: {engine: csv, location: .}", line))
        self.state = State.beside(self.file)
        steward.register(self.file)
        clinic.open_total(self.state)

    def stop(self) -> None:
        import pgserver

        stopped = {"pgdata": self.server.pgdata, "user": self.server.system_user}
        pgserver.pg_ctl(["-m", "immediate", "-w", "stop"], **stopped)

    def start(self) -> None:
        self.server.ensure_postgres_running()

    def spent(self) -> Any:
        ledger = steward.open_ledger(self.state)
        try:
            return ledger.pot("total").spent
        finally:
            ledger.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with running_server() as server:
        yield Site(server, tmp_path)


def count_runs(patch: pytest.MonkeyPatch, before: Any = lambda: None) -> list[int]:
    """Count the statements that reach the server after the charge; `before` is called first."""
    runs: list[int] = []
    fetch = PostgresEngine._fetch

    def counted(self: PostgresEngine, run: str) -> Any:
        runs.append(1)
        before()
        return fetch(self, run)

    patch.setattr(PostgresEngine, "_fetch", counted)
    return runs


def test_before_during_and_after(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    con = connect(site.file)
    con.sql(COUNT, epsilon="0.1")
    spent = site.spent()
    site.stop()  # before: nothing is charged, whether or not the statement was compiled
    for sql in (SUM, "SELECT COUNT(*) AS n FROM visits WHERE age > 3"):
        with pytest.raises(DitherError, match="cannot be reached"):
            con.sql(sql, epsilon="0.1")
    assert site.spent() == spent
    site.start()  # after: the kept connection is lost, and opened again before the charge
    con.sql(SUM, epsilon="0.1")
    with monkeypatch.context() as patch:  # during: charged, three runs, one constant response
        runs = count_runs(patch, site.stop)
        with pytest.raises(UnavailableError) as caught:
            con.sql("SELECT SUM(age) AS s FROM visits", epsilon="0.1")
    assert len(runs) == 3
    assert "server" not in str(caught.value) and caught.value.__cause__ is None
    site.start()
    assert site.spent() == spent * 3


def test_a_connection_cut_once_is_made_up_for_by_a_second_run(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect(site.file)
    cuts: list[int] = []

    def cut() -> None:
        if not cuts:
            cuts.append(1)
            with psycopg.connect(site.location, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name = 'dither'"
                )

    runs = count_runs(monkeypatch, cut)
    assert con.sql(COUNT, epsilon="0.1").to_arrow(intervals=False).num_rows == 1
    assert len(runs) == 2


@pytest.mark.all
def test_cancel_and_time_limits_end_a_statement(site: Site, monkeypatch) -> None:
    con = connect(site.file)
    engine = con._kernel.connect(con._kernel.version).engine
    timer = threading.Timer(0.3, engine.interrupt)
    timer.start()
    with pytest.raises(MeasureError, match="engine failed"):
        engine.fetch_rows("SELECT count(*) FROM (SELECT pg_sleep(30)) AS slow")
    timer.join()
    assert engine.fetch_rows("SELECT 1") == [(1,)]
    monkeypatch.setenv("DITHER_STATEMENT_TIMEOUT", "1")
    limited = con._kernel.connect(con._kernel.version).engine
    with pytest.raises(MeasureError):
        limited.fetch_rows("SELECT count(*) FROM (SELECT pg_sleep(30)) AS slow")


def test_nothing_is_written_and_rows_do_not_leave(site: Site) -> None:
    con = connect(site.file)
    measurer = con._kernel.connect(con._kernel.version)
    with pytest.raises(MeasureError):
        measurer.engine.fetch_rows("DELETE FROM visits")
    with pytest.raises(MeasureError):
        list(measurer.engine.stream("SELECT 1", 10))
    with pytest.raises(RefusedError, match="rows never leave the engine postgres"):
        measurer._check_vectors()


@pytest.mark.all
def test_a_registration_replaces_what_a_killed_one_left(site: Site) -> None:
    """The schema is named by installation and version, and written in one transaction."""
    label = f"dither_{site.state.installation_id()}_0002"
    with psycopg.connect(site.location, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{label}"')
        connection.execute(f'CREATE TABLE "{label}".visits (leftover text)')
    steward.register(site.file)
    assert connect(site.file).sql(COUNT, epsilon="0.1").to_arrow(intervals=False).num_rows == 1
    assert not (site.state.version(2) / "data.duckdb").exists()


@pytest.mark.all
def test_a_copy_that_is_gone_is_a_free_error(site: Site) -> None:
    con = connect(site.file)
    con.sql(COUNT, epsilon="0.1")
    spent = site.spent()
    label = f"dither_{site.state.installation_id()}_0001"
    with psycopg.connect(site.location, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{label}" CASCADE')
    with pytest.raises(DitherError, match="register again"):
        con.sql(SUM, epsilon="0.1")
    assert site.spent() == spent
