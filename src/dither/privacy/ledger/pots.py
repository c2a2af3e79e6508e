"""Pots: budgets that stop paying in time, whatever is asked and in whatever order.

A pot is a *filter*: a rule, a cap and a hard ceiling fixed at opening, and one test before every
release: what was charged so far plus this charge is at most the cap, for amounts and deltas alike.
Everything that the pot ever paid for then meets its guarantee, also when queries and prices are
chosen after seeing answers; raised caps are covered up to the ceiling. Inside the ceiling lies a
reserve that only reissues may spend. Proofs: docs/proofs/filters.md. Everything here is exact and
touches no file.

>>> pot = opened("total", 1, 2, neighbours="add_remove", unit="person",
...     question="How many visits are urgent?",
...              population="residents of the county", recipient="the county health board")
>>> from dither.privacy.losses import DiscreteLaplace
>>> pot = spend(pot, charge_of(pot, DiscreteLaplace(10, 7, unit="person")))
>>> pot.spent, pot.left, pot.reissue
(Fraction(7, 10), Fraction(3, 10), Fraction(1, 5))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Any, Literal, get_args

from dither.canonical import Number, decimal_text, exact, positive, quote
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy.charges.rules import PURE, Charge, Rule, charge, charge_from_amounts
from dither.privacy.losses import Loss, Neighbours
from dither.rules import PrivacyRule

GRID = 10**60
Kind = Literal["dataset", "analyst", "group", "purpose", "partition", "part"]
Policy = Literal["global", "separate"]
_PURPOSE = {
    "question": "How many visits are urgent, by age?",
    "population": "residents of the county in 2026",
    "recipient": "the county health board",
}
TERMS = (
    "kind",
    "inside",
    "neighbours",
    "unit",
    *_PURPOSE,
    "policy",
    "max_incidents",
    "relations",
    "column",
    "value",
    "version",
)


@dataclass(frozen=True)
class Pot:
    """What a pot stands at, and what was fixed at its opening."""

    name: str
    cap: Fraction
    ceiling: Fraction
    rule: Rule
    reissue: Fraction
    neighbours: Neighbours
    unit: str
    question: str
    population: str
    recipient: str
    kind: Kind = "dataset"
    inside: str | None = None
    policy: Policy | None = None
    max_incidents: int | None = None
    relations: dict[str, str] = field(default_factory=dict)
    column: str | None = None
    value: str | None = None
    version: int | None = None
    spent: Fraction = Fraction(0)
    delta_spent: Fraction = Fraction(0)
    reissued: Fraction = Fraction(0)

    @property
    def is_windows(self) -> bool:
        """Whether it is the partition into the windows of a (person, window) unit."""
        return self.kind == "partition" and self.column is not None and self.column.startswith("*.")

    @property
    def left(self) -> Fraction:
        """What can still be spent under the present cap.

        It is 0 where a recount has put `spent` above the cap.
        """
        return max(Fraction(0), self.cap - self.spent)

    @property
    def delta_left(self) -> Fraction:
        """What is left of the cap on deltas."""
        return max(Fraction(0), self.rule.delta_cap - self.delta_spent)


def opened(
    name: str,
    cap: Number,
    ceiling: Number,
    *,
    neighbours: Neighbours,
    unit: str,
    question: str,
    population: str,
    recipient: str,
    rule: Rule = PURE,
    reissue: Number | None = None,
    kind: Kind = "dataset",
    inside: str | None = None,
    policy: Policy | None = None,
    max_incidents: int | None = None,
    relations: dict[str, str] | None = None,
    column: str | None = None,
    value: str | None = None,
    version: int | None = None,
) -> Pot:
    """A new pot, its purpose stated in three sentences; refuses vague ones and impossible terms."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise ParameterError(
            f"a budget's name has 1 to 64 letters, digits, _ . or -, got {quote(name)}"
        )
    if neighbours not in get_args(Neighbours):
        raise ParameterError(
            f"neighbours must be 'add_remove' or 'replace', got {quote(neighbours)}"
        )
    if not unit:
        raise ParameterError("a budget says whom it protects: unit='person', for example")
    if type(rule) is not Rule:  # a subclass with caps of its own does not check its terms
        raise ParameterError(f"a budget's rule is a Rule, such as Rule('pure'), got {quote(rule)}")
    low = limit(cap, rule.measure)
    high = limit(ceiling, "ceiling")
    if low > high:
        raise ParameterError(
            f"budget {name!r}: the cap {decimal_text(low)} exceeds the ceiling "
            f"{decimal_text(high)}. The ceiling is what the budget may ever reach, and what its "
            "guarantee states: choose it at least as large"
        )
    kept = min(high / 10, high - low) if reissue is None else exact(reissue, "the reissue reserve")
    if not 0 <= kept <= high - low or kept.denominator > GRID:
        raise ParameterError(
            f"budget {name!r}: the cap {decimal_text(low)} and the reserve for reissues "
            f"{decimal_text(kept)} exceed the ceiling {decimal_text(high)} together: "
            "both lie inside it"
        )
    if kind == "dataset":
        policy = policy or "global"
        max_incidents = 1 if max_incidents is None else max_incidents
    pot = Pot(
        name,
        low,
        high,
        rule,
        kept,
        neighbours,
        unit,
        question,
        population,
        recipient,
        kind,
        inside,
        policy,
        max_incidents,
        dict(relations or {}),
        column,
        value,
        version,
    )
    for key, example in _PURPOSE.items():
        sentence(getattr(pot, key), f"the {key} of budget {name!r}", example)
    _check_kind(pot)
    return pot


