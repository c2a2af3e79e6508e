"""Filters: what a budget may add up when queries *and prices* are chosen after seeing answers.

A filter has a rule fixed when the budget is opened, an exact state of constant size, and a total function from a loss
to its charge. Proved: sums of pure epsilons; sums of (epsilon, delta); approximate zCDP with caps on rho and on the sum
of deltas; Renyi DP at *one* order fixed in advance; each of them per part of a partition. The charges are those of
`charges`, which the ledger uses too. Proofs: docs/proofs/filters.md.

A number read off an exact curve (`epsilon(loss, delta)`, a `Bounds` of floats) is not a charge: `Charge` is made by
`charge` alone, from a `Loss`, and holds fractions. Exact curves are for plans fixed in advance.

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
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar, Literal

from dither.canonical import number_text, quote
from dither.errors import BudgetError, ParameterError
from dither.privacy import losses as ls
from dither.privacy.charges import measures as charges
from dither.privacy.charges.logarithms import epsilon_of_order, epsilon_up
from dither.privacy.numbers import refuse_beyond_floats

_TOKEN = object()


@dataclass(frozen=True)
class Charge:
    """What one loss costs under one rule: exact fractions, made by `charge` and nothing else."""

    rule: Rule
    amounts: tuple[Fraction, ...]
    token: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.token is not _TOKEN:
            raise TypeError("a Charge is made by charge(loss, rule): a number read off a curve is not one")


@dataclass(frozen=True)
class Rule(ABC):
    """A rule with its caps; subclasses name the theorem."""

    names: ClassVar[tuple[str, ...]]
    theorem: ClassVar[str]

    @property
    @abstractmethod
    def caps(self) -> tuple[Fraction, ...]:
        """What the amounts may add up to, one cap for each."""

    def empty(self) -> Spent:
        """The state of a budget that has been asked nothing."""
        return Spent(self, tuple(Fraction(0) for _ in self.caps))

    @abstractmethod
    def amounts(self, loss: ls.Loss) -> tuple[Fraction, ...]:
        """What a loss adds to each amount."""


@dataclass(frozen=True)
class PureRule(Rule):
    """Sum of epsilons at most `epsilon` (basic composition, adaptive in queries and prices: Rogers et al. 2016)."""

    epsilon: Fraction
    names: ClassVar[tuple[str, ...]] = ("epsilon",)
    theorem: ClassVar[str] = "basic composition (Rogers, Roth, Ullman and Vadhan 2016)"

    @property
    def caps(self) -> tuple[Fraction, ...]:
        return (self.epsilon,)

    def amounts(self, loss: ls.Loss) -> tuple[Fraction, ...]:
        return (charges.pure(loss),)


@dataclass(frozen=True)
class ApproxRule(Rule):
    """Sums of epsilons and of deltas, each below its cap.

    What has a curve and no pair of its own (Gaussian noise, samples of it) is charged at `delta_per_question`, the
    share that was stated when the budget was opened, and the epsilon of the whole question there.
    """

    epsilon: Fraction
    delta: Fraction
    delta_per_question: Fraction
    names: ClassVar[tuple[str, ...]] = ("epsilon", "delta")
    theorem: ClassVar[str] = "sums of (epsilon, delta) (Rogers, Roth, Ullman and Vadhan 2016)"

    @property
    def caps(self) -> tuple[Fraction, ...]:
        return (self.epsilon, self.delta)

    def amounts(self, loss: ls.Loss) -> tuple[Fraction, ...]:
        return charges.approx(loss, self.delta_per_question)


@dataclass(frozen=True)
class ZcdpRule(Rule):
    """Approximate zCDP: sum of rho at most `rho`, sum of deltas at most `delta_selection` (Whitehouse et al. 2023)."""

    rho: Fraction
    delta_selection: Fraction
    names: ClassVar[tuple[str, ...]] = ("rho", "delta")
    theorem: ClassVar[str] = "approximate zCDP filter (Whitehouse, Ramdas, Rogers and Wu 2023)"

    @property
    def caps(self) -> tuple[Fraction, ...]:
        return (self.rho, self.delta_selection)

    def amounts(self, loss: ls.Loss) -> tuple[Fraction, ...]:
        return charges.zcdp(loss)


@dataclass(frozen=True)
class RenyiRule(Rule):
    """Renyi DP at the one order `alpha`, fixed at opening, with a cap on the sum of deltas (Feldman and Zrnic 2021)."""

    alpha: Fraction
    epsilon: Fraction
    delta_selection: Fraction
    names: ClassVar[tuple[str, ...]] = ("renyi epsilon", "delta")
    theorem: ClassVar[str] = "Renyi filter at a fixed order (Feldman and Zrnic 2021)"

    @property
    def caps(self) -> tuple[Fraction, ...]:
        return (self.epsilon, self.delta_selection)

    def amounts(self, loss: ls.Loss) -> tuple[Fraction, ...]:
        return charges.rdp(loss, self.alpha)


@refuse_beyond_floats
def charge(loss: ls.Loss, rule: Rule) -> Charge:
    """What the rule takes for a loss; refused, with the remedy, where the rule has no theorem for it.

    >>> from dither.privacy.losses import DiscreteGaussian
    >>> charge(DiscreteGaussian(10, 1), ZcdpRule(Fraction(1), Fraction(0))).amounts
    (Fraction(1, 200), Fraction(0, 1))
    """
    if not isinstance(loss, ls.Loss):
        raise TypeError(
            f"a filter charges a Loss, got {type(loss).__name__}: an epsilon read off a curve holds for a plan fixed "
            "in advance and cannot be added up while prices are chosen adaptively"
        )
    if not isinstance(rule, Rule):
        raise TypeError("a rule is PureRule, ApproxRule, ZcdpRule or RenyiRule")
    return Charge(rule, rule.amounts(loss), _TOKEN)


@dataclass(frozen=True)
class Spent:
    """The running, exact state of a filter: constant size, never rounded."""

    rule: Rule
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
            parts = [
                f"{name}: asked {_show(amount)}, left {_show(room)}"
                for name, amount, room in zip(self.rule.names, cost.amounts, self.left, strict=True)
            ]
            told = "; ".join(parts if "delta" in self.rule.names else [*parts, "delta 0"])
            raise BudgetError(
                f"the budget cannot pay, for one unit ({told}): ask for at most what is left, or fewer questions"
            )
        return Spent(self.rule, tuple(a + b for a, b in zip(self.spent, cost.amounts, strict=True)))

    def _check(self, cost: Charge) -> None:
        if not isinstance(cost, Charge):
            raise TypeError("only a Charge can be spent: charge(loss, rule)")
        if cost.rule != self.rule:
            raise ParameterError("the charge was computed for another rule (orders and caps are fixed at opening)")


def parallel_spent(
    parts: Mapping[str, Spent] | Iterable[Spent], neighbours: Literal["add_remove", "replace"]
) -> tuple[Fraction, ...]:
    """What children on the parts of one partition cost their parent (privacy-rules 15).

    The part must be a function of the unit. add_remove: the largest running total, per component; replace: the sum of
    the two largest, since a unit may move. Different partitionings of one table add.

    >>> rule = PureRule(Fraction(1))
    >>> a, b = Spent(rule, (Fraction(1, 2),)), Spent(rule, (Fraction(1, 3),))
    >>> parallel_spent([a, b], "add_remove"), parallel_spent([a, b], "replace")
    ((Fraction(1, 2),), (Fraction(5, 6),))
    """
    states = list(parts.values() if isinstance(parts, Mapping) else parts)
    if not states:
        raise ParameterError("a partition has at least one part")
    if neighbours not in ("add_remove", "replace"):
        raise ParameterError(f"neighbours must be 'add_remove' or 'replace', got {quote(neighbours)}")
    if any(state.rule != states[0].rule for state in states):
        raise ParameterError("the parts of one partition keep one rule")
    largest = 1 if neighbours == "add_remove" else 2
    return tuple(
        sum(sorted((state.spent[i] for state in states), reverse=True)[:largest], Fraction(0))
        for i in range(len(states[0].spent))
    )


@refuse_beyond_floats
def guarantee(rule: Rule, delta_conversion: Fraction | None = None) -> tuple[float, Fraction]:
    """The (epsilon, delta) that a filter promises at its caps, whatever was asked; delta fixed at opening."""
    if isinstance(rule, PureRule):
        return _float_up(rule.epsilon), Fraction(0)
    if isinstance(rule, ApproxRule):
        return _float_up(rule.epsilon), rule.delta
    if delta_conversion is None or delta_conversion <= 0:
        raise ParameterError("zCDP and Renyi budgets state delta_conversion when they are opened")
    if isinstance(rule, ZcdpRule):
        return _float_up(epsilon_up(rule.rho, delta_conversion)), delta_conversion + rule.delta_selection
    assert isinstance(rule, RenyiRule)
    epsilon = epsilon_of_order(rule.epsilon, rule.alpha, delta_conversion)
    return _float_up(epsilon), delta_conversion + rule.delta_selection


def _float_up(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) >= value else math.nextafter(near, math.inf)


def _show(value: Fraction) -> str:
    return number_text(value)
