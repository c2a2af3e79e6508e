"""Expressions over released numbers: what a person asked for, as arithmetic on noisy cells.

Pure data.

>>> Apply("divide", (Noisy(0), Noisy(1)))
Apply(name='divide', arguments=(Noisy(atom=0), Noisy(atom=1)))
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Literal, TypeAlias

from dither.stored import stored


@stored("noisy", atom="atom")
@dataclass(frozen=True)
class Noisy:
    """A released number of the row's cell, in its own units: the recipe's atom of this index."""

    atom: int


@stored("constant", value="value", kind="kind")
@dataclass(frozen=True)
class Constant:
    """A public constant: a number, a text (to compare keys with), a truth value (0 or 1), or null.

    `kind` marks a number of days since 1970-01-01 as a date, and a number of seconds as a time.
    """

    value: Fraction | str | None
    kind: Literal["date", "timestamp"] | None = None


@stored("key_value", key="key")
@dataclass(frozen=True)
class KeyValue:
    """The row's value of a key, by its index in `Recipe.keys`.

    Null in grouping sets that leave it out.
    """

    key: int


@stored("grouping", key="key")
@dataclass(frozen=True)
class Grouping:
    """1 if the row's grouping set leaves the key out, else 0."""

    key: int


@stored("apply", name="name", arguments="arguments")
@dataclass(frozen=True)
class Apply:
    """A function of `FUNCTIONS`, applied; undefined (null) where the arithmetic is, never an error.

    `size` counts the nodes of the formula, shared arguments as often as they occur. It is computed
    from the sizes of the arguments: the written-out tree of a short question may be too large to
    walk.
    """

    name: str
    arguments: tuple[Formula, ...]
    size: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(map(count_nodes, self.arguments)))

    @cached_property
    def atoms(self) -> tuple[int, ...]:
        """The atoms that the formula reads, in order."""
        atoms: set[int] = set()
        for argument in self.arguments:
            if isinstance(argument, Apply):
                atoms.update(argument.atoms)
            elif isinstance(argument, Noisy):
                atoms.add(argument.atom)
        return tuple(sorted(atoms))


Formula: TypeAlias = Noisy | Constant | KeyValue | Grouping | Apply


def count_nodes(formula: Formula) -> int:
    """How many nodes a formula has, shared arguments counted as often as they occur.

    >>> double = Apply("add", (Noisy(0), Noisy(0)))
    >>> count_nodes(Apply("add", (double, double)))
    7
    """
    return formula.size if isinstance(formula, Apply) else 1


FUNCTIONS = {
    **dict.fromkeys(("add", "subtract", "multiply", "divide", "power"), "numbers"),
    **dict.fromkeys(
        ("negate", "abs", "sqrt", "round", "floor", "ceil", "sign", "ln", "exp"), "numbers"
    ),
    **dict.fromkeys(("least", "greatest", "coalesce", "nullif", "case"), "choices"),
    **dict.fromkeys(
        ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "is_null"), "conditions"
    ),
}
"""`case` takes condition, value, condition, value, ..., otherwise.

`round` takes a number and decimals.
"""
