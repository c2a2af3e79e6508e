"""Filters: what a budget may add up when queries *and prices* are chosen after seeing answers.

A filter has a rule with its caps, fixed when the budget is opened, and an exact state of constant
size. Proved: sums of pure epsilons; sums of (epsilon, delta); approximate zCDP with caps on rho and
on the sum of deltas; Renyi DP at *one* order fixed in advance; each of them per part of a
partition. Rules and charges are those of `privacy.charges.rules`, which the ledger uses too.
Proofs: docs/proofs/filters.md.

A number read off an exact curve (`epsilon(loss, delta)`, a `Bounds` of floats) is not a charge:
`charge` makes a `Charge` from a `Loss`, in fractions. Exact curves are for plans fixed in advance.

>>> from dither.privacy.losses import Pure, Gaussian
>>> rule = PureRule(Fraction(1))
>>> state = rule.empty()
>>> for _ in range(10):
...     state = state.add(charge(Pure(0.1), rule))
>>> state.spent, state.left
((Fraction(1, 1),), (Fraction(0, 1),))
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

from dither.canonical import number_text, quote
from dither.errors import BudgetError, ParameterError
from dither.privacy.charges.parallel import sum_largest
from dither.privacy.charges.rules import Charge, Rule, charge
from dither.privacy.losses import Neighbours
from dither.privacy.numbers import refuse_beyond_floats

__all__ = [
    "ApproxRule",
    "CappedRule",
    "Charge",
    "PureRule",
    "RenyiRule",
    "Rule",
    "Spent",
    "ZcdpRule",
    "charge",
    "guarantee",
    "parallel_spent",
]


@dataclass(frozen=True, repr=False)
class CappedRule(Rule):
    """A rule with the cap on its amounts; subclasses name the theorem.

    Any caps are taken. The delta of the conversion is stated to `guarantee`, not here.
    """

    cap: Fraction = Fraction(0)
    names: ClassVar[tuple[str, ...]]
    theorem: ClassVar[str]
    terms: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Nothing is checked: these caps guard a calculation, not data. A pot takes no such
        rule."""

    def __repr__(self) -> str:
        terms = ", ".join(f"{term}={getattr(self, term)!r}" for term in self.terms)
        return f"{type(self).__name__}({terms})"

    @property
    def caps(self) -> tuple[Fraction, ...]:
        """What the amounts may add up to, one cap for each."""
        return (self.cap,) if self.name == "pure" else (self.cap, self.delta_cap)

    def empty(self) -> Spent:
        """The state of a budget that has been asked nothing."""
        return Spent(self, tuple(Fraction(0) for _ in self.caps))


class PureRule(CappedRule):
    """Sum of epsilons at most `epsilon` (basic composition, adaptive in queries and prices: Rogers
    et al. 2016)."""

    names = ("epsilon",)
    theorem = "basic composition (Rogers, Roth, Ullman and Vadhan 2016)"
    terms = ("epsilon",)

    def __init__(self, epsilon: Fraction) -> None:
        super().__init__("pure", cap=epsilon)

    @property
    def epsilon(self) -> Fraction:
        return self.cap


class ApproxRule(CappedRule):
    """Sums of epsilons and of deltas, each below its cap.

    What has a curve and no pair of its own (Gaussian noise, samples of it) is charged at
    `delta_per_question`, the share that was stated when the budget was opened, and the epsilon of
    the whole question there.
    """

    names = ("epsilon", "delta")
    theorem = "sums of (epsilon, delta) (Rogers, Roth, Ullman and Vadhan 2016)"
    terms = ("epsilon", "delta", "delta_per_question")

    def __init__(self, epsilon: Fraction, delta: Fraction, delta_per_question: Fraction) -> None:
        super().__init__("approx", cap=epsilon, delta=delta, delta_per_question=delta_per_question)

    @property
    def epsilon(self) -> Fraction:
        return self.cap


class ZcdpRule(CappedRule):
    """Approximate zCDP: sum of rho at most `rho`, sum of deltas at most `delta_selection`
    (Whitehouse et al. 2023)."""

    names = ("rho", "delta")
    theorem = "approximate zCDP filter (Whitehouse, Ramdas, Rogers and Wu 2023)"
    terms = ("rho", "delta_selection")

    def __init__(self, rho: Fraction, delta_selection: Fraction) -> None:
        super().__init__("zcdp", cap=rho, delta_selection=delta_selection)

    @property
    def rho(self) -> Fraction:
        return self.cap


