"""Lines of a CSV file are counted in pieces of any size as a reader of lines counts them."""

from __future__ import annotations

import random

import pytest

from dither.data.register import csv_lines
from tests.case_lists import mark_between


@pytest.mark.parametrize("size", mark_between([1, 2, 3, 7, 1 << 24], step=2))
def test_pieces_count_what_a_reader_of_lines_counts(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_lines, "_CHUNK_BYTES", size)
    draw, file = random.Random(size), tmp_path / "t.csv"
    for _ in range(300):
        content = b"".join(draw.choices([b"\n", b"\r\n", b"a", b"b,c"], k=draw.randrange(9)))
        file.write_bytes(content)
        lines = content.splitlines()
        counts = csv_lines.count_lines(file, '"')
        assert counts.lines == len(lines)
        assert counts.lines - counts.blank_lines == sum(1 for line in lines if line)
        assert counts.lone_returns == 0


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 24])
def test_returns_inside_a_line_are_seen_wherever_a_piece_ends(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_lines, "_CHUNK_BYTES", size)
    for content in (b"a\rb\n", b"\r", b"a\n\r", b"ab\r\r\n", b"a\r\nb\rc\r\n"):
        (tmp_path / "t.csv").write_bytes(content)
        assert csv_lines.count_lines(tmp_path / "t.csv", '"').lone_returns > 0


@pytest.mark.parametrize("size", [1, 2, 1 << 24])
def test_quotes_are_seen_wherever_they_stand(tmp_path, monkeypatch, size):
    monkeypatch.setattr(csv_lines, "_CHUNK_BYTES", size)
    for content, quote, is_plain in [
        (b"a,'b'\r\n\r\nc,d\n", '"', True),
        (b"a,'b'\r\n\r\nc,d\n", "'", False),
        (b'a\r\nb\r\n"', '"', False),
        (b"a\r\nb\0\n", '"', False),
    ]:
        (tmp_path / "t.csv").write_bytes(content)
        assert csv_lines.count_lines(tmp_path / "t.csv", quote).is_plain == is_plain
