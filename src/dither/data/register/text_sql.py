"""SQL of texts that only registration needs, in the dialect that is being written."""

from __future__ import annotations

from dither.data.lower.dialect import dialect
from dither.data.lower.functions.sql import SqlArguments
from dither.plan.domain import Domain

_SPACES = "\t\n\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
_SPACES += "\u2028\u2029\u202f\u205f\u3000"
_NUMBER = "0*([0-9]+)([.]0*)?"
_ALREADY_FOLDED = r"[!-/:-~][!-~]*|[1-9][!-\-/-~]*"
"""Texts of visible ASCII that are no number with zeros around it."""


def find_label(value: str, labels: tuple[str, ...]) -> str:
    """Write the place of a text in a list, from 0; null where it is not in it."""
    listed = tuple(map(dialect().text, labels))
    write = dialect().functions.get("index_in", _find_in_list)
    arguments = SqlArguments("index_in", (), (), (value, *listed))
    return write(arguments, Domain("number", nullable=True, high=len(labels)))


def _find_in_list(arguments: SqlArguments, result: Domain) -> str:
    """Write a search through the list, which is faster than an ENUM where lists are short."""
    value, *listed = arguments.sql
    return f"list_position([{', '.join(listed)}], {value}) - 1"


def fold_spelling(value: str) -> str:
    """Write a text without any kind of space; a number also without zeros around it."""
    bare = f"translate({value}, {dialect().text(_SPACES)}, '')"
    number = f"regexp_extract({bare}, {dialect().text(_NUMBER)}, 1)"
    careful = f"CASE WHEN {dialect().full_match(bare, _NUMBER)} THEN {number} ELSE {bare} END"
    is_folded = dialect().full_match(value, _ALREADY_FOLDED)
    return f"CASE WHEN {is_folded} THEN {value} ELSE {careful} END"
