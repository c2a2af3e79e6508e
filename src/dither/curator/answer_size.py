"""How many numbers an answer has: more than one message holds are refused before a charge."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.algebra import Cells, Linear, Quantiles, Query, Scores
from dither.plan.operators import count_rows
from dither.privacy.kernel.kernel import Priced
from dither.rules import PrivacyRule

MOST_NUMBERS = 5_000_000
"""Numbers in one reply, by the declared keys of a question: more are refused before a charge."""


def check_answer_size(priced: Priced) -> None:
    """Refuse, before a charge, an answer that is too long for one message."""
    numbers = 0
    for calibrated in priced.steps:
        numbers += _count_numbers(calibrated.step.query, calibrated.cells)
    if numbers > MOST_NUMBERS:
        raise RefusedError(
            f"the answer would have {numbers:,} numbers, and at most {MOST_NUMBERS:,} are sent at "
            "once: ask for fewer groups",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def _count_numbers(query: Query, cells: int) -> int:
    """How many numbers a step releases: for each cell, for each row of an operator, or one."""
    if isinstance(query, Linear):
        return count_rows(query.operator)
    if isinstance(query, Scores):
        return 1
    if isinstance(query, Quantiles):
        return cells * query.width
    return cells * (len(query.columns) if isinstance(query, Cells) else 1)