def _check_kind(pot: Pot) -> None:
    """Refuse a pot that lacks what its kind must state, or states what it may not."""
    if pot.kind not in get_args(Kind):
        raise ParameterError(
            f"a budget's kind is one of {', '.join(get_args(Kind))}, got {quote(pot.kind)}"
        )
    is_root = pot.kind == "dataset"
    if is_root != (pot.inside is None):
        raise ParameterError(
            f"budget {pot.name!r}: the dataset's total is inside no budget; every other budget "
            f"says which it is inside of"
        )
    if is_root and (
        pot.policy not in get_args(Policy)
        or type(pot.max_incidents) is not int
        or pot.max_incidents < 1
    ):
        raise ParameterError(
            "a dataset's total has the policy 'global' or 'separate', and max_incidents of 1 or "
            "more"
        )
    if not is_root and (pot.policy is not None or pot.max_incidents is not None or pot.relations):
        raise ParameterError("policy, max_incidents and relations are fixed by the dataset's total")
    for lineage, relation in pot.relations.items():
        if not isinstance(lineage, str) or relation not in ("same", "disjoint", "unknown"):
            raise ParameterError(
                "a relation to another dataset is 'same', 'disjoint' or 'unknown' (counts as same)"
            )
    if (pot.kind == "partition") != (pot.column is not None) or (pot.kind == "part") != (
        pot.value is not None
    ):
        raise ParameterError(
            "a partition states its column (table.column), a part its value; other budgets neither"
        )
    if (pot.kind == "partition") != (type(pot.version) is int):
        raise ParameterError(
            "a partition holds for one registered version: later ones may move people between parts"
        )


def charge_of(pot: Pot, loss: Loss) -> Charge:
    """Compute what a pot takes for a loss; nothing is spent.

    Raises RefusedError unless the loss has the pot's unit and neighbours: others have no common
    sum.
    """
    for what in ("neighbours", "unit"):
        if isinstance(loss, Loss) and getattr(loss, what) != getattr(pot, what):
            raise RefusedError(
                f"budget {pot.name!r} counts losses for {what} {getattr(pot, what)!r}; this one is "
                f"stated for "
                f"{getattr(loss, what)!r}, and the two have no sum. Use a budget opened for it",
                rule=PrivacyRule.ONE_GUARANTEE,
            )
    return charge_from_amounts(*map(on_grid, charge(loss, pot.rule)))


