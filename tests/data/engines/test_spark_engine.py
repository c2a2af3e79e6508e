"""Spark: differences of its dialect, each shown and made up for; exact sums; cancel; lost files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from shutil import copytree
from typing import Any

import pytest

from dither.data.engines.spark.dialect import SPARK
from dither.data.engines.spark.tables import MANIFEST, digest_file, open_tables
from dither.data.measure import MeasureError
from dither.data.register.spark.copy import list_problems
from dither.errors import RefusedError
from tests.data.engines.twins import on_engine
from tests.datasets import clinic, hospital


class TestWidths:
    """What needs more than 38 digits is refused by the catalog alone; no Spark runs here."""

    def test_sums(self):
        assert SPARK.sum("x", 2**20) == "sum(CAST(x AS BIGINT))"
        assert SPARK.sum("x", 10**27) == "sum(CAST(x AS DECIMAL(28, 0)))"
        with pytest.raises(RefusedError, match="more than 38 digits"):
            SPARK.sum("x", 10**28)

    def test_quotients(self):
        assert SPARK.divide("a", "b", 10) == "a div b"
        assert "DECIMAL(38, 0)" in SPARK.divide("a", "b", 10**30)
        with pytest.raises(RefusedError, match="more than 38 digits"):
            SPARK.divide("a", "b", 10**31)

    def test_columns(self):
        assert list_problems(clinic.catalog()) == []
        wide = clinic.catalog(**{"[-10, 500]": f"[-10, {5 * 10**16}]"})
        assert "visits.cost" in list_problems(wide)[0]


@pytest.fixture(scope="module")
def both() -> Iterator[hospital.Registered]:
    with (
        hospital.registered(hospital.random_people(20)) as first,
        on_engine(first, "spark", "") as other,
    ):
        yield other


@pytest.fixture(scope="module")
def ask(both) -> Any:
    return lambda sql: both.fetch(f"SELECT {sql}")[1][0][0]


@pytest.mark.all
def test_ansi_mode_is_what_keeps_sums_exact(both, ask):
    """Off, a long sum wraps silently and a decimal becomes null; on, both raise."""
    session = both.measurer.engine.session
    largest = 2**63 - 1
    wraps = f"SELECT sum(x) FROM (SELECT {largest} AS x UNION ALL SELECT {largest})"
    digits = "CAST('" + "9" * 38 + "' AS DECIMAL(38, 0))"
    overflows = f"SELECT sum(x) FROM (SELECT {digits} AS x UNION ALL SELECT {digits})"
    session.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert session.sql(wraps).collect()[0][0] == -2
        assert session.sql(overflows).collect()[0][0] is None
    finally:
        session.conf.set("spark.sql.ansi.enabled", "true")
    for sql in (wraps, overflows):
        with pytest.raises(MeasureError):
            both.measurer.engine.fetch_rows(sql)
    wide = wraps.replace("sum(x)", SPARK.sum("x", largest))
    assert both.measurer.engine.fetch_rows(wide) == [(2 * largest,)]


@pytest.mark.all
def test_words_that_mean_something_else(ask):
    assert isinstance(ask("sign(5)"), float)  # so a CASE is written
    assert ask("concat('a', NULL)") is None  # so no field of a digest is null
    assert ask("array_position(array('a'), 'b')") == 0  # so 0 becomes null
    assert ask(r"'a\\b'") == "a\\b" and ask(SPARK.text("a\\\\b")) == "a\\\\b"
    assert ask(SPARK.text("it's")) == "it's"
    # a line's end is no part of a number
    line = SPARK.text("12\n")
    assert ask(f"{line} RLIKE '^[0-9]+$'") and not ask(SPARK.full_match(line, "[0-9]+"))
    assert ask("(-7) div 2") == -3 and ask("(-7) % 2") == -1
    assert ask(SPARK.divide("CAST(-7 AS DECIMAL(38, 0))", "2", 2**63)) == -3


@pytest.mark.all
def test_cancel_ends_a_statement(both):
    engine = both.measurer.engine
    slow = "SELECT sum(a.id * b.id % 7) FROM range(10000000) a CROSS JOIN range(1000000) b"
    over = threading.Event()

    def stop() -> None:
        while not over.wait(1):
            engine.interrupt()

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        with pytest.raises(MeasureError, match="engine failed"):
            engine.fetch_rows(slow)
    finally:
        over.set()
        thread.join()
    assert engine.fetch_rows("SELECT 1") == [(1,)]


@pytest.mark.all
def test_cancel_ends_no_statement_of_another_session(both):
    """Another engine of the same application goes on while this one is cancelled."""
    engine = both.measurer.engine
    other = engine._open()
    answers: list[Any] = []
    long = "SELECT sum(a.id * b.id % 7) AS s FROM range(20000) a CROSS JOIN range(20000) b"
    thread = threading.Thread(target=lambda: answers.append(other.sql(long).toArrow()))
    thread.start()
    while thread.is_alive():
        engine.interrupt()
        thread.join(0.2)
    assert answers and answers[0].num_rows == 1


@pytest.mark.all
def test_a_copy_without_one_of_its_files_is_not_opened(both):
    """Without a file the copy would answer without some people."""
    engine = both.measurer.engine
    folder: Path = engine._folder
    file = next((folder / "visits").glob("*.parquet"))
    content = file.read_bytes()
    file.unlink()
    try:
        with pytest.raises(MeasureError, match="register again"):
            engine.check()
    finally:
        file.write_bytes(content)
    assert (folder / MANIFEST).exists()
    open_tables(engine.session, folder)


@pytest.mark.all
def test_a_copy_with_other_content_of_the_same_size_is_not_opened(both):
    """The manifest has the digest of every file: a size alone would not tell."""
    engine = both.measurer.engine
    folder: Path = engine._folder
    file = next((folder / "visits").glob("*.parquet"))
    content = file.read_bytes()
    middle = len(content) // 2
    file.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    try:
        with pytest.raises(MeasureError, match="register again"):
            engine.check()
    finally:
        file.write_bytes(content)
    engine.check()


@pytest.mark.all
def test_a_copy_of_an_earlier_release_has_sizes_alone(both, tmp_path):
    engine = both.measurer.engine
    old = tmp_path / "spark"
    copytree(engine._folder, old)
    manifest = json.loads((old / MANIFEST).read_text())
    for described in manifest["tables"].values():
        assert described.pop("digests").keys() == described["files"].keys()
    (old / MANIFEST).write_text(json.dumps(manifest))
    open_tables(engine.session, old)
    open_tables(engine.session, engine._folder)


def test_a_file_is_digested_again_only_where_it_changed(tmp_path, monkeypatch):
    file = tmp_path / "rows.parquet"
    file.write_bytes(b"abc")
    first = digest_file(file)
    assert first == hashlib.sha256(b"abc").hexdigest()
    read = []
    honest = hashlib.file_digest
    monkeypatch.setattr(hashlib, "file_digest", lambda *a: read.append(1) or honest(*a))
    assert digest_file(file) == first and not read
    file.write_bytes(b"abd")
    assert digest_file(file) == hashlib.sha256(b"abd").hexdigest() and read
