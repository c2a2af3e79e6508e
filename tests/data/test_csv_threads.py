"""What all threads read in a file without quotes is what one thread reads, or is read again by one.

Planted: a cut inside a line; the engine's own parallel reader, which loses lines at its cuts.
"""

from __future__ import annotations

from random import Random

import duckdb
import pyarrow as pa
import pytest

from dither.catalog import Source, parse
from dither.data.register import csv_threads
from dither.data.register.csv_lines import count_lines
from dither.data.register.csv_source import csv_relation, list_fields
from dither.data.register.csv_threads import open_lines
from tests.case_lists import mark_rest
from tests.datasets import clinic

SOURCE = Source("csv", ".")
TABLE = parse(clinic.CATALOG).table("visits")
FIELDS = [b"", b" ", b"a", b"-1.5", b"north ward", b"\xc3\xa9" * 7, b"x" * 40, b"'", b"#", b"\\"]
ODD_LINES = [b"", b"a", b"a,b,c,d", b"\xff,b,c", b"a,\xed\xa0\x80,c", b"y" * 3000 + b",b,c", b",,"]


def read_alone(file, fields: int) -> list[tuple]:
    """What one thread reads."""
    with duckdb.connect() as engine:
        sql = csv_relation(SOURCE, file, TABLE, fields)
        return sorted(engine.sql(f"FROM {sql}").fetchall(), key=repr)


def read_together(file, fields: int) -> list[tuple] | None:
    """What all threads read; None where the file must be read again by one."""
    lines = count_lines(file, '"')
    assert lines.is_plain and not lines.lone_returns
    try:
        table = open_lines(file, ",", list_fields(fields)).read_all()
    except (pa.ArrowInvalid, ValueError):
        return None
    if table.num_rows != lines.count_rows(fields):
        return None
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return sorted((tuple(field or None for field in row) for row in rows), key=repr)


@pytest.mark.parametrize("seed", mark_rest(range(40), quick=6))
def test_all_threads_read_what_one_reads_or_nothing(tmp_path, monkeypatch, seed):
    random = Random(seed)
    monkeypatch.setattr(csv_threads, "_SLAB_BYTES", random.choice([1, 50, 1000, 1 << 25]))
    monkeypatch.setattr(csv_threads, "_BLOCK_BYTES", random.choice([2000, 1 << 20]))
    fields = random.choice([1, 3, 3])
    has_odd = random.random() < 0.5
    lines = [b",".join(random.choices(FIELDS, k=fields)) for _ in range(random.randrange(200))]
    if has_odd:
        lines.insert(random.randrange(len(lines) + 1), random.choice(ODD_LINES))
    end = random.choice([b"\n", b"\r\n"])
    header = b"\xef\xbb\xbf" * random.randrange(2) + b",".join([b"h"] * fields)
    content = end.join([header, *lines, *[b""] * random.randrange(2)])
    (tmp_path / "t.csv").write_bytes(content)
    together = read_together(tmp_path / "t.csv", fields)
    assert together is None or together == read_alone(tmp_path / "t.csv", fields)
    if not has_odd and fields > 1 and lines:
        assert together is not None


def test_lines_that_are_no_rows_are_left_to_one_thread(tmp_path):
    for odd in ODD_LINES[1:5]:
        (tmp_path / "t.csv").write_bytes(b"h,h,h\n1,2,3\n" + odd + b"\n4,5,6\n")
        assert read_together(tmp_path / "t.csv", 3) is None


@pytest.mark.parametrize("before", [0, 1, 2])
def test_a_byte_order_mark_stays_in_its_row_whatever_stands_before(tmp_path, monkeypatch, before):
    monkeypatch.setattr(csv_threads, "_SLAB_BYTES", 5)
    rows = b"a,b,c\n" * before + b"\xef\xbb\xbf7,b,c\n"
    (tmp_path / "t.csv").write_bytes(b"h,h,h\n" + rows)
    assert read_together(tmp_path / "t.csv", 3) is None
    assert ("\ufeff7", "b", "c") in read_alone(tmp_path / "t.csv", 3)


def test_planted_bug_a_cut_inside_a_line_is_caught(tmp_path, monkeypatch):
    (tmp_path / "t.csv").write_bytes(b"h,h,h\n" + b"ab,cd,ef\n" * 50)
    assert read_together(tmp_path / "t.csv", 3) == read_alone(tmp_path / "t.csv", 3)

    def cut_anywhere(path):
        content = path.read_bytes()[6:]
        yield content[:100]
        yield content[100:]

    monkeypatch.setattr(csv_threads, "_cut_lines", cut_anywhere)
    assert read_together(tmp_path / "t.csv", 3) is None


def test_the_engines_own_parallel_reader_loses_lines_at_its_cuts(tmp_path):
    """Why it is not used: were this to pass one day, the engine could read alone."""
    random = Random(1)
    lines = [",".join(random.choices(["a", ""], k=5)) for _ in range(20_000)]
    (tmp_path / "t.csv").write_text("\n".join(["a,b,c,d,e", *lines, ""]))
    cut = "parallel = true, max_line_size = 1000, buffer_size = 2003"
    sql = csv_relation(SOURCE, tmp_path / "t.csv", TABLE, 5).replace("parallel = false", cut)
    with duckdb.connect(config={"threads": 4}) as engine:
        ((rows,),) = engine.execute(f"SELECT count(*) FROM {sql}").fetchall()
    assert rows < len(lines)
