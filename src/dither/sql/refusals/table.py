"""What is refused, why, and what to write instead. One table, read by errors, by the reference page
and by the tests.

`example` is a question about the clinic of the reference page that is refused so; `rewrite` is one
that is answered.
"""

from __future__ import annotations

from dither.sql.refusals.of_answers import OF_ANSWERS
from dither.sql.refusals.of_rows import OF_ROWS
from dither.sql.refusals.refusal import Refusal

REFUSALS: dict[str, Refusal] = {**OF_ROWS, **OF_ANSWERS}


def reference() -> str:
    """Write the table of refusals as the reference page shows it."""
    rows = [
        f"| {row.what} | {row.why} | {row.instead} | {row.rule.sentence} |"
        for row in REFUSALS.values()
    ]
    return "\n".join(["| refused | why | instead | rule |", "|---|---|---|---|", *rows]) + "\n"
