"""Text to value, for what people write into a catalog or a question and no stored catalog holds."""

from __future__ import annotations

import re
import unicodedata

from dither.catalog.scalars import number

_LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")


def whole(text: str) -> int | None:
    """A whole number, however written (`1000`, `1e3`)."""
    value = number(text)
    return int(value) if value is not None and value.denominator == 1 else None


def boolean(text: str) -> bool | None:
    """`true` or `false`, and no other spelling."""
    return {"true": True, "false": False}.get(text)


def is_label(text: str) -> bool:
    """The name of a dataset, lineage or population."""
    return _LABEL.fullmatch(text) is not None


def has_control_characters(text: str) -> bool:
    """Line breaks, control characters or halves of characters.

    They are invisible in a table, and therefore refused in one.
    """
    return any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in text)
