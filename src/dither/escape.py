"""Text of unknown origin for a terminal: characters that hide, move or reverse others are spelt
out.

Messages of errors may quote a question or a catalog. Other surfaces (pages, tables, files) are in
`dither.surfaces`.
"""

from __future__ import annotations

import re

_JOINERS = "\u200c\u200d"
"""Characters of category Cf that spelling needs, in Persian, in Indic scripts and in emoji."""
SUSPECT = re.compile(r"[^\x20-\x7e]")


def escape_lines(text: str) -> str:
    r"""A text of several lines on a terminal: what hides, moves or reverses others is spelt out,
    but line feeds and tabs stay.

    >>> print(escape_lines("SELECT 1\x1b[2J\nFROM t"))
    SELECT 1\x1b[2J
    FROM t
    """
    return SUSPECT.sub(_spell_line_character, text)


def is_hidden(character: str) -> bool:
    """Control and format characters (bidi marks among them), halves of characters, unusual spaces,
    unassigned codes."""
    return not character.isprintable() and character not in _JOINERS


def spell_character(match: re.Match[str]) -> str:
    """Spell a matched character out where it is hidden."""
    character = match.group()
    return _spell(character) if is_hidden(character) else character


def _spell_line_character(match: re.Match[str]) -> str:
    character = match.group()
    return character if character in "\n\t" else spell_character(match)


def _spell(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
