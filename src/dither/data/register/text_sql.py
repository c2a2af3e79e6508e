"""SQL of texts that only registration needs, in the dialect that is being written."""

from __future__ import annotations

from dither.data.lower.dialect import dialect

_SPACES = r"[\s\p{Z}]"
_ZEROS = "^0*([0-9]+)([.]0*)?$"


def find_label(value: str, labels: tuple[str, ...]) -> str:
    """Write the place of a text in a list, from 0; null where it is not in it."""
    listed = ", ".join(map(dialect().text, labels))
    if dialect().engine == "spark":  # its array_position is 0 where a text is not in the list
        return f"NULLIF(array_position(array({listed}), {value}), 0) - 1"
    return f"list_position([{listed}], {value}) - 1"


def fold_spelling(value: str) -> str:
    """Write a text without any kind of space; a number also without zeros around it."""
    if dialect().engine == "spark":  # it replaces all matches without being asked to
        bare = f"regexp_replace({value}, {dialect().text(_SPACES)}, '')"
        return f"regexp_replace({bare}, '{_ZEROS}', '$1')"
    bare = f"regexp_replace({value}, '{_SPACES}', '', 'g')"
    return f"regexp_replace({bare}, '{_ZEROS}', '\\1')"
