"""The budget of one device for life: every protocol that runs on it draws from the same one, and nothing renews itself.

>>> budget = DeviceBudget(3)
>>> budget.charge("themes", Fraction(2))
>>> budget.left
Fraction(1, 1)
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.canonical import Number, exact, fraction_text, positive
from dither.errors import BudgetError, ParameterError


@dataclass(frozen=True)
class Charge:
    """One new answer: the protocol (the start of its digest, in hex, and its name) and what it cost."""

    protocol: str
    epsilon: Fraction


@dataclass(frozen=True)
class Renewal:
    """A budget raised by an explicit act, never by the passing of time."""

    epsilon: Fraction
    because: str


class DeviceBudget:
    """A ledger of charges against one lifetime epsilon. Share one among all clients of a device."""

    def __init__(self, lifetime_epsilon: Number) -> None:
        self.lifetime_epsilon = positive(lifetime_epsilon, "lifetime_epsilon")
        self.charges: tuple[Charge, ...] = ()
        self.renewals: tuple[Renewal, ...] = ()

    @property
    def spent(self) -> Fraction:
        return sum((charge.epsilon for charge in self.charges), Fraction(0))

    @property
    def left(self) -> Fraction:
        return self.lifetime_epsilon - self.spent

    def charge(self, protocol: str, epsilon: Fraction) -> None:
        """Enter a charge, or refuse it: the lifetime budget is never passed."""
        self.require(epsilon)
        self.charges += (Charge(protocol, epsilon),)

    def require(self, epsilon: Fraction) -> None:
        """Raise BudgetError unless `epsilon` can still be paid."""
        if epsilon > self.left:
            raise BudgetError(
                f"this device has spent {float(self.spent):g} of its lifetime budget "
                f"{float(self.lifetime_epsilon):g}; a new answer costs {float(epsilon):g}. "
                "It never renews by itself: renew(epsilon, because=...) records an explicit decision"
            )

    def renew(self, epsilon: Number, *, because: str) -> None:
        """Add to the lifetime budget, with a reason that stays on record; the total is what the user is told."""
        if not because.strip():
            raise ParameterError("a renewal needs a reason: say who decided and why")
        more = positive(epsilon, "epsilon")
        self.renewals += (Renewal(more, because),)
        self.lifetime_epsilon += more

    def to_json(self) -> dict[str, Any]:
        return {
            "lifetime_epsilon": fraction_text(self.lifetime_epsilon),
            "charges": [{"protocol": c.protocol, "epsilon": fraction_text(c.epsilon)} for c in self.charges],
            "renewals": [{"epsilon": fraction_text(r.epsilon), "because": r.because} for r in self.renewals],
        }

    @classmethod
    def from_json(cls, state: dict[str, Any]) -> DeviceBudget:
        found = cls(state["lifetime_epsilon"])
        found.charges = tuple(Charge(c["protocol"], exact(c["epsilon"], "epsilon")) for c in state["charges"])
        found.renewals = tuple(Renewal(exact(r["epsilon"], "epsilon"), r["because"]) for r in state["renewals"])
        return found
