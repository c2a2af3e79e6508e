"""From accuracy to price: the least price whose half-widths are as narrow as wished."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

from dither.answer.alternatives import list_noisy_values
from dither.answer.preview_selection import foresee
from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.given_numbers import as_float
from dither.plan.algebra import Quantiles
from dither.question.expressions import Formula
from dither.question.recipe import Recipe
from dither.question.shapes import affine, atoms_of


def read_widths(within: Any, recipe: Recipe, group_size: int | None) -> dict[str, float]:
    """Read half-widths by column.

    One number for all value columns, or one for each that is named.
    """
    names = [output.name for output in recipe.outputs if output.role == "value"]
    widths = within if isinstance(within, dict) else dict.fromkeys(names, within)
    for name in widths:
        if name not in names:
            raise ParameterError(
                f"within names the value columns of the question ({', '.join(names)}), got "
                f"{quote(name)}"
            )
    formulas = {output.name: output.formula for output in recipe.outputs}
    for name in widths:
        if _is_quantile(recipe, formulas[name]):
            raise ParameterError(
                f"the error of a quantile in values is not known beforehand: leave {name} out of "
                f"within"
            )
        _check_foreseen(recipe, name, formulas[name])
        if group_size is None and any(
            affine(value) is None for value in list_noisy_values(formulas[name])
        ):
            raise ParameterError(
                f"{name} errs by the size of the group: say for which, as in group_size=1000"
            )
    return {name: _read_width(width, f"within for {name}") for name, width in widths.items()}


def _read_width(width: Number, name: str) -> float:
    return as_float(positive(width, name, "choose e.g. 50"), name)


def _check_foreseen(recipe: Recipe, name: str, formula: Formula) -> None:
    """Raise ParameterError where no interval of this output can be foreseen before it is asked."""
    if not list_noisy_values(formula):
        raise ParameterError(
            f"{name} has no interval: noise chooses between constants; leave it out of within"
        )
    if foresee(recipe, formula, Fraction(1, 2)).level is None:
        raise ParameterError(
            f"noisy values choose what {name} shows, of keys whose number is not known: leave it "
            "out of within, or declare the keys in the catalog"
        )


def _is_quantile(recipe: Recipe, formula: Formula) -> bool:
    """Whether a formula reads a quantile in any grouping set."""
    queries = {
        grouping_set.positions[atom][0]
        for grouping_set in recipe.sets
        for atom in atoms_of(formula)
    }
    return any(isinstance(recipe.queries[query], Quantiles) for query in queries)


def find_least_price(
    meets: Callable[[Fraction], bool], largest: Fraction = Fraction(1000)
) -> Fraction:
    """Find the least price, rounded up to three digits, that meets the wish.

    Errors fall as it rises.

    >>> find_least_price(lambda price: price >= Fraction(1, 3))
    Fraction(167, 500)
    """
    if not meets(largest):
        raise ParameterError(
            f"no price up to {largest} gives this accuracy: allow a wider interval"
        )
    low = Fraction(1, 10**6)
    high = largest
    if meets(low):
        return low
    while high / low > Fraction(1001, 1000):
        middle = Fraction(math.sqrt(float(low * high))).limit_denominator(10**9)
        low, high = (low, middle) if meets(middle) else (middle, high)
    rounded = _round_up(high)
    return rounded if _round_up(low) == rounded or not meets(_round_up(low)) else _round_up(low)


def _round_up(price: Fraction) -> Fraction:
    digits = 2 - math.floor(math.log10(float(price)))
    step = Fraction(10) ** -digits
    return math.ceil(price / step) * step


def meets_widths(halves: Sequence[tuple[str, float | None]], widths: dict[str, float]) -> bool:
    """Whether every column, given as (name, half-width), is at least as narrow as wanted."""
    return all(half is not None and half <= widths[name] for name, half in halves)
