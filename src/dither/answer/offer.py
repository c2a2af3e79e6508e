"""From a recipe and a price to a priced request: shares by least error, Laplace or Gaussian by predicted error."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.answer.bands import NO_BANDS, Bands, reach_for, widened, without_bands
from dither.answer.recipe import Recipe
from dither.answer.split import predicted_loss, split, weighted
from dither.errors import DitherError
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel import Kernel, Priced
from dither.privacy.request import Family, Price, Request

_TRIES = 4


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
    group_size: int | None = None,
    level: Fraction = Fraction(95, 100),
) -> Offer:
    """The priced request for a recipe; with a group size, quantiles are asked for with their bands."""
    plain = without_bands(recipe, kernel.catalog, facts_of(kernel))
    if not plain.cells or group_size is None:
        return Offer(recipe, _cheapest(kernel, recipe, price, pot, weights), plain)
    reach = Fraction(1, 20)
    for _ in range(_TRIES):
        wide, bands = widened(recipe, plain, reach, group_size, level)
        if bands.is_empty:
            break
        priced = _cheapest(kernel, wide, price, pot, weights)
        needed = reach_for([each.mechanism for each in priced.steps], plain, group_size, level)
        if needed <= reach and (needed == reach or reach != Fraction(1, 20)):
            return Offer(wide, priced, bands)
        reach = needed
    # groups of this size are too small for the price: no interval, and nothing is spent on one
    too_small = replace(plain, needed=math.ceil(2 * reach * group_size))
    return Offer(recipe, _cheapest(kernel, recipe, price, pot, weights), too_small)


def _cheapest(kernel: Kernel, recipe: Recipe, price: Price, pot: str, weights: Mapping[str, Fraction]) -> Priced:
    """Of the families that the price can buy from this pot, the one with the smaller error."""
    offers, refused = [], list[DitherError]()
    for family in families(kernel, price, pot):
        try:
            equal = kernel.price(Request(split(recipe.queries, family), price, pot))
            steps = weighted(recipe, [each.mechanism for each in equal.steps], family, weights)
            offers.append(kernel.price(Request(steps, price, pot)))
        except DitherError as error:
            refused.append(error)
    if not offers:
        raise refused[0]
    return min(offers, key=lambda each: predicted_loss(recipe, [step.mechanism for step in each.steps], weights))


def families(kernel: Kernel, price: Price, pot: str) -> list[Family]:
    """Laplace noise is priced in epsilon; Gaussian noise in rho, or in epsilon where the pot states a delta."""
    if price.epsilon is None:
        return ["gaussian"]
    way = kernel.way(pot)
    return ["laplace", "gaussian"] if way and way[0].filter.delta_per_question else ["laplace"]
