"""The access log: appended, chained, rotated, and without durations."""

from __future__ import annotations

import sqlite3
import stat
from dataclasses import fields

import pytest

from dither.errors import DitherError, ParameterError
from dither.identity import Access, AccessLog
from dither.identity.access_log import GENESIS, check_entries, read_lines

TIME = "2026-03-01T12:00:00+00:00"


@pytest.fixture
def log(tmp_path):
    opened = AccessLog(tmp_path / "home")
    yield opened
    opened.close()


def record(log: AccessLog, dataset: str = "clinic", name: str = "alice") -> Access:
    draft = Access(dataset, 0, TIME, name, "t", "release", "total", "a" * 64, "b" * 16)
    return log.record(draft)


def test_entries_follow_each_other_per_dataset(log):
    first = record(log)
    record(log, "shop")
    second = record(log)
    assert (first.seq, second.seq) == (1, 2) and second.previous == first.hash
    assert log.verify("clinic") == 2 and log.verify("shop") == 1
    assert log.read_page("clinic", 2, 10) == (second,)


def test_an_entry_has_no_duration_no_value_and_no_text():
    """The closed list of what the auditor sees."""
    names = {entry.name for entry in fields(Access)}
    assert names == {
        *("dataset", "seq", "time", "principal", "token", "act", "pot"),
        *("question", "release", "previous", "hash"),
    }


def test_entries_can_be_neither_changed_nor_removed(log, tmp_path):
    record(log)
    raw = sqlite3.connect(tmp_path / "home" / "curator.sqlite")
    for statement in ("UPDATE access SET principal = 'eve'", "DELETE FROM access"):
        with pytest.raises(sqlite3.IntegrityError, match="only appended"):
            raw.execute(statement)
    raw.execute("DROP TRIGGER access_stays")
    raw.execute("UPDATE access SET principal = 'eve'")
    raw.commit()
    raw.close()
    with pytest.raises(DitherError, match="changed or removed"):
        log.verify("clinic")


def test_a_rotation_keeps_the_link(log, tmp_path):
    file = tmp_path / "old.jsonl"
    for name in ("alice", "bob", "carol"):
        record(log, name=name)
    record(log, "shop")
    assert log.rotate("clinic", file) == 3
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert log.read_page("clinic", 0, 10) == () and log.count_entries("clinic") == 3
    after = record(log, name="dan")
    rotated = read_lines(file.read_text())
    assert after.seq == 4 and after.previous == rotated[-1].hash
    assert check_entries([*rotated, after], 0, GENESIS) == after.hash
    assert log.verify("clinic") == 1 and log.verify("shop") == 1
    with pytest.raises(DitherError, match="changed or removed"):
        check_entries([*rotated[:-1], after], 0, GENESIS)
    with pytest.raises(ParameterError, match="exists already"):
        log.rotate("clinic", file)
    assert log.read_page("clinic", 0, 10) == (after,)


def test_an_empty_log_is_not_rotated(log, tmp_path):
    with pytest.raises(ParameterError, match="no entry"):
        log.rotate("clinic", tmp_path / "old.jsonl")
    assert not (tmp_path / "old.jsonl").exists()


@pytest.mark.parametrize("line", ["", "[]", "{}", '{"seq": 1}', "x"])
def test_a_line_that_is_no_entry_is_named(line):
    with pytest.raises(ParameterError, match="line 1"):
        read_lines(line + "\n")
