"""Pots: budgets that stop paying in time, whatever is asked and in whatever order.

A pot is a *filter*: a cap and a hard ceiling fixed at opening, a rule that turns a loss into a charge, and one test
before every release: spent + charge <= cap. For the pure rule the charges are epsilons and the test makes everything
the pot ever paid for (cap)-DP, also when queries and prices are chosen after seeing answers; raised caps are covered
up to the ceiling. Proof: docs/proofs/pure-filter.md. Everything here is exact and touches no file.

>>> pot = opened("total", 1, 2, neighbours="add_remove", unit="person", question="How many visits are urgent?",
...              population="residents of the county", recipient="the county health board")
>>> from dither.privacy.losses import DiscreteLaplace
>>> pot = spend(pot, charge(pot, DiscreteLaplace(10, 7, unit="person")))
>>> pot.spent, pot.left
(Fraction(7, 10), Fraction(3, 10))
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, get_args

from dither.canonical import Number, exact, positive
from dither.errors import BudgetError, ParameterError, RefusedError
from dither.privacy import losses
from dither.privacy.losses import Loss, Neighbours

GRID = 10**60
_PURPOSE = {
    "question": "How many visits are urgent, by age?",
    "population": "residents of the county in 2026",
    "recipient": "the county health board",
}


@dataclass(frozen=True)
class Pot:
    """What a pot stands at, and what was fixed at its opening."""

    name: str
    cap: Fraction
    ceiling: Fraction
    rule: str
    neighbours: Neighbours
    unit: str
    question: str
    population: str
    recipient: str
    spent: Fraction = Fraction(0)

    @property
    def left(self) -> Fraction:
        """What can still be spent under the present cap."""
        return self.cap - self.spent


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
    rule: str = "pure",
) -> Pot:
    """A new pot, its purpose stated in three sentences; refuses vague ones."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", name):
        raise ParameterError(f"a pot's name has 1 to 64 letters, digits, _ . or -, got {name!r}")
    if rule != "pure":
        raise ParameterError(f"pots have the rule 'pure' so far, got {rule!r}")
    if neighbours not in get_args(Neighbours):
        raise ParameterError(f"neighbours must be 'add_remove' or 'replace', got {neighbours!r}")
    if not unit:
        raise ParameterError("a pot says whom it protects: unit='person', for example")
    pot = Pot(
        name,
        _limit(cap, "epsilon"),
        _limit(ceiling, "ceiling"),
        rule,
        neighbours,
        unit,
        question,
        population,
        recipient,
    )
    for key, example in _PURPOSE.items():
        sentence(getattr(pot, key), f"the {key} of pot {name!r}", example)
    if pot.cap > pot.ceiling:
        raise ParameterError(
            f"pot {name!r}: epsilon {shown(pot.cap)} exceeds the ceiling {shown(pot.ceiling)}. The ceiling is what the "
            "pot may ever reach, and what its guarantee states: choose it at least as large"
        )
    return pot


def raised(pot: Pot, cap: Number, reason: str) -> Pot:
    """The pot with a higher cap; the ceiling, for which the guarantee is stated, never moves."""
    sentence(reason, f"the reason to raise pot {pot.name!r}", "the yearly report needs the table by district")
    limit = _limit(cap, "epsilon")
    if limit <= pot.cap:
        raise ParameterError(f"pot {pot.name!r} has the cap {shown(pot.cap)} already; a raise must exceed it")
    if limit > pot.ceiling:
        raise RefusedError(
            f"pot {pot.name!r} was opened with the ceiling {shown(pot.ceiling)}; {shown(limit)} lies above it. "
            "The ceiling was fixed before any answer was seen and never moves",
            rule="privacy-rules 13",
        )
    return replace(pot, cap=limit)


def charge(pot: Pot, loss: Loss) -> Fraction:
    """What the pot takes for a loss. Its unit and neighbours must be the pot's: others have no common sum."""
    for what in ("neighbours", "unit"):
        if getattr(loss, what) != getattr(pot, what):
            raise RefusedError(
                f"pot {pot.name!r} counts losses for {what} {getattr(pot, what)!r}; this one is stated for "
                f"{getattr(loss, what)!r}, and the two have no sum. Use a pot opened for it",
                rule="one guarantee per pot",
            )
    return _on_grid(charge_pure(loss))