class RenyiRule(CappedRule):
    """Renyi DP at the one order `alpha`, fixed at opening, with a cap on the sum of deltas (Feldman
    and Zrnic 2021)."""

    names = ("renyi epsilon", "delta")
    theorem = "Renyi filter at a fixed order (Feldman and Zrnic 2021)"
    terms = ("alpha", "epsilon", "delta_selection")

    def __init__(self, alpha: Fraction, epsilon: Fraction, delta_selection: Fraction) -> None:
        super().__init__("rdp", cap=epsilon, alpha=alpha, delta_selection=delta_selection)

    @property
    def epsilon(self) -> Fraction:
        return self.cap


@dataclass(frozen=True)
class Spent:
    """The running, exact state of a filter: constant size, never rounded."""

    rule: CappedRule
    spent: tuple[Fraction, ...]

    @property
    def left(self) -> tuple[Fraction, ...]:
        return tuple(cap - used for cap, used in zip(self.rule.caps, self.spent, strict=True))

    def fits(self, cost: Charge) -> bool:
        """Whether the charge stays below every cap."""
        self._check(cost)
        return all(amount <= room for amount, room in zip(cost.amounts, self.left, strict=True))

    def add(self, cost: Charge) -> Spent:
        """The state after the charge; `BudgetError` says what would fit, and nothing is spent."""
        if not self.fits(cost):
            raise self._cannot_pay(cost)
        return Spent(self.rule, tuple(a + b for a, b in zip(self.spent, cost.amounts, strict=True)))

    def _cannot_pay(self, cost: Charge) -> BudgetError:
        """Make the refusal of a charge that the budget cannot pay, with what is left of each
        amount."""
        figures = [
            f"{name}: asked {number_text(amount)}, left {number_text(room)}"
            for name, amount, room in zip(self.rule.names, cost.amounts, self.left, strict=True)
        ]
        figures_text = "; ".join(figures if "delta" in self.rule.names else [*figures, "delta 0"])
        return BudgetError(
            f"the budget cannot pay, for one unit ({figures_text}): ask for at most what is left, "
            f"or fewer questions"
        )

    def _check(self, cost: Charge) -> None:
        """Raise an error unless `cost` is a charge that was computed for this rule."""
        if not isinstance(cost, Charge):
            raise TypeError("only a Charge can be spent: charge(loss, rule)")
        if cost.rule != self.rule:
            raise ParameterError(
                "the charge was computed for another rule (orders and caps are fixed at opening)"
            )


def parallel_spent(
    children: Mapping[str, Spent] | Iterable[Spent], neighbours: Neighbours
) -> tuple[Fraction, ...]:
    """Compute what children on the parts of one partition cost their parent.

    (Rule parts-follow-the-unit.) The part must be a function of the unit. add_remove: the largest
    running total, per component; replace: the sum of the two largest, since a unit may move.
    Different partitionings of one table add.

    >>> rule = PureRule(Fraction(1))
    >>> a, b = Spent(rule, (Fraction(1, 2),)), Spent(rule, (Fraction(1, 3),))
    >>> parallel_spent([a, b], "add_remove"), parallel_spent([a, b], "replace")
    ((Fraction(1, 2),), (Fraction(5, 6),))
    """
    states = list(children.values() if isinstance(children, Mapping) else children)
    if not states:
        raise ParameterError("a partition has at least one part")
    if neighbours not in ("add_remove", "replace"):
        raise ParameterError(
            f"neighbours must be 'add_remove' or 'replace', got {quote(neighbours)}"
        )
    if any(state.rule != states[0].rule for state in states):
        raise ParameterError("the parts of one partition keep one rule")
    components = zip(*(state.spent for state in states), strict=True)
    return tuple(sum_largest(totals, neighbours) for totals in components)


@refuse_beyond_floats
def guarantee(rule: CappedRule, delta_conversion: Fraction | None = None) -> tuple[float, Fraction]:
    """The (epsilon, delta) that a filter promises at its caps, whatever was asked; delta fixed at
    opening."""
    if rule.name in ("zcdp", "rdp") and (delta_conversion is None or delta_conversion <= 0):
        raise ParameterError("zCDP and Renyi budgets state delta_conversion when they are opened")
    epsilon, delta = rule.convert_cap(rule.cap, delta_conversion or Fraction(0))
    return _float_up(epsilon), delta


def _float_up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)
