"""What a formula may show: CASE, IF, COALESCE and NULLIF as alternatives, each with the conditions
that choose it.

An alternative's value holds no choice any more. Every row shows exactly one of them.

>>> from fractions import Fraction
>>> large = Apply("gt", (Noisy(0), Constant(Fraction(100))))
>>> for each in list_alternatives(Apply("case", (large, Noisy(0), Constant(None)))):
...     print(each.value, [is_true for _, is_true in each.conditions], each.is_noisy)
Noisy(atom=0) [True] True
Constant(value=None, kind=None) [False] False
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.answer.evaluate import FormulaInputs, evaluate
from dither.question.expressions import FUNCTIONS, Apply, Constant, Formula, Noisy
from dither.question.shapes import atoms_of

MOST_ALTERNATIVES = 64
_NULL = Constant(None)
_NOT_STRICT = ("and", "or", "is_null", "least", "greatest")
"""Functions that may have a value although an argument is null."""

Conditions = tuple[tuple[Formula, bool], ...]


@dataclass(frozen=True)
class Alternative:
    """A value without choices, and for each condition whether it must be true (or not true) for the
    value to show."""

    value: Formula
    conditions: Conditions = ()

    @property
    def is_noisy(self) -> bool:
        """Whether the value is made of released numbers: then it has an interval."""
        return bool(atoms_of(self.value))

    @property
    def is_chosen_by_noise(self) -> bool:
        """Whether released numbers decide that it shows."""
        return any(atoms_of(condition) for condition, _ in self.conditions)

    def public_conditions(self) -> Conditions:
        """The conditions that read keys and constants alone."""
        return tuple(pair for pair in self.conditions if not atoms_of(pair[0]))


class _TooMany(Exception):
    """Raised where a formula has more alternatives than are told apart."""


@lru_cache(maxsize=256)
def list_alternatives(formula: Formula) -> tuple[Alternative, ...]:
    """List all values that a formula may show; empty above 64, where no intervals are made."""
    splitter = _Splitter()
    try:
        choices = splitter.split(formula)
    except _TooMany:
        return ()
    conditions = list(splitter.numbers)
    return tuple(
        Alternative(
            value, tuple((conditions[number], is_true) for number, is_true in chosen.items())
        )
        for value, chosen in choices
    )


def list_noisy_values(formula: Formula) -> dict[Formula, tuple[Alternative, ...]]:
    """List the different estimates that a formula may show, each with its alternatives."""
    by_value: dict[Formula, tuple[Alternative, ...]] = {}
    for alternative in list_alternatives(formula):
        if alternative.is_noisy:
            by_value[alternative.value] = (*by_value.get(alternative.value, ()), alternative)
    return by_value


def is_chosen_by_noise(formula: Formula) -> bool:
    """Whether released numbers decide what the formula shows.

    Also true where it has too many alternatives to list.
    """
    alternatives = list_alternatives(formula)
    return not alternatives or any(alternative.is_chosen_by_noise for alternative in alternatives)


def select_rows(conditions: Conditions, inputs: FormulaInputs, rows: int) -> NDArray[np.bool_]:
    """Select the rows that meet all conditions, as a mask."""
    kept = np.ones(rows, np.bool_)
    for condition, is_true in conditions:
        kept &= np.broadcast_to((evaluate(condition, inputs) == 1) == is_true, (rows,))
    return kept


def group_rows(
    formula: Formula, inputs: FormulaInputs, rows: int
) -> list[tuple[Alternative, NDArray[np.int64]]]:
    """List every alternative with the rows that show it. Each condition is evaluated once."""
    alternatives = list_alternatives(formula)
    conditions = dict.fromkeys(
        condition for alternative in alternatives for condition, _ in alternative.conditions
    )
    true = {condition: select_rows(((condition, True),), inputs, rows) for condition in conditions}
    pairs = []
    for alternative in alternatives:
        kept = np.ones(rows, np.bool_)
        for condition, is_true in alternative.conditions:
            kept &= true[condition] if is_true else ~true[condition]
        pairs.append((alternative, np.flatnonzero(kept)))
    return pairs


_Chosen = dict[int, bool]
"""Conditions by number, each with whether it must be true."""
_Choices = list[tuple[Formula, _Chosen]]


class _Splitter:
    """Splits one formula.

    Conditions are numbered: comparing long formulas again and again is slow.
    """

    def __init__(self) -> None:
        self.numbers: dict[Formula, int] = {}

    def split(self, formula: Formula) -> _Choices:
        """Split a formula into pairs (formula without choices, conditions under which it shows)."""
        match formula:
            case Apply("case", arguments):
                return self._case(arguments)
            case Apply("coalesce", arguments):
                return self._coalesce(arguments)
            case Apply("divide", (above, Apply("nullif", (below, Constant(value))))) if value == 0:
                # Null where below is 0, with NULLIF or without.
                return self.split(Apply("divide", (above, below)))
            case Apply("nullif", (inner, other)):
                equal = self._number(Apply("eq", (inner, other)))
                return _check_count(
                    [(_NULL, {equal: True}), *_add_conditions({equal: False}, self.split(inner))]
                )
            case Apply(name, arguments):
                return _split_function(name, [self.split(argument) for argument in arguments])
        return [(formula, {})]

    def _number(self, condition: Formula) -> int:
        return self.numbers.setdefault(condition, len(self.numbers))

    def _case(self, arguments: tuple[Formula, ...]) -> _Choices:
        """Split a CASE; a value is shown where its condition is true and all earlier ones are not.

        `arguments` are condition, value, condition, value, ..., and the ELSE if there is one.
        """
        otherwise = arguments[-1] if len(arguments) % 2 else _NULL
        choices: _Choices = []
        skipped: _Chosen = {}
        for condition, value in zip(arguments[:-1:2], arguments[1::2], strict=False):
            number = self._number(condition)
            if number not in skipped:
                choices = _check_count(
                    [*choices, *_add_conditions({**skipped, number: True}, self.split(value))]
                )
                skipped = {**skipped, number: False}
        return _check_count([*choices, *_add_conditions(skipped, self.split(otherwise))])

    def _coalesce(self, arguments: tuple[Formula, ...]) -> _Choices:
        """Split a COALESCE: a value is shown where it is not null and all earlier ones are."""
        choices: _Choices = []
        skipped: _Chosen = {}
        for value in arguments[:-1]:
            # Never null.
            if isinstance(value, Noisy) or (isinstance(value, Constant) and value != _NULL):
                return _check_count([*choices, *_add_conditions(skipped, self.split(value))])
            missing = self._number(Apply("is_null", (value,)))
            if missing not in skipped:
                values = [pair for pair in self.split(value) if pair[0] != _NULL]
                choices = _check_count(
                    [*choices, *_add_conditions({**skipped, missing: False}, values)]
                )
                skipped = {**skipped, missing: True}
        return _check_count([*choices, *_add_conditions(skipped, self.split(arguments[-1]))])


def _split_function(name: str, arguments: list[_Choices]) -> _Choices:
    """Split a function of arguments that are choices themselves, into one pair per combination.

    Combinations whose conditions contradict each other are left out. Raises _TooMany above
    MOST_ALTERNATIVES.
    """
    combined: list[tuple[tuple[Formula, ...], _Chosen]] = [((), {})]
    for argument in arguments:
        combined = [
            ((*values, value), together)
            for values, before in combined
            for value, chosen in argument
            if (together := _join_conditions(before, chosen)) is not None
        ]
        if len(combined) > MOST_ALTERNATIVES:
            raise _TooMany
    is_strict = name in FUNCTIONS and name not in _NOT_STRICT
    return [
        (_NULL if is_strict and _NULL in values else Apply(name, values), chosen)
        for values, chosen in combined
    ]


def _add_conditions(conditions: _Chosen, choices: _Choices) -> _Choices:
    """Add conditions to alternatives; those that contradict them are left out."""
    joined = ((value, _join_conditions(conditions, chosen)) for value, chosen in choices)
    return [(value, together) for value, together in joined if together is not None]


def _join_conditions(first: _Chosen, second: _Chosen) -> _Chosen | None:
    """Join two sets of conditions; None if they contradict each other."""
    if any(first.get(number, is_true) != is_true for number, is_true in second.items()):
        return None
    return {**first, **second}


def _check_count(choices: _Choices) -> _Choices:
    if len(choices) > MOST_ALTERNATIVES:
        raise _TooMany
    return choices
