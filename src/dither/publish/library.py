"""What a connection to a data frame says of itself: it promises no total."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

from dither.canonical import decimal_text
from dither.privacy.ledger import Pot
from dither.publish.budget import LabelledGuarantee, PotBalances

LIBRARY: Literal["library"] = "library"
"""The context of answers about a data frame that the caller holds."""
NO_TOTAL = (
    "each connection to a data frame starts from zero: no total over connections is promised, and "
    "there is no certificate of a dataset"
)


class ConnectionBalances(PotBalances):
    """Balances of one connection to a data frame; no guarantee over all that is ever asked."""

    def guarantee(self, pot: Pot) -> LabelledGuarantee:
        """What holds for this connection; another one to the same rows adds its own."""
        promised = super().guarantee(pot)
        return replace(promised, label=f"this connection alone ({NO_TOTAL})")

    def worst_case(self) -> None:
        """Nothing bounds all connections together."""
        return None

    def lines(self) -> Iterator[str]:
        for pot in self.pots:
            yield (
                f"this connection: {pot.rule.measure} {decimal_text(pot.spent, up=True)} spent, "
                f"{decimal_text(pot.left)} left, delta {decimal_text(pot.delta_spent, up=True)} "
                f"spent, for one {pot.unit}"
            )
        yield NO_TOTAL
