"""What a row of the function table is: argument domains, result domain, null rule, guard, and its lowering.

A function is *total*: on every value of its argument domains it gives a value of its result domain or null, and its SQL
cannot raise, whatever rows the engine feeds it and in whatever order. Not in the table: refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import Literal

from dither.errors import RefusedError
from dither.plan.domain import LIMIT, Domain
from dither.plan.expressions import Constant, Kind

NullRule = Literal["null if an argument is", "skips nulls", "never null", "three-valued", "null if it says so"]
WIDE = 2**62


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call: domains, constants (None where not constant), and in lowering their SQL.

    The SQL of an argument is a column name or a literal, so that repeating it costs nothing.
    """

    function: str
    domains: tuple[Domain, ...]
    constants: tuple[Constant | None, ...]
    sql: tuple[str, ...] = ()

    @property
    def any_null(self) -> bool:
        return any(domain.nullable for domain in self.domains)

    def refuse(self, why: str) -> RefusedError:
        return RefusedError(f"{self.function}: {why}", rule="functions take their declared arguments")

    def expect(self, *kinds: tuple[Kind, ...] | Kind) -> None:
        """Check number and kinds of the arguments."""
        if len(kinds) != len(self.domains):
            raise self.refuse(f"takes {len(kinds)} arguments, got {len(self.domains)}")
        for place, (kind, domain) in enumerate(zip(kinds, self.domains, strict=True), 1):
            if domain.kind not in (kind if isinstance(kind, tuple) else (kind,)):
                wanted = kind if isinstance(kind, str) else " or ".join(kind)
                raise self.refuse(f"argument {place} must be a {wanted}, not a {domain.kind}")

    def all_of(self, kind: Kind, least: int = 1) -> None:
        """Check that all arguments are of one kind, and that there are enough."""
        if len(self.domains) < least or len(self.domains) > 50:
            raise self.refuse(f"takes {least} to 50 arguments, got {len(self.domains)}")
        self.expect(*[kind] * len(self.domains))

    def number(self, place: int) -> Fraction:
        """A constant number."""
        value = self.constants[place]
        if not isinstance(value, Fraction):
            raise self.refuse(f"argument {place + 1} must be a constant number")
        return value

    def whole(self, place: int, low: int, high: int) -> int:
        """A constant whole number in a range."""
        value = self.number(place)
        if value.denominator != 1 or not low <= value <= high:
            raise self.refuse(f"argument {place + 1} must be a whole number from {low} to {high}")
        return int(value)

    def text(self, place: int) -> str:
        """A constant text."""
        value = self.constants[place]
        if not isinstance(value, str):
            raise self.refuse(f"argument {place + 1} must be a constant text")
        return value

    def common(self) -> tuple[Fraction, tuple[int, ...]]:
        """The coarsest step of which all arguments' steps are multiples, and those multiples."""
        step = self.domains[0].step
        for domain in self.domains[1:]:
            step = common_step(step, domain.step)
        return step, tuple(int(domain.step / step) for domain in self.domains)


@dataclass(frozen=True)
class Function:
    """One row of the table. `result` checks the arguments and gives the domain; `duckdb` writes total SQL."""

    name: str
    takes: str
    gives: str
    nulls: NullRule
    guard: str
    result: Callable[[Arguments], Domain]
    duckdb: Callable[[Arguments, Domain], str]
    undefined: Callable[[Arguments], str] | None = None
    """SQL: where it is null though no argument is; `duckdb` then gives some value of the domain there, no null."""


def common_step(one: Fraction, two: Fraction) -> Fraction:
    """
    >>> common_step(Fraction(1, 100), Fraction(5))
    Fraction(1, 100)
    """
    top = gcd(one.numerator * two.denominator, two.numerator * one.denominator)
    return Fraction(top, one.denominator * two.denominator)


def cast(sql: str, *sizes: int) -> str:
    """An integer in a type that holds every size named; refused above 37 digits."""
    largest = max(map(abs, sizes))
    if largest >= LIMIT:
        raise RefusedError("an intermediate value could have more than 37 digits", rule="widths come from the catalog")
    return f"CAST({sql} AS {'BIGINT' if largest < WIDE else 'HUGEINT'})"


def scaled(a: Arguments) -> tuple[list[tuple[int, int]], Fraction, list[str]]:
    """All arguments on their common grid: intervals, step, SQL."""
    step, factors = a.common()
    intervals = [(d.low * f, d.high * f) for d, f in zip(a.domains, factors, strict=True)]
    most = max(abs(end) for interval in intervals for end in interval)
    sql = [f"({cast(s, most)} * {f})" for s, f in zip(a.sql, factors, strict=False)]
    return intervals, step, sql


def floor_divided(top: str, bottom: str) -> str:
    """SQL of floor(top / bottom) for bottom > 0, where `//` cuts towards zero.

    >>> floor_divided("a", "2")
    '((a) // (2) - CAST((a) % (2) < 0 AS BIGINT))'
    """
    return f"(({top}) // ({bottom}) - CAST(({top}) % ({bottom}) < 0 AS BIGINT))"


def clamped(sql: str, low: int | str, high: int | str) -> str:
    """SQL of a value moved between two ends; null stays null, and no row takes another path than its neighbours.

    >>> clamped("x", 0, 5)
    'CASE WHEN x < 0 THEN 0 WHEN x > 5 THEN 5 ELSE x END'
    """
    return f"CASE WHEN {sql} < {low} THEN {low} WHEN {sql} > {high} THEN {high} ELSE {sql} END"


def quoted(text: str) -> str:
    """A text constant in SQL."""
    return "'" + text.replace("'", "''") + "'"


def truth(nullable: bool) -> Domain:
    """The domain of a truth value."""
    return Domain("boolean", nullable, 0, 1)
