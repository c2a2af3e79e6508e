"""CSV as the catalog says it is written: its header, its rows, and a field as text.

The options are the catalog's, so how a field is read is decided before anybody looks at the file.
Fields are found by their position in the header, whose names may be any texts.
"""

from __future__ import annotations

import csv
from pathlib import Path

from dither.catalog import Source, Table
from dither.data.quoting import name, text
from dither.data.register.source_types import SourceError

_BLANKS = " \t"
_MOST_HEADER_BYTES = 1 << 20


def read_header(path: Path, source: Source) -> list[str]:
    """Read the names in a CSV file's first line.

    Not a byte after that line is read. Raises SourceError where it cannot be read.
    """
    if set("*?[") & set(str(path)):
        raise SourceError(f"{path} holds a wildcard: name one file")
    try:
        with path.open("rb", buffering=0) as file:
            line = file.readline(_MOST_HEADER_BYTES).decode("utf-8-sig")
        reader = csv.reader(
            [line],
            delimiter=source.delimiter,
            quotechar=source.quote,
            skipinitialspace=source.trim,
        )
        names = next(reader, [])
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise SourceError(f"cannot read {path}: {type(error).__name__}") from None
    return [column.strip(_BLANKS) for column in names] if source.trim else names


def csv_relation(source: Source, path: Path, table: Table, fields: int) -> str:
    """Write SQL of the lines of a file with so many fields each.

    Lines that are no CSV are set aside.
    """
    columns = "{" + ", ".join(f"'{column}': 'VARCHAR'" for column in list_fields(fields)) + "}"
    return (
        f"read_csv({text(str(path))}, auto_detect = false, header = true, "
        f"delim = {text(source.delimiter)}, quote = {text(source.quote)}, "
        f"escape = {text(source.quote)}, nullstr = '', columns = {columns}, ignore_errors = true, "
        f"store_rejects = true, rejects_limit = 0, rejects_table = {text(rejects_table(table))}, "
        f"rejects_scan = {text(rejects_table(table) + '_scans')}, parallel = false, "
        f"hive_partitioning = false)"
    )


def csv_text(source: Source, index: int) -> str:
    """Write SQL of one field as text; null where it is one of the texts that stand for a null."""
    value = name(_field(index))
    if source.trim:
        value = f"trim({value}, {text(_BLANKS)})"
    for null_text in source.null_texts:
        value = f"NULLIF({value}, {text(null_text)})"
    return value


def rejects_table(table: Table) -> str:
    """The name of the engine's table of lines that are no CSV."""
    return f"dither_rejects_{table.name}"


def list_fields(fields: int) -> list[str]:
    """List the names under which the fields of a line are read."""
    return [_field(index) for index in range(fields)]


def _field(index: int) -> str:
    return f"dither_field_{index}"
