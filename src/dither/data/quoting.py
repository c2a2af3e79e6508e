"""Identifiers and text constants as SQL, the same for every engine that reads standard quotes."""

from __future__ import annotations


def name(identifier: str) -> str:
    """An identifier, quoted."""
    return '"' + identifier.replace('"', '""') + '"'


def text(value: str) -> str:
    """A text constant, quoted."""
    return "'" + value.replace("'", "''") + "'"
