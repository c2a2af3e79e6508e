"""Text from outside made harmless for a terminal and for JSON that people read.

Control characters move the cursor and change colours; bidirectional marks make a line read otherwise
than it is; other invisible characters hide that two texts differ. They are shown by their escapes.
"""

from __future__ import annotations

import re

_UNPRINTABLE_IN_JSON = re.compile(r"[^\n -~]")


def escape_unprintable(text: str) -> str:
    r"""The text in one line, every character that does not print as itself replaced by its escape.

    >>> escape_unprintable("2\u202e1\x1b[31m\n")
    '2\\u202e1\\x1b[31m\\n'
    """
    return "".join(map(_escape_for_terminal, text))


def _escape_for_terminal(letter: str) -> str:
    return letter if letter.isprintable() else letter.encode("unicode_escape").decode("ascii")


def escape_json(text: str) -> str:
    r"""The same JSON, characters that do not print as themselves written as \u escapes.

    >>> escape_json('["\x9b1m", "é"]')
    '["\\u009b1m", "é"]'
    """
    return _UNPRINTABLE_IN_JSON.sub(_escape_for_json, text)


def _escape_for_json(match: re.Match[str]) -> str:
    letter = match[0]
    if letter.isprintable():
        return letter
    code = letter.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{code[start : start + 2].hex()}" for start in range(0, len(code), 2))
