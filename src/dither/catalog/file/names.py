"""Names of a source as a catalog can write them: SQL names, labels, and texts quoted for YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from dither.catalog import scalars

_PLAIN = re.compile(r"[A-Za-z_/.][A-Za-z0-9_/.-]*")
_RESERVED = "dither_"


def make_column_names(source_names: Iterable[str]) -> list[str]:
    """Make a name that SQL takes for each name of a source, all of them distinct in any case.

    >>> make_column_names(["age", " hours-per-week", "2nd", "Age"])
    ['age', 'hours_per_week', 'c_2nd', 'Age_2']
    """
    names: list[str] = []
    for source_name in source_names:
        base = _make_name(source_name)
        name = base
        number = 1
        while name.lower() in {taken.lower() for taken in names}:
            number += 1
            name = f"{base}_{number}"
        names.append(name)
    return names


def make_label(text: str) -> str:
    """A text as the name of a dataset or table.

    >>> make_label("my file (1)")
    'my_file_1'
    """
    return _make_name(text)


def write_scalar(text: str) -> str:
    """A text as a YAML scalar, in quotes unless it plainly needs none.

    >>> print(write_scalar("adult.csv"), write_scalar("a: b"), write_scalar("?"))
    adult.csv "a: b" "?"
    """
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=True)


def _make_name(text: str) -> str:
    """Make a name that SQL takes: letters, digits and `_`, none of ours."""
    name = re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_")[:50]
    if not name or name[0].isdigit() or name.lower().startswith(_RESERVED):
        name = f"c_{name}".rstrip("_")
    assert scalars.is_name(name), name
    return name
