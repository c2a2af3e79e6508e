"""A carriage return inside a line is a row more to the engine, and hid that a quote had swallowed
another's line."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from dither.catalog import parse
from dither.data.register.owners import RegistrationError
from dither.data.register.registration import write_copy_and_facts
from tests.datasets.one_table import write_catalog
from tests.datasets.owners import OWNERS, hash_owner

CATALOG = parse(write_catalog({"note": "{type: text, width: 9, nulls: keep}"}))
OTHERS = [b"p1,a", b"p2,b", b"p3,c", b'p4,"q,q"', b"p5,e"]


def owners(folder: Path, lines: list[bytes], end: bytes) -> list[str]:
    folder.mkdir()
    (folder / "one.csv").write_bytes(end.join([b"who,note", *lines, b""]))
    target = folder / "data.duckdb"
    write_copy_and_facts(CATALOG, folder, bytes(32), target, folder / "spill", lambda _: None)
    with duckdb.connect(str(target), read_only=True) as connection:
        rows = connection.sql(f"SELECT {OWNERS} FROM one").fetchall()
    names = {hash_owner(f"p{number}", bytes(32)): f"p{number}" for number in range(1, 6)}
    return sorted(names.get(owner, "another") for (owner,) in rows)


@pytest.mark.parametrize(
    ("before", "after", "end"),
    [
        (b'v,\rvv"v,"""\'v,\\x', [], b"\n"),
        (b'v,\r#"\n\x00v,"', [b"", b'""\x00""\\"'], b"\n"),
        (b'v,\r"""\rx\\', [b"v,\xc3''", b"", b'v"', b""], b"\r\n"),
    ],
)
def test_a_return_inside_a_line_cannot_make_up_for_a_swallowed_line(tmp_path, before, after, end):
    """With these lines of `v` beside it, p4 was silently gone: rule rows-read-apart was broken."""
    assert owners(tmp_path / "without", OTHERS, end) == ["p1", "p2", "p3", "p4", "p5"]
    with pytest.raises(RegistrationError, match="carriage return"):
        owners(tmp_path / "within", [*OTHERS[:3], before, OTHERS[3], OTHERS[4], *after], end)


def test_returns_that_end_lines_are_no_returns_inside_them(tmp_path):
    assert owners(tmp_path / "two", OTHERS, b"\r\n") == ["p1", "p2", "p3", "p4", "p5"]


def test_a_return_inside_quotes_is_a_line_break_inside_a_field(tmp_path):
    with pytest.raises(RegistrationError, match="carriage return"):
        owners(tmp_path / "quoted", [*OTHERS, b'v,"1\r2"'], b"\n")


def test_a_line_end_cut_in_two_by_the_reader_is_one(tmp_path):
    """The file is looked through in parts of 2**17 bytes; a part may end between return and line
    feed."""
    from dither.data.register.csv_lines import count_lines

    path = tmp_path / "big.csv"
    for moved in range(3):
        path.write_bytes(b"x" * ((1 << 24) - moved) + b"\r\n" + b"y\r\n")
        assert count_lines(path, '"').lone_returns == 0
        path.write_bytes(b"x" * ((1 << 24) - moved) + b"\ry\r")
        assert count_lines(path, '"').lone_returns == 2
