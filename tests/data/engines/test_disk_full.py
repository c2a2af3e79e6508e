"""A disk that is full: registration leaves the version in use, a question has the constant answer.

The limits are real ones of the system and of the server, so every write beyond them fails.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from dither import connect, steward
from dither.data.engines.postgres import engine as postgres_engine
from dither.errors import DitherError, UnavailableError
from tests.data.engines.test_postgres_failures import Site, count_runs
from tests.datasets import clinic
from tests.postgres_server import running_server

COUNT = "SELECT COUNT(*) AS n FROM visits"
PEOPLE = "SELECT COUNT(DISTINCT patient) AS n FROM visits"
_MOST_BYTES = 400_000


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file of this process grows beyond `size` bytes: the write fails, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def write_visits(folder: Path, rows: int) -> None:
    visits = [clinic.row(f"v{i}", f"p{i}", cost=str(i % 400)) for i in range(rows)]
    clinic.write_csv(folder / "visits.csv", visits)


def test_registration_on_a_full_disk_leaves_the_version_in_use(tmp_path):
    text = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 100000")
    file, state = clinic.register(tmp_path, [clinic.row("v", "p")], text)
    clinic.open_total(state)
    write_visits(tmp_path, 20_000)
    with limited_files(_MOST_BYTES), pytest.raises(DitherError) as caught:
        steward.register(file, state=state)
    assert "p19" not in str(caught.value)  # the engine's words quote no row
    assert [path.name for path in state.versions.iterdir()] == [state.version(1).name]
    assert connect(file).sql(COUNT, epsilon="0.1").to_arrow(intervals=False).num_rows == 1
    assert steward.register(file, state=state).version == 2


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server with 20,000 people, whose statements keep so little in memory that they spill."""
    planning = {**postgres_engine._PLANNING, "work_mem": "64kB"}
    monkeypatch.setattr(postgres_engine, "_PLANNING", planning)
    more = clinic.CATALOG.replace("max_rows: 1000", "max_rows: 100000")
    monkeypatch.setattr(clinic, "CATALOG", more)
    with running_server() as server:
        site = Site(server, tmp_path, people=20_000)
        yield site


@pytest.mark.all
def test_a_statement_that_fills_the_servers_disk_has_the_constant_response(
    crowded: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    con = connect(crowded.file)
    con.sql(COUNT, epsilon="0.1")
    spent = crowded.spent()
    with psycopg.connect(crowded.location, autocommit=True) as connection:
        connection.execute("ALTER ROLE CURRENT_USER SET temp_file_limit = 0")
    limited = connect(crowded.file)
    with monkeypatch.context() as patch:
        runs = count_runs(patch)
        with pytest.raises(UnavailableError) as caught:
            limited.sql(PEOPLE, epsilon="0.1")
    assert len(runs) == 3  # at most two re-runs
    assert crowded.spent() == spent * 2  # charged
    assert str(caught.value) == str(UnavailableError())  # nothing of the server's words
    assert caught.value.__cause__ is None
