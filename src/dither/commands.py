"""Commands of dither in messages, written so that they can be copied as they stand.

What is raised far from the catalog's file writes CATALOG in its place; the doors that know the file
put it in.

>>> print(name_catalog("run 'dither ledger verify CATALOG'", "my clinic.yaml"))
run 'dither ledger verify "my clinic.yaml"'
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dither.errors import DitherError

CHARGED_IS_STORED = "a question that was charged is answered and stored: ask it again, for free"
"""What an interrupted question says: the charge stays, and so does the answer."""
_PLACEHOLDER = re.compile(r"(?<=\s)CATALOG\b")


def write_command(*words: object) -> str:
    """A command of dither that can be copied into a shell.

    >>> write_command("status", "my clinic.yaml")
    "dither status 'my clinic.yaml'"
    """
    return shlex.join(["dither", *map(str, words)])


def name_catalog(message: str, file: str | Path) -> str:
    """The message with the file in the place of CATALOG, in double quotes where it needs some:
    commands stand in single ones."""
    text = str(file)
    is_plain = shlex.quote(text) == text
    quoted = text if is_plain else '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'
    return _PLACEHOLDER.sub(lambda _: quoted, message)


@contextmanager
def naming_catalog(file: str | Path) -> Iterator[None]:
    """Let errors that leave the block name the catalog's file in their commands."""
    try:
        yield
    except DitherError as error:
        error.args = tuple(
            name_catalog(text, file) if isinstance(text, str) else text for text in error.args
        )
        raise
