"""A CSV file without quotes, read by all threads.

Without quotes a line feed ends a row and a delimiter a field, whatever stands before it: the file
is cut at line feeds, and Arrow reads the cuts side by side. DuckDB's own parallel reader does not
serve: at its cuts it loses lines, some of them silently. Whatever Arrow does not take as a row
raises, and the file is then read by one thread as any other file: a line with too few fields or too
many, bytes that are no text, a very long line, a byte order mark where a cut begins.
"""

from __future__ import annotations

import mmap
from codecs import BOM_UTF8
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv

_SLAB_BYTES = 1 << 25
_BLOCK_BYTES = 1 << 20
"""Arrow refuses lines longer than a block; the reader by one thread takes twice that length."""


def open_lines(path: Path, delimiter: str, names: list[str]) -> pa.RecordBatchReader:
    """Open a reader of the lines after the first, their fields as texts, empty ones as nulls."""
    schema = pa.schema([(column, pa.string()) for column in names])
    return pa.RecordBatchReader.from_batches(schema, _read_lines(path, delimiter, schema))


def _read_lines(path: Path, delimiter: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    reading = pacsv.ReadOptions(column_names=schema.names, block_size=_BLOCK_BYTES)
    parsing = pacsv.ParseOptions(
        delimiter=delimiter,
        quote_char=False,
        double_quote=False,
        escape_char=False,
        newlines_in_values=False,
        # a blank line is a row of one empty field, and no row of several
        ignore_empty_lines=len(schema.names) > 1,
    )
    converting = pacsv.ConvertOptions(
        column_types=schema, strings_can_be_null=True, null_values=[""], check_utf8=True
    )
    for slab in _cut_lines(path):
        table = pacsv.read_csv(pa.BufferReader(slab), reading, parsing, converting)
        yield from table.to_batches()


def _cut_lines(path: Path) -> Iterator[bytes]:
    """Cut the lines after the first into slabs of whole lines."""
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.find(b"\n") + 1 or len(content)
        while start < len(content):
            stop = start + _SLAB_BYTES
            stop = (content.find(b"\n", stop) + 1 or len(content)) if stop < len(content) else stop
            slab = content[start:stop]
            if not slab.strip(b"\r\n"):
                raise ValueError("a slab of blank lines")
            if slab.startswith(BOM_UTF8):
                # Arrow drops it there, and where a slab begins follows from the rows before it
                raise ValueError("a slab that begins with a byte order mark")
            yield slab
            start = stop
