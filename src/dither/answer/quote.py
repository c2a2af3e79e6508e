"""What a pot takes for a priced question, before it is asked."""

from __future__ import annotations

from dither.canonical import decimal_text
from dither.errors import RefusedError
from dither.privacy.charges.rules import Charge, charge, charge_from_amounts, charge_pure
from dither.privacy.kernel.kernel import Priced
from dither.privacy.ledger import Pot
from dither.rules import PrivacyRule
from dither.sql.dialect_question import DialectQuestion


def quote_charge(pot: Pot | None, priced: Priced) -> Charge:
    """Compute what the pot would take, without taking it.

    Raises an error where the pot's rule has no charge for the loss.
    """
    if pot is not None:
        return charge(priced.loss, pot.rule)
    price = priced.request.price
    return charge_from_amounts(
        charge_pure(priced.loss) if price.rho is None else price.rho, price.value * 0
    )


def check_delta(dialect: DialectQuestion, priced: Priced) -> None:
    """Refuse a question whose pot takes more delta than the question itself allows."""
    path = priced.view.path
    if dialect.delta is None or not path:
        return
    taken = charge(priced.loss, path[0].rule).delta
    if taken > dialect.delta:
        raise RefusedError(
            f"the question allows delta {decimal_text(dialect.delta)}, and its budget takes "
            f"{decimal_text(taken, up=True)}: ask from a budget with a smaller delta per question",
            rule=PrivacyRule.ONLY_TIGHTEN,
        )
