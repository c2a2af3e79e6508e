"""An epsilon above 10 promises next to nothing: commands go on with `--yes` alone.

Whatever a price or a cap is written in, it is judged by the epsilon that it converts to.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Annotated

import typer

from dither.canonical import decimal_text, exact
from dither.errors import ParameterError
from dither.privacy.charges.conversions import epsilon_from_rho
from dither.privacy.ledger import Pot, Rule

LARGEST_UNASKED = 10
Yes = Annotated[
    bool, typer.Option("--yes", help="Go on with an epsilon above 10, which promises little.")
]


def check_epsilon(epsilon: str | Fraction | None, *, yes: bool, written: str = "") -> None:
    """Refuse an epsilon above 10 unless `--yes` was said, with what it means.

    `written` is what the epsilon was converted from, if anything. The odds of any guess about one
    person can grow by a factor of e^epsilon (for delta 0).
    """
    if epsilon is None or yes:
        return
    value = exact(epsilon, "epsilon")
    if value > LARGEST_UNASKED:
        origin = (
            f"{written} converts to {decimal_text(value, up=True)}, which"
            if written
            else decimal_text(value)
        )
        raise ParameterError(
            f"{origin} is a large epsilon: answers could make a guess about one person "
            f"{describe_factor(value)} times as likely as before, so that next to nothing is "
            f"promised. Choose e.g. 1, or say --yes to go on"
        )


def check_rho(rho: str | Fraction | None, pots: tuple[Pot, ...], name: str, *, yes: bool) -> None:
    """Refuse a price in rho that converts to an epsilon above 10 at the delta of its budget.

    Without a delta the noise is Laplace noise, whose epsilon is sqrt(2 rho).
    """
    if rho is None or yes:
        return
    value = exact(rho, "rho")
    rule = next((pot.rule for pot in pots if pot.name == name), None)
    delta = Fraction(0) if rule is None else rule.delta_conversion or rule.delta_per_question
    if value <= 0 or rule is None:
        return  # asking refuses these, with the reason
    epsilon = epsilon_from_rho(value, delta) if delta else math.sqrt(2 * value)
    at_delta = f" at delta {decimal_text(delta)}" if delta else ""
    check_epsilon(Fraction(epsilon), yes=yes, written=f"rho {decimal_text(value)}{at_delta}")


def check_cap(rule: Rule, amount: str | Fraction | None, *, yes: bool) -> None:
    """Refuse a cap or ceiling that promises no more than an epsilon above 10."""
    if amount is None or yes:
        return
    value = exact(amount, rule.measure)
    if value <= 0:
        return  # opening refuses it, with the reason
    epsilon, delta = rule.guarantee(value)
    is_converted = rule.measure != "epsilon"
    written = (
        f"{rule.measure} {decimal_text(value)} at delta {decimal_text(delta)}"
        if is_converted
        else ""
    )
    check_epsilon(epsilon, yes=yes, written=written)


def describe_factor(epsilon: Fraction) -> str:
    """Write e^epsilon as people read it.

    >>> describe_factor(Fraction(11)), describe_factor(Fraction(200))
    ('59,874', 'more than 10^86')
    """
    if epsilon <= 20:
        return f"{math.exp(epsilon):,.0f}"
    return f"more than 10^{math.floor(epsilon / Fraction(math.log(10)))}"
