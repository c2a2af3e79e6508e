"""What a formula holds.

A number, a date, a time, a truth value or a text, from the recipe alone.
"""

from __future__ import annotations

from dither.question.expressions import (
    FUNCTIONS,
    Apply,
    Constant,
    Formula,
    Grouping,
    KeyValue,
    Noisy,
)
from dither.question.recipe import DisplayKind, KeyColumn, Recipe

_MAX_EXACT = 2**53
"""Larger whole constants are shown as numbers.

Formulas are computed in floats, which round them.
"""


def infer_kind(formula: Formula, recipe: Recipe) -> DisplayKind | None:
    """Infer the kind of a formula's values, such as integer or date.

    None for NULL, which goes with every kind.
    """
    match formula:
        case Noisy(atom):
            return recipe.atoms[atom].display
        case Constant():
            return _infer_constant_kind(formula)
        case Grouping():
            return "integer"
        case KeyValue(key):
            return key_kind(recipe.keys[key])
        case Apply(name, _) if FUNCTIONS[name] == "conditions":
            return "boolean"
        case Apply(name, _) if FUNCTIONS[name] == "choices":
            kinds = {infer_kind(value, recipe) for value in values_of_choice(formula)} - {None}
            return kinds.pop() if len(kinds) == 1 else "number"
        case Apply("add" | "subtract", arguments):
            dates = [infer_kind(argument, recipe) for argument in arguments].count("date")
            return ("number", "date", "integer")[min(dates, 2)]
    return "number"


def key_kind(key: KeyColumn) -> DisplayKind:
    """Infer the kind of a key's values, as they are shown."""
    if key.dated:
        return "timestamp" if key.has_times else "date"
    match key.domain.kind:
        case "number":
            return "integer" if key.domain.step.denominator == 1 else "number"
        case "date" | "timestamp" | "boolean":
            return key.domain.kind
    return "text"


def values_of_choice(choice: Apply) -> tuple[Formula, ...]:
    """List what a CASE, COALESCE, NULLIF, LEAST or GREATEST may show."""
    match choice.name:
        case "case":
            return (*choice.arguments[1::2], *choice.arguments[-1:])
        case "nullif":
            return choice.arguments[:1]
    return choice.arguments


def _infer_constant_kind(constant: Constant) -> DisplayKind | None:
    """Infer how a constant is shown: as declared, else as text, integer or number."""
    value = constant.value
    if value is None or constant.kind is not None:
        return constant.kind
    if isinstance(value, str):
        return "text"
    is_integer = value.denominator == 1 and abs(value) <= _MAX_EXACT
    return "integer" if is_integer else "number"
