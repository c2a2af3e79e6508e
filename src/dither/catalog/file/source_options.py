"""Where the rows lie, and how CSV is written there."""

from __future__ import annotations

import re
from typing import Literal

from dither.catalog.file.fields import Fields, Where
from dither.catalog.model import Source

ENGINES: tuple[Literal["csv", "parquet", "duckdb", "postgres", "spark"], ...] = (
    *("csv", "parquet", "duckdb"),
    *("postgres", "spark"),
)
QUOTES = ('"', "'")
A_DELIMITER = "one character such as ';' or '|', or the word tab"
CSV_KEYS = ("delimiter", "quote", "null_texts", "trim")
_SECRET = re.compile(r"password\s*=\s*[^\s&]|://[^/@]*:[^/@]+@", re.IGNORECASE)


def read_source(outer: Fields, file: str) -> Source:
    """Read the key `source` of a catalog."""
    line = outer.line_of("source")
    fields = Fields(Where(file, "source"), outer.node("source"), line, "source")
    engine = fields.choice("engine", ENGINES)
    location = fields.text("location")
    if engine != "postgres":
        fields.forbid("copy", f"the copy of engine {engine} lies in the state folder")
    copy = fields.text("copy") if "copy" in fields else ""
    for key, written in (("location", location), ("copy", copy)):
        if engine == "postgres" and _SECRET.search(written):
            raise fields.error(
                f"{key} holds a password, and a catalog is public: put it into a service file or "
                "a password file (~/.pgpass)",
                key,
            )
    if engine != "csv":
        for key in CSV_KEYS:
            fields.forbid(key, f"it says how CSV is written, and the engine is {engine}")
        return Source(engine, location, copy=copy, line=line)
    usual = Source(engine, location)
    return Source(
        engine,
        location,
        _read_delimiter_key(fields) if "delimiter" in fields else usual.delimiter,
        fields.choice("quote", QUOTES) if "quote" in fields else usual.quote,
        _read_null_texts(fields) if "null_texts" in fields else usual.null_texts,
        fields.boolean("trim") if "trim" in fields else usual.trim,
        line=line,
    )


def read_delimiter(text: str) -> str | None:
    """One printable ASCII character that is no letter, digit or blank; `tab` for a tabulator.

    >>> read_delimiter(";"), read_delimiter("tab"), read_delimiter("ab")
    (';', '\\t', None)
    """
    if text == "tab":
        return "\t"
    usable = len(text) == 1 and text.isascii() and text.isprintable() and not text.isalnum()
    return text if usable and text not in (" ", *QUOTES) else None


def _read_null_texts(fields: Fields) -> tuple[str, ...]:
    """Read the texts that stand for a null. Raises CatalogError for none, or for one twice."""
    nodes = fields.where.read_list(fields.node("null_texts"), "null_texts")
    texts = tuple(fields.where.text(node, "a null text") for node in nodes)
    if len(set(texts)) != len(texts) or not texts:
        raise fields.error("null_texts must list each text once", "null_texts")
    return texts


def _read_delimiter_key(fields: Fields) -> str:
    node = fields.node("delimiter")
    return fields.where.typed(node, "delimiter", read_delimiter, A_DELIMITER)
