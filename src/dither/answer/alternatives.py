"""What a formula may show: CASE, IF, COALESCE and NULLIF as alternatives, each with the conditions that choose it.

An alternative's value holds no choice any more. Every row shows exactly one of them.

>>> from fractions import Fraction
>>> large = Apply("gt", (Noisy(0), Constant(Fraction(100))))
>>> for each in alternatives(Apply("case", (large, Noisy(0), Constant(None)))):
...     print(each.value, [is_true for _, is_true in each.conditions], each.is_noisy)
Noisy(atom=0) [True] True
Constant(value=None) [False] False
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dither.answer.evaluate import Given, evaluate
from dither.answer.expressions import FUNCTIONS, Apply, Constant, Formula, Noisy
from dither.answer.shapes import atoms_of

MOST_ALTERNATIVES = 64
_NULL = Constant(None)
_NOT_STRICT = ("and", "or", "is_null", "least", "greatest")
"""Functions that may have a value although an argument is null."""

Conditions = tuple[tuple[Formula, bool], ...]


@dataclass(frozen=True)
class Alternative:
    """A value without choices, and for each condition whether it must be true (or not true) for the value to show."""

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
    """A formula has more alternatives than are told apart."""


@lru_cache(maxsize=256)
def alternatives(formula: Formula) -> tuple[Alternative, ...]:
    """All that the formula may show; empty where there are more than 64, whose intervals are not made."""
    try:
        return tuple(_alternatives(formula))
    except _TooMany:
        return ()


def noisy_values(formula: Formula) -> dict[Formula, tuple[Alternative, ...]]:
    """The different estimates that the formula may show, each with the alternatives that show it."""
    found: dict[Formula, tuple[Alternative, ...]] = {}
    for each in alternatives(formula):
        if each.is_noisy:
            found[each.value] = (*found.get(each.value, ()), each)
    return found


def is_chosen_by_noise(formula: Formula) -> bool:
    """Whether released numbers decide what the formula shows, or how many alternatives it has is not known."""
    shown = alternatives(formula)
    return not shown or any(each.is_chosen_by_noise for each in shown)


def rows_where(conditions: Conditions, at: Given, rows: int) -> NDArray[np.bool_]:
    """Which rows meet all conditions."""
    kept = np.ones(rows, np.bool_)
    for condition, is_true in conditions:
        kept &= np.broadcast_to((evaluate(condition, at) == 1) == is_true, (rows,))
    return kept


def _alternatives(formula: Formula) -> list[Alternative]:
    match formula:
        case Apply("case", arguments):
            return _of_case(arguments)
        case Apply("coalesce", arguments):
            return _of_coalesce(arguments)
        case Apply("divide", (above, Apply("nullif", (below, Constant(value))))) if value == 0:
            return _alternatives(Apply("divide", (above, below)))  # null where below is 0, with NULLIF or without
        case Apply("nullif", (value, other)):
            equal = Apply("eq", (value, other))
            different = _given(((equal, False),), _alternatives(value))
            return _check_number([Alternative(_NULL, ((equal, True),)), *different])
        case Apply(name, arguments):
            return _of_function(name, [_alternatives(each) for each in arguments])
    return [Alternative(formula)]


def _of_case(arguments: tuple[Formula, ...]) -> list[Alternative]:
    pairs = list(zip(arguments[:-1:2], arguments[1::2], strict=False))
    otherwise = arguments[-1] if len(arguments) % 2 else _NULL
    shown: list[Alternative] = []
    skipped: Conditions = ()
    for condition, value in pairs:
        if (condition, False) in skipped:
            continue
        shown += _given((*skipped, (condition, True)), _alternatives(value))
        skipped = (*skipped, (condition, False))
        _check_number(shown)
    shown += _given(skipped, _alternatives(otherwise))
    return _check_number(shown)


def _of_coalesce(arguments: tuple[Formula, ...]) -> list[Alternative]:
    shown: list[Alternative] = []
    skipped: Conditions = ()
    for value in arguments[:-1]:
        if isinstance(value, Noisy) or (isinstance(value, Constant) and value != _NULL):  # never null
            return _check_number(shown + _given(skipped, _alternatives(value)))
        missing = Apply("is_null", (value,))
        if (missing, True) in skipped:
            continue
        values = [each for each in _alternatives(value) if each.value != _NULL]
        shown += _given((*skipped, (missing, False)), values)
        skipped = (*skipped, (missing, True))
        _check_number(shown)
    return _check_number(shown + _given(skipped, _alternatives(arguments[-1])))


def _of_function(name: str, arguments: list[list[Alternative]]) -> list[Alternative]:
    """A function of choices is a choice among the function's values."""
    combined: list[tuple[tuple[Formula, ...], Conditions]] = [((), ())]
    for argument in arguments:
        combined = [
            ((*values, each.value), conditions)
            for values, before in combined
            for each in argument
            if (conditions := _joined(before, each.conditions)) is not None
        ]
        if len(combined) > MOST_ALTERNATIVES:
            raise _TooMany
    is_strict = name in FUNCTIONS and name not in _NOT_STRICT
    return [
        Alternative(_NULL if is_strict and _NULL in values else Apply(name, values), conditions)
        for values, conditions in combined
    ]


def _given(conditions: Conditions, shown: list[Alternative]) -> list[Alternative]:
    """Alternatives that show under more conditions; those that contradict them never do."""
    joined = ((each.value, _joined(conditions, each.conditions)) for each in shown)
    return [Alternative(value, together) for value, together in joined if together is not None]


def _joined(first: Conditions, second: Conditions) -> Conditions | None:
    """All conditions at once; None if they contradict each other."""
    if not first or not second:
        return first or second
    conditions = dict(first)
    for condition, is_true in second:
        if conditions.setdefault(condition, is_true) != is_true:
            return None
    return tuple(conditions.items())


def _check_number(shown: list[Alternative]) -> list[Alternative]:
    if len(shown) > MOST_ALTERNATIVES:
        raise _TooMany
    return shown
