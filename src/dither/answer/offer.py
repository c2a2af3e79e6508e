"""From a recipe and a price to a priced request: shares by least error, Laplace or Gaussian by predicted error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.answer.bands import NO_BANDS, Bands, Ends, widened, without_bands
from dither.answer.blocks import cells_of
from dither.answer.recipe import Recipe
from dither.answer.split import predicted_loss, split, weighted
from dither.errors import DitherError
from dither.plan.algebra import Query
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
        return Offer(recipe, _cheapest(kernel, recipe, recipe.queries, price, pot, weights), plain)
    wide, bands = widened(recipe, plain, replace(ends, level=_of_each(recipe, ends.level)))
    return Offer(wide, _cheapest(kernel, recipe, wide.queries, price, pot, weights), bands)


def _of_each(recipe: Recipe, level: Fraction) -> Fraction:
    """The level of the rows shown where noisy values choose them: one of m rows is shown at 1 - (1 - level) / m."""
    if recipe.having is None and recipe.limit is None and not recipe.offset:
        return level
    cells = [cells_of(recipe, of) for of in recipe.sets]
    return 1 - (1 - level) / max(1, sum(_UNKNOWN if each is None else each for each in cells))


def _cheapest(
    kernel: Kernel,
    recipe: Recipe,
    queries: tuple[Query, ...],
    price: Price,
    pot: str,
    weights: Mapping[str, Fraction],
) -> Priced:
    """Of the families that the price can buy from this pot, the one with the smaller error."""
    offers, refused = [], list[DitherError]()
    flips = all(each.rule in ("pure", "approx") for each in kernel.way(pot))  # these add up epsilons
    for family in families(kernel, price, pot):
        try:
            equal = kernel.price(Request(split(queries, family, flips), price, pot))
            steps = weighted(recipe, [each.mechanism for each in equal.steps], family, weights, flips)
            asked = tuple(replace(step, query=query) for step, query in zip(steps, queries, strict=True))
            offers.append(kernel.price(Request(asked, price, pot)))
        except DitherError as error:
            refused.append(error)
    if not offers:
        raise refused[0]
    return min(offers, key=lambda each: predicted_loss(recipe, [step.mechanism for step in each.steps], weights))


def families(kernel: Kernel, price: Price, pot: str) -> list[Family]:
    """Laplace noise is priced in epsilon; Gaussian noise in rho, or in epsilon where the pot states a delta.

    A pure pot cannot pay for Gaussian noise, wherever it stands on the way up.
    """
    if price.epsilon is None:
        return ["gaussian"]
    way = kernel.way(pot)
    gaussian = way and way[0].filter.delta_per_question and all(each.rule != "pure" for each in way)
    return ["laplace", "gaussian"] if gaussian else ["laplace"]
