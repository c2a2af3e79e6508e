"""Expressions over released numbers: what a person asked for, as arithmetic on noisy cells. Pure data.

>>> Apply("divide", (Noisy(0), Noisy(1)))
Apply(name='divide', arguments=(Noisy(atom=0), Noisy(atom=1)))
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True)
class Noisy:
    """A released number of the row's cell, in its own units: the recipe's atom of this index."""

    atom: int


@dataclass(frozen=True)
class Constant:
    """A public constant: a number, a text (to compare keys with), a truth value (0 or 1), or null."""

    value: Fraction | str | None


@dataclass(frozen=True)
class KeyValue:
    """The row's value of a key, by its index in `Recipe.keys`; null in grouping sets that leave it out."""

    key: int


@dataclass(frozen=True)
class Grouping:
    """1 if the row's grouping set leaves the key out, else 0."""

    key: int


@dataclass(frozen=True)
class Apply:
    """A function of `FUNCTIONS`, applied; undefined (null) where the arithmetic is, never an error."""

    name: str
    arguments: tuple[Formula, ...]


Formula: TypeAlias = Noisy | Constant | KeyValue | Grouping | Apply

FUNCTIONS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "power"), "numbers"),
    **dict.fromkeys(("negate", "abs", "sqrt", "round", "floor", "ceil", "sign", "ln", "exp"), "numbers"),
    **dict.fromkeys(("least", "greatest", "coalesce", "nullif", "case"), "choices"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null"), "conditions"),
}
"""`case` takes condition, value, condition, value, ..., otherwise. `round` takes a number and decimals."""