def spend(pot: Pot, taken: Charge, *, reissue: bool = False) -> Pot:
    """Return the pot after paying a charge.

    Raises BudgetError where it cannot pay. These comparisons are the filter.
    """
    after = add_charge(pot, taken, reissue=reissue)
    if after.spent > pot.cap:
        remedy = "lower the price" if pot.left > 0 else "the budget is empty"
        if pot.cap < pot.ceiling - pot.reissue:
            highest = decimal_text(pot.ceiling - pot.reissue)
            remedy += (
                f", or the steward raises the cap, up to {highest}: dither budget raise CATALOG "
                f"{pot.name} --cap {highest} --reason '...'"
            )
        raise _cannot_pay(
            pot, price_text(pot.rule.measure, taken, pot.unit), pot.left, pot.cap, remedy
        )
    if after.delta_spent > pot.rule.delta_cap:
        remedy = (
            "ask with pure noise, which needs no delta: its cap was fixed at opening "
            "and is never raised"
        )
        price = price_text(pot.rule.measure, taken, pot.unit)
        raise _cannot_pay(pot, price, pot.delta_left, pot.rule.delta_cap, remedy, "delta ")
    if after.reissued > pot.reissue:
        remedy = "the reserve for reissues was fixed at opening"
        price = f"a reissue at {price_text(pot.rule.measure, taken, pot.unit)}"
        raise _cannot_pay(pot, price, pot.reissue - pot.reissued, pot.reissue, remedy)
    return after


def add_charge(pot: Pot, taken: Charge, *, reissue: bool = False) -> Pot:
    """Return the pot with a charge added to its totals. No cap is compared: `spend` does that."""
    delta_spent = on_grid(pot.delta_spent + taken.delta)
    if reissue:
        return replace(pot, reissued=on_grid(pot.reissued + taken.amount), delta_spent=delta_spent)
    return replace(pot, spent=on_grid(pot.spent + taken.amount), delta_spent=delta_spent)


def _cannot_pay(
    pot: Pot, price: str, remaining: Fraction, bound: Fraction, remedy: str, what: str = ""
) -> BudgetError:
    """Make the error for a pot that cannot pay: the price, what is left, and the remedy."""
    return BudgetError(
        f"budget {pot.name!r} cannot pay: asked {price}; left {what}{decimal_text(remaining)} of "
        f"{decimal_text(bound)}. Nothing was spent: {remedy}"
    )


def cannot_pay_now(pot: Pot, loss: Loss) -> BudgetError:
    """Make the refusal of a price that settled totals would allow, and charges under way do not.

    It names the pot that was asked, not the one that cannot pay, so that it tells no more than
    that.
    """
    price = price_text(pot.rule.measure, charge_of(pot, loss), pot.unit)
    return BudgetError(
        f"budget {pot.name!r} cannot pay now: asked {price}; questions under way may need what is "
        f"left. "
        "Nothing was spent: ask again when they are answered, or lower the price"
    )


def price_text(measure: str, taken: Charge, unit: str) -> str:
    """Write a charge for people: an amount means nothing without its delta and whom it protects.

    >>> price_text("epsilon", charge_from_amounts(Fraction(1, 2), Fraction(0)), "person")
    'epsilon 0.5, delta 0, for one person'
    """
    amount = decimal_text(taken.amount, up=True)
    return f"{measure} {amount}, delta {decimal_text(taken.delta, up=True)}, for one {unit}"


def sentence(text: str, what: str, example: str) -> None:
    """Refuse a purpose or reason that says nothing: it has at least three words."""
    if not isinstance(text, str) or len(re.findall(r"\w*[^\W\d_]\w*", text)) < 3:
        raise ParameterError(
            f"{what} is a sentence of at least three words, such as {example!r}; got {quote(text)}"
        )


def limit(value: Number, name: str) -> Fraction:
    """Read a cap or ceiling as an exact number.

    Raises ParameterError unless it is positive and has at most 60 digits.
    """
    number = positive(value, name)
    if max(number.denominator, number.numerator) > GRID:
        raise ParameterError(f"{name} has more than 60 digits")
    return number


def on_grid(value: Fraction) -> Fraction:
    """Return the number, or the next multiple of 10^-60 above it if its denominator is longer.

    Thousands of unlike denominators would else grow into sums with millions of digits. Rounding is
    upwards, so the filter's inequality still holds; caps with up to 60 decimals lie on the grid, so
    a charge that fits still fits.
    """
    if value.denominator <= GRID:
        return value
    return Fraction(-(-value.numerator * GRID // value.denominator), GRID)


def from_body(body: dict[str, Any]) -> Pot:
    """Build the pot that an `open` entry of the ledger describes."""
    facts: dict[str, Any] = {key: body[key] for key in TERMS}
    facts |= {key: exact(body[key], key) for key in ("cap", "ceiling", "reissue")}
    return opened(body["pot"], rule=Rule.from_body(body["rule"]), **facts)
