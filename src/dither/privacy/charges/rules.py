"""Rules of budgets: what a budget adds up, and the charge that it takes for a loss.

The ledger's pots and the accountant's filters share this one model. A `Rule` holds what is fixed
when a budget is opened, except the cap on its amounts, which belongs to the pot (`ledger.pots.Pot`)
or to the filter (`accounting.CappedRule`).

| rule | amount | delta | theorem (docs/proofs/filters.md) |
|---|---|---|---|
| pure | epsilon | none | sums, Rogers, Roth, Ullman and Vadhan 2016 |
| approx | epsilon | sum of deltas | sums, the same |
| zcdp | rho | sum of selection deltas | zCDP filter, Whitehouse, Ramdas, Rogers and Wu 2023 |
| rdp | D_alpha at one order | sum of selection deltas | Feldman and Zrnic 2021 |

Amounts are exact rationals (`charges.measures`). Where they must be rounded they are rounded up in
integer arithmetic, so that every auditor recomputes them to the last digit.

>>> from dither.privacy.losses import DiscreteGaussian
>>> charge(DiscreteGaussian(10, 1), Rule("zcdp", delta_conversion=Fraction(1, 10**6)))
Charge(amount=Fraction(1, 200), delta=Fraction(0, 1))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NamedTuple, get_args

from dither.canonical import exact, quote
from dither.errors import ParameterError
from dither.privacy.charges import measures
from dither.privacy.charges.logarithms import epsilon_of_order, epsilon_up
from dither.privacy.losses import Loss
from dither.privacy.numbers import refuse_beyond_floats

Name = Literal["pure", "approx", "zcdp", "rdp"]
_ZERO = Fraction(0)
_STATED: dict[str, tuple[str, ...]] = {
    "pure": (),
    "approx": ("delta", "delta_per_question"),
    "zcdp": ("delta_conversion", "delta_selection"),
    "rdp": ("delta_conversion", "delta_selection", "alpha"),
}
_TOKEN = object()


class NotALossError(ParameterError, TypeError):
    """A budget was asked to charge something that is not a loss."""


class _Amounts(NamedTuple):
    amount: Fraction
    delta: Fraction


class Charge(_Amounts):
    """What a budget takes for one loss: an amount in the measure of its rule, and a delta.

    Made by `charge`, or by `charge_from_amounts` where the amounts are on record; then it belongs
    to no rule.
    """

    rule: Rule | None = None

    def __new__(
        cls,
        amount: Fraction,
        delta: Fraction,
        rule: Rule | None = None,
        token: object = None,
    ) -> Charge:
        """Make a charge; only `charge(loss, rule)` has the token that this needs."""
        if token is not _TOKEN:
            raise TypeError(
                "a Charge is made by charge(loss, rule): a number read off a curve is not one",
            )
        charge = super().__new__(cls, amount, delta)
        charge.rule = rule
        return charge

    @property
    def amounts(self) -> tuple[Fraction, ...]:
        """One amount for each cap of the rule; a pure rule charges no delta, so it has one cap."""
        is_pure = self.rule is not None and self.rule.name == "pure"
        return (self.amount,) if is_pure else (self.amount, self.delta)


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
        """Check that the rule states exactly the numbers that it needs, and make them exact."""
        if self.name not in get_args(Name):
            raise ParameterError(
                f"a budget's rule is one of {', '.join(get_args(Name))}, got {quote(self.name)}"
            )
        for key in ("delta", "delta_per_question", "delta_conversion", "delta_selection", "alpha"):
            value = exact(getattr(self, key), key)
            object.__setattr__(self, key, value)
            stated = key in _STATED[self.name]
            if not stated and value:
                raise ParameterError(
                    f"a budget with the rule {self.name!r} has no {key}: leave it out"
                )
            if stated and key == "alpha" and value <= 1:
                raise ParameterError(
                    "an rdp budget fixes one order alpha above 1 at opening, e.g. alpha=8"
                )
            if (
                stated
                and key != "alpha"
                and not (0 < value < 1 or (key == "delta_selection" and value == 0))
            ):
                raise ParameterError(
                    f"a budget with the rule {self.name!r} states {key}, in (0, 1): e.g. 1e-6, far "
                    f"below 1 / people"
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
        """(epsilon, delta) that holds while the amounts stay below `amount`.

        That number was fixed in advance.
        """
        return self.convert_cap(amount, self.delta_conversion)

    def convert_cap(self, cap: Fraction, delta_conversion: Fraction) -> tuple[Fraction, Fraction]:
        """Convert a cap fixed in advance to the (epsilon, delta) that it promises.

        Proof: docs/proofs/filters.md, theorem 4.
        """
        if self.name == "zcdp":
            return epsilon_up(cap, delta_conversion), delta_conversion + self.delta_selection
        if self.name == "rdp":
            epsilon = epsilon_of_order(cap, self.alpha, delta_conversion)
            return epsilon, delta_conversion + self.delta_selection
        return cap, self.delta

    def to_body(self) -> dict[str, Any]:
        return {"name": self.name} | {key: getattr(self, key) for key in _STATED[self.name]}

    @classmethod
    def from_body(cls, body: dict[str, Any]) -> Rule:
        """Read a rule from the body of a ledger entry; refuse missing and unknown keys."""
        if set(body) != {"name", *_STATED[body["name"]]}:
            raise ParameterError(f"a {body['name']} rule states {_STATED[body['name']]}")
        stated: dict[str, Any] = {
            key: value if key == "name" else exact(value, key) for key, value in body.items()
        }
        return cls(**stated)


PURE = Rule("pure")


@refuse_beyond_floats
def charge(loss: Loss, rule: Rule) -> Charge:
    """Compute what a budget with this rule takes for a loss.

    It changes no budget. Raises an error with the reason and what would fit, for a loss that has no
    charge under the rule.
    """
    if not isinstance(loss, Loss):
        raise NotALossError(
            f"a budget charges a Loss, got {type(loss).__name__}: an epsilon read off a curve "
            f"holds "
            "for a plan fixed in advance and cannot be added up while prices are chosen "
            "adaptively. "
            "Charge the loss itself"
        )
    if not isinstance(rule, Rule):
        raise TypeError("a rule is a Rule, or a PureRule, ApproxRule, ZcdpRule or RenyiRule")
    amount, delta = _price_loss(loss, rule)
    return Charge(amount, delta, rule, _TOKEN)


def _price_loss(loss: Loss, rule: Rule) -> tuple[Fraction, Fraction]:
    """Compute (amount, delta) that a loss costs in the measure of a rule."""
    if rule.name == "pure":
        return measures.pure(loss), _ZERO
    if rule.name == "zcdp":
        return measures.zcdp(loss)
    if rule.name == "rdp":
        return measures.rdp(loss, rule.alpha)
    return measures.approx(loss, rule.delta_per_question)


def charge_from_amounts(amount: Fraction, delta: Fraction) -> Charge:
    """Make a charge whose amounts are on record, such as one read from a ledger.

    It belongs to no rule.

    >>> charge_from_amounts(Fraction(1, 2), Fraction(0))
    Charge(amount=Fraction(1, 2), delta=Fraction(0, 1))
    """
    if not (isinstance(amount, Fraction) and isinstance(delta, Fraction)):
        raise TypeError("a charge has exact fractions: a number read off a curve is not one")
    return Charge(amount, delta, None, _TOKEN)


def charge_pure(loss: Loss) -> Fraction:
    """The smallest known epsilon for which a loss is epsilon-DP, rounded up where it is irrational.

    A loss that has none, such as Gaussian noise, is refused.

    >>> from dither.privacy.losses import DiscreteLaplace, Pure
    >>> charge_pure(DiscreteLaplace(10, 3) + Pure("0.1"))
    Fraction(2, 5)
    """
    return charge(loss, PURE).amount
