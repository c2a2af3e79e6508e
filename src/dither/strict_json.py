"""JSON from outside, read so that every reader sees the same document, in bounded time.

Of a key written twice one program keeps the first value and another the last, so a document that
was checked by one is not the document that the other shows. Such texts are refused, and so are
empty keys, numbers that have several spellings, halves of characters, and whatever is too long, too
deep or too large to be ours.

>>> read_json('{"n": 1}')
{'n': 1}
>>> read_json('{"n": 1, "n": 2}')
Traceback (most recent call last):
ValueError: the key 'n' appears twice
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

from dither.errors import ParameterError

MAX_CHARACTERS = 8 * 2**20
MAX_DEPTH = 64
MAX_DIGITS = 1000
_BRACKETS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+\\?"?|[\[{]|[\]}]', re.DOTALL)


def read_json(
    text: str,
    *,
    max_characters: int = MAX_CHARACTERS,
    max_depth: int = MAX_DEPTH,
    allow_floats: bool = False,
    allow_empty_keys: bool = False,
) -> Any:
    """Read the document that the text holds.

    Raises ValueError if readers could differ, or past a bound.
    """
    if len(text) > max_characters:
        raise ValueError(f"the text has more than {max_characters} characters")
    _check_depth(text, max_depth)

    def read_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        """Make a dict of the pairs of one JSON object; refuse a repeated key and an empty one."""
        members = dict(pairs)
        if len(members) != len(pairs):
            raise ValueError(f"the key {_first_repeated(pairs)!r} appears twice")
        if "" in members and not allow_empty_keys:
            raise ValueError("a key is empty")
        return members

    tree = json.loads(
        text,
        object_pairs_hook=read_members,
        parse_int=_read_integer,
        parse_float=_read_float if allow_floats else _refuse_number,
        parse_constant=None if allow_floats else _refuse_number,
    )
    json.dumps(
        tree, ensure_ascii=False
    ).encode()  # ValueError: half of a surrogate pair has no UTF-8
    return tree


def read_document(text: str, name: str, *, allow_floats: bool = False) -> Any:
    """Read JSON as `read_json` does, for texts from outside.

    Whatever cannot be read is a ParameterError that calls the text by its name.
    """
    try:
        return read_json(text, allow_floats=allow_floats)
    except (ValueError, RecursionError) as error:
        raise ParameterError(
            f"{name} is not JSON that can be read ({error}): give the document as dither wrote it"
        ) from None


def _check_depth(text: str, max_depth: int) -> None:
    """Count brackets outside texts before anything recurses; one pass, whatever the text holds."""
    depth = 0
    for match in _BRACKETS.finditer(text):
        token = match[0]
        if token in "[{":
            depth += 1
            if depth > max_depth:
                raise ValueError(f"nested deeper than {max_depth} levels")
        elif token in "]}":
            depth -= 1


def _first_repeated(pairs: list[tuple[str, Any]]) -> str:
    """Return the first key that appears a second time."""
    earlier_keys: set[str] = set()
    for key, _ in pairs:
        if key in earlier_keys:
            return key
        earlier_keys.add(key)
    raise AssertionError("unreachable: fewer keys than pairs")


def _read_integer(text: str) -> int:
    """Read an integer of bounded length; refuse "-0"."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    if text == "-0":
        raise ValueError("zero is written 0")
    return int(text)


def _read_float(text: str) -> float:
    """Read a number of bounded length; refuse one that is too large for a float."""
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a number has more than {MAX_DIGITS} digits")
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse_number(text: str) -> Any:
    raise ValueError(f"{text[:20]} is no integer: write other numbers as texts, such as '1/3'")
