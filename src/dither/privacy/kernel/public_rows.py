"""Rows of public tables, as registration pinned them: the same in every database, so they are no
release and cost nothing. No row of a private table is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dither.errors import RefusedError
from dither.rules import PrivacyRule

if TYPE_CHECKING:
    from dither.privacy.kernel.kernel import Kernel
    from dither.privacy.kernel.release import Version

MOST_PUBLIC_ROWS = 1_000_000


def read_public_rows(kernel: Kernel, version: Version, table: str) -> Any:
    """Read the pinned rows of a public table of one version, with its declared columns.

    Raises RefusedError for a private table, before anything is read, and for a table of more rows
    than are handed out.
    """
    measurer = kernel.connect(version)
    is_read = False
    try:
        rows = measurer.read_public(table, MOST_PUBLIC_ROWS + 1)
        is_read = True
    finally:
        kernel.put_back(version, measurer, sound=is_read)
    if rows.num_rows > MOST_PUBLIC_ROWS:
        raise RefusedError(
            f"{table} has more than {MOST_PUBLIC_ROWS:,} rows: join it to the private table inside "
            "the question that is answered with noise",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return rows
