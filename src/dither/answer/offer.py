"""From a recipe and a price to a priced request: shares by least error; Laplace, box or Gaussian noise by predicted
error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.answer.alternatives import is_chosen_by_noise, noisy_values
from dither.answer.bands import NO_BANDS, Bands, Ends, widened, without_bands
from dither.answer.blocks import cells_of
from dither.answer.intervals import seen
from dither.answer.recipe import Recipe
from dither.answer.split import boxed, demands, predicted_loss, split, weighted
from dither.answer.together import Together, together
from dither.errors import DitherError
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel import Kernel, Priced
from dither.privacy.request import Family, Price, Request

_UNKNOWN = 100
"""Rows that keys without a list are taken to have, where one of them may be the only one shown."""


@dataclass(frozen=True)
class Offer:
    """A question at a price: what will be asked of the kernel, and how quantiles get their intervals."""

    recipe: Recipe
    priced: Priced
    bands: Bands = NO_BANDS


def facts_of(kernel: Kernel) -> Facts:
    """The public facts of the registered version."""
    found = getattr(kernel.at, "facts", NO_FACTS)
    return found if isinstance(found, Facts) else NO_FACTS


def offer(
    kernel: Kernel,
    recipe: Recipe,
    price: Price,
    pot: str,
    weights: Mapping[str, Fraction],
    ends: Ends | None = None,
) -> Offer:
    """The priced request for a recipe; quantiles are asked for with such ends, if any."""
    plain = without_bands(recipe, kernel.catalog, facts_of(kernel))
    if not plain.cells or ends is None:
        return Offer(*_cheapest(kernel, recipe, recipe, price, pot, weights), plain)
    wide, bands = widened(recipe, plain, replace(ends, level=_of_each(recipe, ends.level)))
    return Offer(*_cheapest(kernel, recipe, wide, price, pot, weights), bands)


def _of_each(recipe: Recipe, level: Fraction) -> Fraction:
    """The level of what is shown where noisy values choose it: one of m values is shown at 1 - (1 - level) / m."""
    formulas = [output.formula for output in recipe.outputs if output.role == "value"]
    is_cut = recipe.having is not None or recipe.limit is not None or bool(recipe.offset)
    if not is_cut and not any(map(is_chosen_by_noise, formulas)):
        return level
    cells = [cells_of(recipe, of) for of in recipe.sets]
    values = max((len(noisy_values(formula)) for formula in formulas), default=1)
    return 1 - (1 - level) / max(1, values * sum(_UNKNOWN if each is None else each for each in cells))


def _cheapest(
    kernel: Kernel, recipe: Recipe, wide: Recipe, price: Price, pot: str, weights: Mapping[str, Fraction]
) -> tuple[Recipe, Priced]:
    """Of the families that the price can buy from this pot, the one with the smaller error.

    `wide` is the recipe with the ends of its quantiles, which is what is asked for.
    """
    offers, refused = list[tuple[float, Recipe, Priced]](), list[DitherError]()
    flips = all(each.rule in ("pure", "approx") for each in kernel.way(pot))  # these add up epsilons
    for family in families(kernel, price, pot):
        try:
            equal = _mechanisms(kernel.price(Request(split(wide.queries, family, flips), price, pot)))
            wanted = demands(recipe, equal, family, weights)
            priced = kernel.price(Request(weighted(wide.queries, wanted, family, weights, flips), price, pot))
            offers.append((predicted_loss(recipe, _mechanisms(priced), weights), wide, priced))
            if family == "laplace" and flips and (found := together(wide)) is not None:
                offers.append(_boxed(kernel, recipe, found, equal, wanted, price, pot, weights))
        except DitherError as error:
            refused.append(error)
    if not offers:
        raise refused[0]
    return min(offers, key=lambda each: each[0])[1:]


def _boxed(
    kernel: Kernel,
    recipe: Recipe,
    found: Together,
    equal: list[Any],
    wanted: list[float],
    price: Price,
    pot: str,
    weights: Mapping[str, Fraction],
) -> tuple[float, Recipe, Priced]:
    """Box noise for what has rows and keys in common. A pot that adds up rhos would take more for it than for Laplaces:
    of a box only its epsilon is known."""
    steps = weighted(found.recipe.queries, boxed(wanted, found.places), "box", weights, flips=True)
    priced = kernel.price(Request(steps, price, pot))
    noises = [seen(priced.steps[query].mechanism, column) for query, column in found.places]
    return predicted_loss(recipe, equal, weights, noises), found.recipe, priced


def _mechanisms(priced: Priced) -> list[Any]:
    return [each.mechanism for each in priced.steps]


def families(kernel: Kernel, price: Price, pot: str) -> list[Family]:
    """Laplace noise is priced in epsilon; Gaussian noise in rho, or in epsilon where the pot states a delta.

    A pure pot cannot pay for Gaussian noise, wherever it stands on the way up.
    """
    if price.epsilon is None:
        return ["gaussian"]
    way = kernel.way(pot)
    gaussian = way and way[0].filter.delta_per_question and all(each.rule != "pure" for each in way)
    return ["laplace", "gaussian"] if gaussian else ["laplace"]
