"""Kinds of formulas, checked before anything is charged: no column can hold texts beside numbers.

A text constant beside a date or a number is read as one, as SQL does. What remains of different
kinds is refused.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from dither.catalog import scalars
from dither.errors import QueryError
from dither.question.expressions import FUNCTIONS, Apply, Constant, Formula
from dither.question.kinds import infer_kind
from dither.question.recipe import Recipe
from dither.rules import PrivacyRule

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_FAMILIES = {"integer": "number", "boolean": "number"}
_SEPARATE = (
    "make them columns of their own, or write constants in the kind of the values beside them, "
    "such as TRUE or DATE '2024-01-31'"
)
_SEPARATE_TIMES = (
    "after the noise, times go with other released times only. Compare with constants in WHERE, or "
    "make them columns of their own"
)
_NAMES = {
    **dict(zip(_COMPARISONS, ("=", "<>", "<", "<=", ">", ">="), strict=True)),
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
}


class MixedKindsError(QueryError):
    """Values of different kinds meet over answers: no engine that reads answers may decide it."""


def settle_kinds(recipe: Recipe) -> Recipe:
    """Read text constants of a recipe as the kind beside them, such as dates.

    Raises MixedKindsError for formulas of mixed kinds.
    """
    settler = _Settler(recipe)
    return replace(
        recipe,
        outputs=tuple(
            replace(output, formula=settler.settle(output.formula)) for output in recipe.outputs
        ),
        having=None if recipe.having is None else settler.settle(recipe.having),
        order=tuple(
            replace(order, formula=settler.settle(order.formula)) for order in recipe.order
        ),
    )


class _Settler:
    """Settles the formulas of one recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe

    def settle(self, formula: Formula) -> Formula:
        """Settle the kinds of a formula from its arguments up."""
        if not isinstance(formula, Apply):
            return formula
        arguments = tuple(self.settle(argument) for argument in formula.arguments)
        name = formula.name
        if name == "case":
            values = self._align(name, (*arguments[1:-1:2], arguments[-1]))
            pairs = zip(arguments[:-1:2], values[:-1], strict=True)
            arguments = (*(argument for pair in pairs for argument in pair), values[-1])
        elif FUNCTIONS[name] == "choices" or name in _COMPARISONS:
            arguments = self._align(name, arguments)
        elif FUNCTIONS[name] == "numbers":
            arguments = self._settle_arithmetic(name, arguments)
        return Apply(name, arguments)

    def _list_families(self, formulas: tuple[Formula, ...]) -> list[str]:
        """The kinds of formulas, less NULL; integers and truth values count as numbers."""
        kinds = [infer_kind(formula, self.recipe) for formula in formulas]
        return [_FAMILIES.get(kind, kind) for kind in kinds if kind is not None]

    def _align(self, name: str, formulas: tuple[Formula, ...]) -> tuple[Formula, ...]:
        """Bring formulas to one kind; text constants are read as that of the others.

        Raises MixedKindsError where that cannot be.
        """
        not_texts = tuple(formula for formula in formulas if not _is_text(formula))
        families = dict.fromkeys(self._list_families(not_texts))
        if len(families) == 1:
            formulas = tuple(_read_text(formula, *families) for formula in formulas)
        families = dict.fromkeys(self._list_families(formulas))
        if len(families) > 1:
            remedy = _SEPARATE_TIMES if "timestamp" in families else _SEPARATE
            raise MixedKindsError(
                f"{_name_function(name)} of different kinds, {' and '.join(sorted(families))}: "
                f"{remedy} {PrivacyRule.NO_RULE.label}"
            )
        if name in ("least", "greatest") and "text" in families:
            raise MixedKindsError(
                f"{_name_function(name)} of texts is not computed after the noise: compare numbers "
                f"or dates"
            )
        return formulas

    def _settle_arithmetic(self, name: str, formulas: tuple[Formula, ...]) -> tuple[Formula, ...]:
        """Give the arguments of an arithmetic function their kinds.

        They are numbers, but days may be added to a date, and dates and times subtracted from their
        like.
        """
        not_text_families = self._list_families(
            tuple(formula for formula in formulas if not _is_text(formula))
        )
        beside = not_text_families[0] if name == "subtract" and not_text_families else "number"
        formulas = tuple(_read_text(formula, beside) for formula in formulas)
        families = self._list_families(formulas)
        times = sorted({family for family in families if family != "number"})
        is_difference = name == "subtract" and families in (
            ["date", "date"],
            ["timestamp", "timestamp"],
        )
        is_moved = (name == "add" and families.count("date") == 1) or (
            name == "subtract" and families[:1] == ["date"]
        )
        if times and not is_difference and not (is_moved and times == ["date"]):
            raise MixedKindsError(
                f"{_name_function(name)} takes numbers, not {' and '.join(times)}. Of dates, "
                "differences such as MEDIAN(day) - DATE '2024-01-31' are numbers of days, and days "
                f"may be added to a date {PrivacyRule.NO_RULE.label}"
            )
        return formulas


def _name_function(name: str) -> str:
    return _NAMES.get(name, name.upper())


def _is_text(formula: Formula) -> bool:
    return isinstance(formula, Constant) and isinstance(formula.value, str)


def _read_text(formula: Formula, family: str) -> Formula:
    """Read a text constant as a date or a number where it is one; return anything else as it is."""
    if not isinstance(formula, Constant) or not isinstance(formula.value, str):
        return formula
    text = formula.value.strip()
    if family == "date":
        days = scalars.days(text)
        return formula if days is None else Constant(Fraction(days), "date")
    value = scalars.number(text) if family == "number" else None
    return formula if value is None else Constant(value)
