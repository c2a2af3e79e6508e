"""The budget of one device for life: every protocol that runs on it draws from the same one, and
nothing renews itself.

A budget cannot be copied or pickled, and a forked child may not spend it: each copy would spend the
whole again. What no program can see is a *restored backup*; give `from_json` the number of answers
that you know of from elsewhere (a counter that only grows), and an older state is refused.

>>> budget = DeviceBudget(3)
>>> budget.charge("themes", Fraction(2))
>>> budget.left
Fraction(1, 1)
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import lcm
from threading import Lock
from typing import Any, NoReturn

from dither.canonical import Number, fraction_text, positive
from dither.errors import BudgetError, ParameterError


@dataclass(frozen=True)
class DeviceCharge:
    """New answers of one protocol (the start of its digest, in hex, and its name) and what each
    cost."""

    protocol: str
    epsilon: Fraction
    answers: int = 1


@dataclass(frozen=True)
class Renewal:
    """A budget raised by an explicit act, never by the passing of time."""

    epsilon: Fraction
    because: str


class DeviceBudget:
    """A ledger of charges against one lifetime epsilon. Share one among all clients of a device.

    `unit` is what the losses protect: "user", or what a protocol with a weaker promise names. Units
    do not mix.
    """

    def __init__(self, lifetime_epsilon: Number, *, unit: str = "user") -> None:
        """Start a budget of `lifetime_epsilon` for one device, with nothing spent.

        `unit` is what one loss protects, such as a user; all protocols that share the
        budget have the same.
        """
        self._lifetime = positive(lifetime_epsilon, "lifetime_epsilon")
        # what is left, in integers: _left / _over
        self._left = self._lifetime.numerator
        self._over = self._lifetime.denominator
        self._answers: dict[tuple[str, int, int], int] = {}
        self._renewals: list[Renewal] = []
        self._lock = Lock()
        self._process = os.getpid()
        self.unit = unit
        self.keep: Callable[[dict[str, Any]], None] | None = (
            None  # stores the state, before a charge takes effect
        )

    @property
    def lifetime_epsilon(self) -> Fraction:
        return self._lifetime

    @property
    def spent(self) -> Fraction:
        return self._lifetime - self.left

    @property
    def left(self) -> Fraction:
        return Fraction(self._left, self._over)

    @property
    def charges(self) -> tuple[DeviceCharge, ...]:
        return tuple(
            DeviceCharge(name, Fraction(n, d), answers)
            for (name, n, d), answers in self._answers.items()
        )

    @property
    def renewals(self) -> tuple[Renewal, ...]:
        return tuple(self._renewals)

    @property
    def answers(self) -> int:
        """How many new answers this device ever gave: a counter that only grows."""
        return sum(self._answers.values())

    def charge(self, protocol: str, epsilon: Fraction) -> None:
        """Enter a charge, or raise BudgetError: the lifetime budget is never passed."""
        with self._lock:
            price = self.require(epsilon)  # first: it may widen the ledger's units
            self._left -= price
            key = (protocol, epsilon.numerator, epsilon.denominator)
            self._answers[key] = self._answers.get(key, 0) + 1
            if self.keep is not None:
                self.keep(self.to_json())

    def require(self, epsilon: Fraction, answers: int = 1) -> int:
        """Raise BudgetError unless the answers can still be paid, here; returns their price in the
        ledger's units."""
        if self._process != os.getpid():
            raise BudgetError(
                "this process was forked from the one that holds the device's budget, and both "
                "would spend it: "
                "report from one process, or hand the state over with to_json and from_json"
            )
        if self._over % epsilon.denominator:
            wider = lcm(self._over, epsilon.denominator)
            self._left = self._left * (wider // self._over)
            self._over = wider
        price = answers * epsilon.numerator * (self._over // epsilon.denominator)
        if price > self._left:
            raise BudgetError(
                f"this device has spent {float(self.spent):g} of its lifetime budget "
                f"{float(self.lifetime_epsilon):g}; a new answer costs epsilon {float(epsilon):g}, "
                f"delta 0, for one "
                f"{self.unit}. "
                "It never renews by itself: renew(epsilon, because=...) records an explicit "
                "decision"
            )
        return price

    def renew(self, epsilon: Number, *, because: str) -> None:
        """Add to the lifetime budget, with a reason that stays on record; the total is what the
        user is told."""
        if not because.strip():
            raise ParameterError("a renewal needs a reason: say who decided and why")
        more = positive(epsilon, "epsilon")
        with self._lock:
            self._renewals.append(Renewal(more, because))
            left = self.left + more
            self._lifetime = self._lifetime + more
            self._left = left.numerator
            self._over = left.denominator
            if self.keep is not None:
                self.keep(self.to_json())

    def to_json(self) -> dict[str, Any]:
        """Write the budget as plain JSON: its lifetime, unit, charges and renewals."""
        return {
            "lifetime_epsilon": fraction_text(self.lifetime_epsilon),
            "unit": self.unit,
            "charges": [
                {"protocol": c.protocol, "epsilon": fraction_text(c.epsilon), "answers": c.answers}
                for c in self.charges
            ],
            "renewals": [
                {"epsilon": fraction_text(r.epsilon), "because": r.because} for r in self.renewals
            ],
        }

    @classmethod
    def from_json(cls, state: dict[str, Any], *, known_answers: int = 0) -> DeviceBudget:
        """Read the budget that `to_json` wrote; refuses one with fewer answers than were given.

        It raises ParameterError; `known_answers` is how many the device is known to have given.
        """
        budget = cls(state["lifetime_epsilon"], unit=state["unit"])
        budget._renewals = [
            Renewal(positive(r["epsilon"], "epsilon"), r["because"]) for r in state["renewals"]
        ]
        if budget._lifetime <= sum(r.epsilon for r in budget._renewals):
            raise ParameterError(
                "the stored budget contradicts itself: it was renewed by more than its total"
            )
        for charge in state["charges"]:
            price = positive(charge["epsilon"], "epsilon")
            answers = charge["answers"]
            if not isinstance(answers, int) or answers < 1:
                raise ParameterError("a stored charge names no number of answers")
            whole = budget.require(price, answers)
            budget._left -= whole
            budget._answers[charge["protocol"], price.numerator, price.denominator] = answers
        if budget.answers < known_answers:
            raise ParameterError(
                f"the stored budget knows {budget.answers} answers, but {known_answers} were "
                f"given: it is an old copy"
            )
        return budget

    def includes(self, state: dict[str, Any]) -> bool:
        """Whether every charge and renewal of a stored budget is in this one."""
        stored = DeviceBudget.from_json(state)
        own_answers = {(c.protocol, c.epsilon): c.answers for c in self.charges}
        kept = all(own_answers.get((c.protocol, c.epsilon), 0) >= c.answers for c in stored.charges)
        return kept and self.renewals[: len(stored.renewals)] == stored.renewals

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise TypeError(
            "a device's budget cannot be copied: each copy would spend the whole. Share the object"
        )

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = __setstate__ = (
        _refuse_copy
    )
