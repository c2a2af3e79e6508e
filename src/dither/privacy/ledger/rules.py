"""Accounting rules: what a pot adds up, and the total function from a loss to its charge under each.

| rule | amount | delta | theorem (docs/proofs/filters.md) |
|---|---|---|---|
| pure | epsilon | none | sums, Rogers, Roth, Ullman and Vadhan 2016 |
| approx | epsilon | sum of deltas | sums, the same |
| zcdp | rho | sum of selection deltas | approximate zCDP filter, Whitehouse, Ramdas, Rogers and Wu 2023 |
| rdp | D_alpha at one order | sum of selection deltas | Feldman and Zrnic 2021 |

The mathematics is `accounting.charges`, shared with the filters of the accountant: exact rationals, rounded up in
integer arithmetic where they must be, so that every auditor recomputes them to the last digit.

>>> from dither.privacy.losses import DiscreteGaussian
>>> charge(Rule("zcdp", delta_conversion=Fraction(1, 10**6)), DiscreteGaussian(10, 1))
Charge(amount=Fraction(1, 200), delta=Fraction(0, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from dither.canonical import exact, quote
from dither.errors import ParameterError
from dither.privacy.charges import measures as charges
from dither.privacy.charges.logarithms import epsilon_of_order, epsilon_up
from dither.privacy.charges.measures import rho_of_pure
from dither.privacy.losses import Loss

__all__ = ["PURE", "Charge", "Name", "Rule", "charge", "charge_pure", "rho_of_pure"]

Name = Literal["pure", "approx", "zcdp", "rdp"]
_ZERO = Fraction(0)
_STATED: dict[str, tuple[str, ...]] = {
    "pure": (),
    "approx": ("delta", "delta_per_question"),
    "zcdp": ("delta_conversion", "delta_selection"),
    "rdp": ("delta_conversion", "delta_selection", "alpha"),
}


class Charge(NamedTuple):
    """What a pot takes for one loss: an amount in the rule's own measure, and a delta."""

    amount: Fraction
    delta: Fraction


@dataclass(frozen=True)
class Rule:
    """A rule with all that is fixed when a pot is opened; the cap on the amount is the pot's."""

    name: Name
    delta: Fraction = _ZERO
    delta_per_question: Fraction = _ZERO
    delta_conversion: Fraction = _ZERO
    delta_selection: Fraction = _ZERO
    alpha: Fraction = _ZERO

    def __post_init__(self) -> None:
        if self.name not in get_args(Name):
            raise ParameterError(f"a pot's rule is one of {', '.join(get_args(Name))}, got {quote(self.name)}")
        for key in ("delta", "delta_per_question", "delta_conversion", "delta_selection", "alpha"):
            value = exact(getattr(self, key), key)
            object.__setattr__(self, key, value)
            stated = key in _STATED[self.name]
            if not stated and value:
                raise ParameterError(f"a pot with the rule {self.name!r} has no {key}: leave it out")
            if stated and key == "alpha" and value <= 1:
                raise ParameterError("an rdp pot fixes one order alpha above 1 at opening, e.g. alpha=8")
            if stated and key != "alpha" and not (0 < value < 1 or (key == "delta_selection" and value == 0)):
                raise ParameterError(
                    f"a pot with the rule {self.name!r} states {key}, in (0, 1): e.g. 1e-6, far below 1 / people"
                )
        if self.delta_per_question > self.delta:
            raise ParameterError("delta_per_question exceeds delta: no question could be paid")

    @property
    def measure(self) -> str:
        """What the amounts are called."""
        return {"pure": "epsilon", "approx": "epsilon", "zcdp": "rho", "rdp": "renyi"}[self.name]

    @property
    def delta_cap(self) -> Fraction:
        """What the deltas of all charges may add up to."""
        return self.delta if self.name == "approx" else self.delta_selection

    def guarantee(self, amount: Fraction) -> tuple[Fraction, Fraction]:
        """(epsilon, delta) that holds when the amounts stay below `amount`, which was fixed in advance."""
        if self.name == "zcdp":
            return epsilon_up(amount, self.delta_conversion), self.delta_conversion + self.delta_selection
        if self.name == "rdp":
            epsilon = epsilon_of_order(amount, self.alpha, self.delta_conversion)
            return epsilon, self.delta_conversion + self.delta_selection
        return amount, self.delta

    def to_body(self) -> dict[str, Any]:
        return {"name": self.name} | {key: getattr(self, key) for key in _STATED[self.name]}

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Rule:
        if set(body) != {"name", *_STATED[body["name"]]}:
            raise ParameterError(f"a {body['name']} rule states {_STATED[body['name']]}")
        stated: dict[str, Any] = {key: value if key == "name" else exact(value, key) for key, value in body.items()}
        return cls(**stated)


PURE = Rule("pure")


def charge(rule: Rule, loss: Loss) -> Charge:
    """What a pot with this rule takes for a loss; what has no charge is refused, with the reason and what would fit."""
    if not isinstance(loss, Loss):
        raise ParameterError(f"a pot charges a Loss, got {type(loss).__name__}: an epsilon read off a curve is none")
    if rule.name == "pure":
        return Charge(charges.pure(loss), _ZERO)
    if rule.name == "zcdp":
        return Charge(*charges.zcdp(loss))
    if rule.name == "rdp":
        return Charge(*charges.rdp(loss, rule.alpha))
    return Charge(*charges.approx(loss, rule.delta_per_question))


def charge_pure(loss: Loss) -> Fraction:
    """The smallest known epsilon for which a loss is epsilon-DP, exactly; refuses what has none.

    >>> from dither.privacy.losses import DiscreteLaplace, Pure
    >>> charge_pure(DiscreteLaplace(10, 3) + Pure("0.1"))
    Fraction(2, 5)
    """
    return charge(PURE, loss).amount
