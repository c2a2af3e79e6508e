"""Where a curator keeps the misses of a schedule: in the dataset's ledger.

The first version kept them in the curator's own file; those still count.
"""

from __future__ import annotations

from collections.abc import Callable

from dither.curator.ask_log import AskLog
from dither.privacy.ledger.misses import add_miss, count_misses
from dither.privacy.ledger.store import Ledger


class LedgerMissLog:
    """The misses of one dataset. `find_ledger` gives the ledger that is open now."""

    def __init__(self, find_ledger: Callable[[], Ledger], asks: AskLog, dataset: str) -> None:
        self._find_ledger = find_ledger
        self._early_misses = asks.count_misses(dataset)

    def count_misses(self) -> int:
        """How often a question took longer than its slot, ever."""
        return self._early_misses + count_misses(self._find_ledger())

    def add_miss(self) -> None:
        """Count a question that took longer than its slot."""
        add_miss(self._find_ledger())
