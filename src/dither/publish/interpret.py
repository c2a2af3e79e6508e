"""What (epsilon, delta) means, in plain words and in numbers.

A person can hold the numbers against their own worry.

Everything follows from one inequality, P(E) <= e^epsilon Q(E) + delta for every event E, where P
and Q are the laws of all answers together on two neighbouring databases. Nothing here depends on
data, and nothing prints an epsilon without its delta and its unit. Formulas and their proofs:
docs/reference/interpret.md.

>>> meaning = interpret(1, 0, unit="person", neighbours="add_remove")
>>> round(meaning.posterior(0.1)[1], 4), round(meaning.power(0.05), 4)
(0.232, 0.1359)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.accounting.curves import epsilon as curve_epsilon
from dither.accounting.planning import group
from dither.accounting.profile import tradeoff
from dither.canonical import Number, exact, quote
from dither.catalog.explain import ASSERTED
from dither.errors import ParameterError, RefusedError
from dither.given_numbers import as_float
from dither.pages.html import write_list
from dither.privacy.ledger import Pot
from dither.privacy.losses import RDP, ZCDP, Approx, Loss, Neighbours, Pure
from dither.privacy.numbers import refuse_beyond_floats
from dither.publish.certificate import format_rounded_up

_UP = 1 + 1e-12
PRIORS = (0.01, 0.1, 0.5)
RATES = (0.01, 0.05)


@dataclass(frozen=True)
class Meaning:
    """A guarantee with the questions that people ask of it.

    `loss` sharpens the answers where it is known.
    """

    epsilon: Fraction
    delta: Fraction
    unit: str
    neighbours: Neighbours
    loss: Loss | None = None

    @property
    def stated(self) -> str:
        """The guarantee in one phrase: never an epsilon alone."""
        return _state_pair(
            self.epsilon, self.delta, f"for one {_describe_unit(self.unit)}", self.neighbours
        )

    def posterior(self, prior: float) -> tuple[float, float]:
        """How far all answers can move someone's belief.

        The prior odds are multiplied by at most e^epsilon either way.

        With a delta the odds move by at most 2 e^epsilon, in all but `exception` of the cases.
        """
        if not 0 < prior < 1:
            raise ParameterError(
                f"a prior lies in (0, 1), got {prior}: 0 and 1 are certainties that nothing moves"
            )
        factor = _raise_exp(self.epsilon) * (2 if self.delta else 1) * _UP
        odds = prior / (1 - prior)
        return odds / factor / (1 + odds / factor), _convert_odds(odds * factor)

    @property
    def exception(self) -> float:
        """How often the posterior may leave its interval.

        At most (2 + e^-epsilon) delta, by Markov's inequality.
        """
        return float(self.delta) * (2 + math.exp(-min(float(self.epsilon), 700.0))) * _UP

    def power(self, false_positive: float) -> float:
        """The largest share of those in the data that a test finds which wrongly names this share
        of the others.

        min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a)), or the trade-off curve of the loss
        where lower.
        """
        if not 0 <= false_positive <= 1:
            raise ParameterError(f"a false-positive rate lies in [0, 1], got {false_positive}")
        e = _raise_exp(self.epsilon)
        d = float(self.delta)
        a = false_positive
        largest_share = min(e * a + d, 1 - (1 - d - a) / e) * _UP
        if self.loss is not None:
            largest_share = min(largest_share, 1 - tradeoff(self.loss, [a]).false_negative[0].lower)
        return min(1.0, max(a, largest_share))

    def together(self, size: int) -> Meaning:
        """The guarantee towards `size` units at once.

        Such as a household, a person with so many rows, or so many windows.

        (k epsilon, delta (e^(k epsilon) - 1) / (e^epsilon - 1)); where the loss has a group rule,
        at the same delta.
        """
        if not isinstance(size, int) or size < 1:
            raise ParameterError(f"a group has 1 or more members, got {quote(size)}")
        unit = self.unit if size == 1 else f"{size} x {self.unit}"
        epsilon = self.epsilon * size
        delta = _compute_group_delta(self.epsilon, self.delta, size)
        loss = None
        if self.loss is not None:
            try:
                loss = group(self.loss, size)
                same = curve_epsilon(loss, self.delta).upper if self.delta else math.inf
                if math.isfinite(same):  # stated at the delta of the unit, so that the two compare
                    epsilon = Fraction(same)
                    delta = self.delta
            except RefusedError:
                loss = None
        return Meaning(epsilon, delta, unit, self.neighbours, loss)

    def lines(
        self, *, household: int = 4, rows: int | None = None, windows: int | None = None
    ) -> list[str]:
        """The meaning in sentences."""
        who = _describe_unit(self.unit)
        sentences = [f"The guarantee: {self.stated}."]
        sentences += [self._belief(prior, who) for prior in PRIORS]
        if self.delta:
            sentences.append(
                f"That holds in all but {_format_rare(self.exception)} of cases; in those, nothing "
                "is promised. A delta far below 1 / number of people keeps this from being the "
                "whole story of anyone."
            )
        sentences += [self._test(rate, who) for rate in RATES]
        many = self.together(household)
        sentences.append(
            f"A household of {household}, counted together: "
            f"{many.phrase(f'for {household} {who}s at once')}."
        )
        if self.unit == "row" or self.unit.endswith(f"({ASSERTED})"):
            count = 10 if rows is None else rows
            is_row = self.unit == "row"
            what = "not one person" if is_row else f"taken for one person: {ASSERTED}"
            sentences.append(f"One row is protected, {what}. {self.person(count, 'rows')}")
        elif rows is not None:
            raise ParameterError(
                f"the unit is {self.unit}: all rows of one are protected together, however many"
            )
        if self.unit.startswith("person_"):
            count = 12 if windows is None else windows
            sentences.append(
                f"One {who} is protected. "
                f"{self.person(count, self.unit.removeprefix('person_') + 's')}"
            )
        elif windows is not None:
            raise ParameterError(f"the unit is {self.unit}, which has no windows")
        sentences.append(
            "What is true of the population can be learned, and can concern people whether or not "
            "they are in the data."
        )
        return sentences

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return write_list(self.lines())

    def person(self, count: int, what: str) -> str:
        """The sentence about one person with `count` rows or windows."""
        return f"A person with {count} {what} has {self.together(count).phrase('in all')}."

    def phrase(self, whom: str) -> str:
        """(epsilon, delta) of this meaning, said of `whom`; an empty guarantee says so."""
        if self.delta >= 1:
            return f"no guarantee {whom}: delta reaches 1"
        return _state_pair(self.epsilon, self.delta, whom, self.neighbours)

    def _belief(self, prior: float, who: str) -> str:
        """Say how far all answers together can move a belief held with probability `prior`."""
        low, high = self.posterior(prior)
        fact = (
            f"that one {who} is in the data"
            if self.neighbours == "add_remove"
            else f"some fact about one {who}"
        )
        return (
            f"Someone who holds it {_format_percent(prior)} likely {fact} can be led by all "
            f"answers together to "
            f"at most {_format_percent(high)}, and at least {_format_percent_down(low)}."
        )

    def _test(self, rate: float, who: str) -> str:
        """Say how many a test can find at most, if it is wrong for a share `rate`."""
        wrong = _format_percent(rate)
        right = _format_percent(self.power(rate))
        if self.neighbours == "add_remove":
            return (
                f"A test that wrongly names {wrong} of the absent finds at most {right} of the "
                f"present, one {who} at a time."
            )
        return (
            f"A test that is wrong for {wrong} of one kind of {who} is right for at "
            f"most {right} of another."
        )

    def to_json(self, **counts: Any) -> dict[str, Any]:
        """The same for programs; numbers are upper bounds as decimal text."""
        return {
            "epsilon": format_rounded_up(self.epsilon),
            "delta": format_rounded_up(self.delta),
            "unit": self.unit,
            "neighbours": self.neighbours,
            "posterior": {
                str(p): [f"{low:.6f}", f"{high:.6f}"]
                for p in PRIORS
                for low, high in [self.posterior(p)]
            },
            "posterior_except": f"{self.exception:.3g}",
            "power": {str(rate): f"{self.power(rate):.6f}" for rate in RATES},
            "household": _describe_pair(self.together(counts.get("household") or 4)),
            "words": self.lines(
                **{key: value for key, value in counts.items() if value is not None}
            ),
        }


@refuse_beyond_floats
def interpret(
    epsilon: Number, delta: Number, *, unit: str, neighbours: Neighbours, loss: Loss | None = None
) -> Meaning:
    """The meaning of (epsilon, delta) for a unit; all four must be said, since none means anything
    without the rest."""
    price = exact(epsilon, "epsilon")
    share = exact(delta, "delta")
    as_float(price, "epsilon")
    as_float(share, "delta")
    if price < 0 or not 0 <= share <= 1:
        raise ParameterError("epsilon is at least 0 and delta lies in [0, 1]")
    if not unit:
        raise ParameterError("say whom the guarantee protects: unit='person', for example")
    return Meaning(price, share, unit, neighbours, loss)


@refuse_beyond_floats
def interpret_loss(loss: Loss, delta: Number) -> Meaning:
    """Interpret a workload that was fixed in advance, by its own curves."""
    epsilon = curve_epsilon(loss, delta).upper
    if not math.isfinite(epsilon):
        raise ParameterError(f"there is no finite epsilon at delta {delta}: choose a larger delta")
    return interpret(
        Fraction(epsilon), delta, unit=loss.unit, neighbours=loss.neighbours, loss=loss
    )


def interpret_pot(pot: Pot) -> Meaning:
    """Interpret the guarantee of a pot at its ceiling: for all that it may ever pay for."""
    epsilon, delta = pot.rule.guarantee(pot.ceiling)
    loss: Loss
    if pot.rule.name == "zcdp":
        loss = ZCDP(pot.ceiling, pot.rule.delta_selection)
    elif pot.rule.name == "rdp" and not pot.rule.delta_selection:
        loss = RDP(pot.rule.alpha, pot.ceiling)
    else:
        loss = Approx(epsilon, delta) if delta else Pure(epsilon)
    loss = replace(loss, neighbours=pot.neighbours, unit=pot.unit)
    return interpret(epsilon, delta, loss=loss, neighbours=pot.neighbours, unit=pot.unit)


def _compute_group_delta(epsilon: Fraction, delta: Fraction, size: int) -> Fraction:
    """Compute delta (1 + e^eps + ... + e^((k-1) eps)), rounded up, at most 1."""
    if delta == 0:
        return Fraction(0)
    exponent = float(epsilon)
    if exponent * size > 700:
        return Fraction(1)
    ratio = size if exponent == 0 else math.expm1(size * exponent) / math.expm1(exponent) * _UP
    return min(Fraction(1), delta * Fraction(ratio))


def _raise_exp(epsilon: Fraction) -> float:
    return math.exp(min(float(epsilon), 700.0))


def _convert_odds(odds: float) -> float:
    return odds / (1 + odds)


def _state_pair(epsilon: Fraction, delta: Fraction, whom: str, neighbours: str) -> str:
    return (
        f"epsilon {format_rounded_up(epsilon)} at delta {format_rounded_up(delta)}, "
        f"{whom} ({neighbours})"
    )


def _describe_pair(meaning: Meaning) -> dict[str, str]:
    """Write epsilon, delta and unit as texts, rounded up."""
    return {
        "epsilon": format_rounded_up(meaning.epsilon),
        "delta": format_rounded_up(meaning.delta),
        "unit": meaning.unit,
    }


def _describe_unit(unit: str) -> str:
    """person_month -> person in one month. That a person was asserted is a sentence of its own."""
    if unit.startswith("person_"):
        return f"person in one {unit.removeprefix('person_')}"
    return unit.removesuffix(f" ({ASSERTED})")


def _format_percent(share: float) -> str:
    """Rounded up to three significant digits, and never to 100 unless it is."""
    return _format_digits(share, math.ceil)


def _format_percent_down(share: float) -> str:
    return _format_digits(share, math.floor)


def _format_digits(share: float, to: Any) -> str:
    """Write a share in percent, with three digits, rounded by `to` (math.ceil or math.floor)."""
    if share >= 1:
        return "100%"
    if share <= 0:
        return "0%"
    hundred = share * 100
    decimals = max(0, 2 - math.floor(math.log10(hundred)))
    if hundred > 99:
        decimals = max(decimals, 2 - math.floor(math.log10(100 - hundred)))
    decimals = min(decimals, 12)
    nudge = 1e-9 * 10**-decimals
    percent = (
        to((hundred - nudge if to is math.ceil else hundred + nudge) * 10**decimals) / 10**decimals
    )
    return (
        f"{percent:.{decimals}f}".rstrip("0").rstrip(".") + "%" if decimals else f"{percent:.0f}%"
    )


def _format_rare(share: float) -> str:
    return f"1 in {math.floor(1 / share):,}" if 0 < share < 0.5 else _format_percent(share)
