"""Identifiers and text constants as SQL, the same for every engine that reads standard quotes."""

from __future__ import annotations

FILE_ENDINGS = (".csv", ".parquet", ".pq")


def name(identifier: str) -> str:
    """An identifier, quoted."""
    return '"' + identifier.replace('"', '""') + '"'


def table(source_name: str) -> str:
    """A table of a server, perhaps with its schema, as a catalog names it.

    A catalog that named files names the tables of their stems, so that one line changes the engine.

    >>> table("visits.csv"), table("ward.visits")
    ('"visits"', '"ward"."visits"')
    """
    stem = next((source_name[: -len(end)] for end in FILE_ENDINGS if source_name.endswith(end)), "")
    return ".".join(map(name, (stem or source_name).split(".", 1)))


def text(value: str) -> str:
    """A text constant, quoted."""
    return "'" + value.replace("'", "''") + "'"
