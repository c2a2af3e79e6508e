"""What a row of the function table is: argument domains, result domain, null rule and guard.

A function is *total*: on every value of its argument domains it gives a value of its result domain
or null. Not in the table: refused. The SQL of each function is in `dither.data.lower.functions`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Literal

from dither.errors import RefusedError
from dither.plan.domain import Domain
from dither.plan.expressions import Constant, Kind
from dither.rules import PrivacyRule

NullRule = Literal[
    "null if an argument is", "skips nulls", "never null", "three-valued", "null if it says so"
]


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call: domains, and constants (None where not constant)."""

    function: str
    domains: tuple[Domain, ...]
    constants: tuple[Constant | None, ...]

    @property
    def any_null(self) -> bool:
        return any(domain.nullable for domain in self.domains)

    def refuse(self, why: str) -> RefusedError:
        return RefusedError(f"{self.function}: {why}", rule=PrivacyRule.ARGUMENTS)

    def expect(self, *kinds: tuple[Kind, ...] | Kind) -> None:
        """Check number and kinds of the arguments."""
        if len(kinds) != len(self.domains):
            raise self.refuse(f"takes {len(kinds)} arguments, got {len(self.domains)}")
        for position, (kind, domain) in enumerate(zip(kinds, self.domains, strict=True), 1):
            if domain.kind not in (kind if isinstance(kind, tuple) else (kind,)):
                wanted = kind if isinstance(kind, str) else " or ".join(kind)
                raise self.refuse(f"argument {position} must be a {wanted}, not a {domain.kind}")

    def all_of(self, kind: Kind, least: int = 1) -> None:
        """Check that all arguments are of one kind, and that there are enough."""
        if len(self.domains) < least or len(self.domains) > 50:
            raise self.refuse(f"takes {least} to 50 arguments, got {len(self.domains)}")
        self.expect(*[kind] * len(self.domains))

    def number(self, position: int) -> Fraction:
        """Return an argument that must be a constant number. Raises RefusedError for any other."""
        value = self.constants[position]
        if not isinstance(value, Fraction):
            raise self.refuse(f"argument {position + 1} must be a constant number")
        return value

    def whole(self, position: int, low: int, high: int) -> int:
        """Return an argument that must be a constant whole number from `low` to `high`.

        Raises RefusedError for any other.
        """
        value = self.number(position)
        if value.denominator != 1 or not low <= value <= high:
            raise self.refuse(
                f"argument {position + 1} must be a whole number from {low} to {high}"
            )
        return int(value)

    def text(self, position: int) -> str:
        """Return an argument that must be a constant text. Raises RefusedError for any other."""
        value = self.constants[position]
        if not isinstance(value, str):
            raise self.refuse(f"argument {position + 1} must be a constant text")
        return value

    def common(self) -> tuple[Fraction, tuple[int, ...]]:
        """Find the coarsest step of which all arguments' steps are multiples, and those
        multiples."""
        step = self.domains[0].step
        for domain in self.domains[1:]:
            step = step if domain.step == step else common_step(step, domain.step)
        return step, tuple(
            1 if domain.step == step else int(domain.step / step) for domain in self.domains
        )


@dataclass(frozen=True)
class Function:
    """One row of the table. `result` checks the arguments and gives the domain."""

    name: str
    takes: str
    gives: str
    nulls: NullRule
    guard: str
    result: Callable[[Arguments], Domain]


def common_step(first: Fraction, second: Fraction) -> Fraction:
    """
    >>> common_step(Fraction(1, 100), Fraction(5))
    Fraction(1, 100)
    """
    top = gcd(first.numerator * second.denominator, second.numerator * first.denominator)
    return Fraction(top, first.denominator * second.denominator)


def scaled(a: Arguments) -> tuple[list[tuple[int, int]], Fraction]:
    """All arguments on their common grid: intervals and step."""
    step, factors = a.common()
    intervals = [(d.low * f, d.high * f) for d, f in zip(a.domains, factors, strict=True)]
    return intervals, step


def truth(nullable: bool) -> Domain:
    """The domain of a truth value."""
    return Domain("boolean", nullable, 0, 1)