def spend(pot: Pot, amount: Fraction) -> Pot:
    """The pot after paying `amount`; BudgetError if it cannot. This comparison is the filter."""
    spent = _on_grid(pot.spent + amount)
    if spent > pot.cap:
        remedy = "lower the price" if pot.left > 0 else "the pot is empty"
        if pot.cap < pot.ceiling:
            remedy += f", or the steward raises the cap, up to {shown(pot.ceiling)}: dither budget raise {pot.name}"
        raise BudgetError(
            f"pot {pot.name!r} cannot pay: asked epsilon {shown(amount)}, left {shown(pot.left)} of {shown(pot.cap)}. "
            f"Nothing was spent: {remedy}"
        )
    return replace(pot, spent=spent)


def charge_pure(loss: Loss) -> Fraction:
    """The smallest known epsilon for which a loss is epsilon-DP, exactly; refuses what has none.

    >>> charge_pure(losses.DiscreteLaplace(10, 3) + losses.Pure("0.1"))
    Fraction(2, 5)
    """
    match loss:
        case losses.Pure() | losses.RandomizedResponse() | losses.BoundedRange():
            return loss.epsilon
        case losses.DiscreteLaplace() | losses.Laplace():
            return loss.sensitivity / loss.scale
        case losses.Composed():
            return sum(map(charge_pure, loss.losses), Fraction(0))
        case losses.Repeated():
            return charge_pure(loss.loss) * loss.count
        case losses.Parallel():
            # one unit lies in one part; when it is *replaced*, the newcomer may lie in another (privacy-rules 15)
            largest = sorted(map(charge_pure, loss.losses), reverse=True)
            return sum(largest[: 2 if loss.neighbours == "replace" else 1], Fraction(0))
        case losses.Approx() if loss.delta == 0:
            return loss.epsilon
    raise RefusedError(
        f"a pure pot cannot pay for {type(loss).__name__}: {_why_not_pure(loss)}. "
        "What fits: Laplace noise on declared keys, randomised response, the exponential mechanism",
        rule="privacy-rules 14",
    )


def _why_not_pure(loss: Loss) -> str:
    match loss:
        case losses.Approx():
            return "its delta is above 0, and the pot promises delta 0"
        case losses.Gaussian() | losses.DiscreteGaussian() | losses.DiscreteGaussianVector():
            return "no finite epsilon holds for Gaussian noise with delta 0"
        case losses.ZCDP() | losses.RDP():
            return "a bound on Renyi divergences gives an epsilon only together with a delta above 0"
        case losses.PoissonSampled() | losses.SampledWithoutReplacement():
            return "its amplified epsilon is not rational; state the loss without the sampling to pay in full"
    return "no rule is proved for it"


def sentence(text: str, what: str, example: str) -> None:
    """Refuses a purpose or reason that says nothing."""
    if not isinstance(text, str) or len(re.findall(r"\w*[^\W\d_]\w*", text)) < 3:
        raise ParameterError(f"{what} is a sentence of at least three words, such as {example!r}; got {text!r}")


def shown(value: Fraction) -> str:
    """For messages: as a decimal where that is exact and short, else as p/q, long ones cut *down* to 12 digits."""
    places = next((n for n in range(13) if (value * 10**n).denominator == 1), None)
    if places is None and value.denominator < 10**6:
        return str(value)
    digits = 12 if places is None else places
    whole = str(int(value * 10**digits)).rjust(digits + 1, "0")
    text = f"{whole[: len(whole) - digits]}.{whole[len(whole) - digits :]}" if digits else whole
    return text if places is not None else f"{text}..."


def _limit(value: Number, name: str) -> Fraction:
    number = positive(value, name)
    if max(number.denominator, number.numerator) > GRID:
        raise ParameterError(f"{name} has more than 60 digits")
    return number


def _on_grid(value: Fraction) -> Fraction:
    """The number itself, or, once its denominator passes 60 digits, the next multiple of 10^-60 above it.

    Thousands of unlike denominators would else grow into sums with millions of digits. Rounding is upwards, so the
    filter's inequality still holds; caps with up to 60 decimals lie on the grid, so a charge that fits still fits.
    """
    if value.denominator <= GRID:
        return value
    return Fraction(-(-value.numerator * GRID // value.denominator), GRID)


def from_body(body: dict[str, Any]) -> Pot:
    """The pot that an `open` entry describes."""
    facts = {key: value for key, value in body.items() if key not in ("pot", "cap", "ceiling")}
    return opened(body["pot"], exact(body["cap"], "cap"), exact(body["ceiling"], "ceiling"), **facts)


def to_body(pot: Pot) -> dict[str, Any]:
    """The body of the `open` entry of a pot."""
    return {
        "pot": pot.name,
        "rule": pot.rule,
        "cap": pot.cap,
        "ceiling": pot.ceiling,
        "neighbours": pot.neighbours,
        "unit": pot.unit,
        "question": pot.question,
        "population": pot.population,
        "recipient": pot.recipient,
    }
