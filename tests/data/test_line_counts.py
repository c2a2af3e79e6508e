"""Lines of a CSV file are counted in pieces of any size as a reader of lines counts them."""

from __future__ import annotations

import random

import pytest

from dither.data.register import sources
from tests.case_lists import mark_between


@pytest.mark.parametrize("size", mark_between([1, 2, 3, 7, 1 << 24], step=2))
def test_pieces_count_what_a_reader_of_lines_counts(tmp_path, monkeypatch, size):
    monkeypatch.setattr(sources, "_CHUNK_BYTES", size)
    draw, file = random.Random(size), tmp_path / "t.csv"
    for _ in range(300):
        content = b"".join(draw.choices([b"\n", b"\r\n", b"a", b"b,c"], k=draw.randrange(9)))
        file.write_bytes(content)
        lines = content.splitlines()
        assert sources._count_lines(file, blank=True) == len(lines)
        assert sources._count_lines(file, blank=False) == sum(1 for line in lines if line)
        assert sources._count_lone_returns(file) == 0


@pytest.mark.parametrize("size", [1, 2, 3, 1 << 24])
def test_returns_inside_a_line_are_seen_wherever_a_piece_ends(tmp_path, monkeypatch, size):
    monkeypatch.setattr(sources, "_CHUNK_BYTES", size)
    for content in (b"a\rb\n", b"\r", b"a\n\r", b"ab\r\r\n", b"a\r\nb\rc\r\n"):
        (tmp_path / "t.csv").write_bytes(content)
        assert sources._count_lone_returns(tmp_path / "t.csv") > 0
