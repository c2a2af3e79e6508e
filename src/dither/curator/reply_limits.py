"""How much one reply holds, and which pots it shows: by public facts, before any charge."""

from __future__ import annotations

from dither.errors import RefusedError
from dither.plan.algebra import BlockCounts, Cells, Linear, Quantiles, Query, Scores
from dither.plan.operators import count_rows
from dither.privacy.kernel.kernel import Priced
from dither.privacy.ledger import Pot
from dither.rules import PrivacyRule

MOST_NUMBERS = 5_000_000
"""Numbers in one reply, by the declared keys of a question: more are refused before a charge."""


def check_size(priced: Priced) -> None:
    """Refuse, before a charge, an answer that is too long for one message."""
    numbers = count_numbers(priced)
    if numbers > MOST_NUMBERS:
        raise RefusedError(
            f"the answer would have {numbers:,} numbers, and at most {MOST_NUMBERS:,} are sent at "
            "once: ask for fewer groups",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def count_numbers(priced: Priced) -> int:
    """How many numbers a request releases, by its declared keys."""
    return sum(_count_numbers(step.step.query, step.cells) for step in priced.steps)


def _count_numbers(query: Query, cells: int) -> int:
    """How many numbers a step releases: for each cell, for each row of an operator, or one."""
    if isinstance(query, Linear):
        return count_rows(query.operator)
    if isinstance(query, Scores):
        return 1
    if isinstance(query, BlockCounts):
        return 2 * cells  # a split for every block, and a count
    if isinstance(query, Quantiles):
        return cells * query.width
    return cells * (len(query.columns) if isinstance(query, Cells) else 1)


def list_visible_pots(pots: tuple[Pot, ...], names: tuple[str, ...]) -> set[str]:
    """A principal's pots, all that they are inside of, and the windows that pay with them."""
    by_name = {pot.name: pot for pot in pots}
    visible: set[str] = set()
    for name in names:
        outer = by_name.get(name)
        while outer is not None and outer.name not in visible:
            visible.add(outer.name)
            outer = by_name.get(outer.inside or "")
    windows = {pot.name for pot in pots if pot.is_windows}
    return visible | windows | {pot.name for pot in pots if pot.inside in windows}
