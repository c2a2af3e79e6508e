"""From a recipe and a price to a priced request: shares by least error; Laplace, box or Gaussian
noise by predicted error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from dither.answer.alternatives import is_chosen_by_noise, list_noisy_values
from dither.answer.arrange import MOST_TOGETHER, arrange_alone, arrange_together, find_positions
from dither.answer.blocks import count_cells
from dither.answer.curator_access import Pricer
from dither.answer.interval_notes import find_usable_quantiles
from dither.answer.quantile_intervals import (
    NO_BANDS,
    Bands,
    Ends,
    add_quantile_ends,
    find_bought_level,
    read_quantile_grids,
)
from dither.answer.split import (
    compute_demands,
    join_demands,
    make_equal_steps,
    predict_error,
    weigh_steps,
)
from dither.errors import DitherError
from dither.laws import find_error_law
from dither.plan.analyse import NEWEST_RULES
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel.calibrate import calibrate_request
from dither.privacy.kernel.families import Measure, joint_families, noise_families
from dither.privacy.kernel.kernel import Priced, delta_of_path
from dither.privacy.kernel.release import Version
from dither.privacy.kernel.request import Family, Price, Request, Step
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe

_UNKNOWN = 100
"""Rows that keys without a list are taken to have, where one of them may be the only one shown."""


@dataclass(frozen=True)
class Offered:
    """A question at a price.

    It says what will be asked of the kernel, and how quantiles get their intervals.
    """

    recipe: Recipe
    priced: Priced
    bands: Bands = NO_BANDS


def read_facts(kernel: Pricer) -> Facts:
    """Read the public facts of the registered version."""
    facts = getattr(kernel.version, "facts", NO_FACTS)
    return facts if isinstance(facts, Facts) else NO_FACTS


def choose_mechanisms(
    kernel: Pricer,
    view: LedgerView,
    recipe: Recipe,
    price: Price,
    pot: str,
    weights: Mapping[str, Fraction],
    ends: Ends | None = None,
    rules: int = NEWEST_RULES,
) -> Offered:
    """Make the priced request of a recipe from what the ledger says.

    Quantiles get the given ends, if any. Plans are analysed by the given rules of stability.
    """
    version = kernel.version if rules == NEWEST_RULES else replace(kernel.version, rules=rules)
    pricing = Pricing(kernel, version, view, price, pot)
    plain = read_quantile_grids(recipe, version.analyses)
    if not plain.cells or ends is None:
        return Offered(*_choose_cheapest(pricing, recipe, recipe, weights), plain)
    raised = replace(ends, level=_level_of_shown_value(recipe, ends.level))
    quantiles = frozenset(atom for atom, _ in plain.cells)
    usable = find_usable_quantiles(recipe, quantiles, ends.level, find_bought_level(raised))
    if not usable:
        return Offered(*_choose_cheapest(pricing, recipe, recipe, weights), plain)
    wide, bands = add_quantile_ends(recipe, plain, raised, usable)
    return Offered(*_choose_cheapest(pricing, recipe, wide, weights), bands)


def _level_of_shown_value(recipe: Recipe, level: Fraction) -> Fraction:
    """Compute the level at which one shown value is taken, where noise chooses what is shown.

    One of m values is shown at level 1 - (1 - level) / m; without such a choice at `level`.
    """
    formulas = [output.formula for output in recipe.outputs if output.role == "value"]
    is_cut = recipe.having is not None or recipe.limit is not None or bool(recipe.offset)
    if not is_cut and not any(map(is_chosen_by_noise, formulas)):
        return level
    cells = [count_cells(recipe, grouping_set) for grouping_set in recipe.sets]
    values = max((len(list_noisy_values(formula)) for formula in formulas), default=1)
    return 1 - (1 - level) / max(
        1, values * sum(_UNKNOWN if count is None else count for count in cells)
    )


@dataclass(frozen=True)
class Pricing:
    """What a recipe is priced by: the version with its rules, what the ledger says, price and
    pot."""

    kernel: Pricer
    version: Version
    view: LedgerView
    price: Price
    pot: str


def _choose_cheapest(
    pricing: Pricing, recipe: Recipe, wide: Recipe, weights: Mapping[str, Fraction]
) -> tuple[Recipe, Priced]:
    """Choose the family with the smallest error among those that the price can buy from this pot.

    `wide` is the recipe with the ends of its quantiles, which is what is asked for.
    """
    offers = list[tuple[float, Recipe, Request]]()
    refused = list[DitherError]()
    view = pricing.view
    adds_epsilons = adds_up_epsilons(view)
    delta = delta_of_path(view.path)
    plain = arrange_alone(recipe).recipe
    alone = arrange_alone(wide)

    def calibrate_all(steps: tuple[Step, ...]) -> tuple[Request, list[Any]]:
        request = Request(steps, pricing.price, pricing.pot)
        return request, [
            step.mechanism for step in calibrate_request(request, pricing.version.analyses, delta)
        ]

    for family in list_families(view, pricing.price):
        try:
            _, equal = calibrate_all(
                make_equal_steps(wide.queries, alone.shares, family, adds_epsilons)
            )
            demands = compute_demands(plain, equal, family, weights)
            steps = weigh_steps(wide.queries, alone.shares, demands, family, weights, adds_epsilons)
            request, mechanisms = calibrate_all(steps)
            offers.append((predict_error(plain, mechanisms, weights), alone.recipe, request))
            for joint in joint_families("epsilon", adds_epsilons) if family == "laplace" else ():
                together = arrange_together(wide, joint.numbers[1] or MOST_TOGETHER)
                if together is None:
                    continue
                positions = find_positions(alone, together)
                joint_demands = join_demands(demands, positions, joint.name)
                steps = weigh_steps(
                    wide.queries, together.shares, joint_demands, joint.name, weights, adds_epsilons
                )
                request, mechanisms = calibrate_all(steps)
                laws = [find_error_law(mechanisms[step], column) for step, column in positions]
                offers.append(
                    (predict_error(plain, equal, weights, laws), together.recipe, request)
                )
        except DitherError as error:
            refused.append(error)
    if not offers:
        raise refused[0]
    _, chosen, request = min(offers, key=lambda offer: offer[0])
    return chosen, pricing.kernel.price_at(request, view, pricing.version.rules)


def adds_up_epsilons(view: LedgerView) -> bool:
    """Whether every pot on the path adds up epsilons.

    Families of which only the epsilon is known need that.
    """
    return all(pot.rule.name in ("pure", "approx") for pot in view.path)


def list_families(view: LedgerView, price: Price) -> list[Family]:
    """List the noise families that a price can buy.

    Laplace noise for epsilon. Gaussian noise for rho, or where the pot states a delta.

    A pure pot cannot pay for Gaussian noise, wherever it is on the path.
    """
    path = view.path
    measures: set[Measure] = {"rho"} if price.epsilon is None else {"epsilon"}
    if path and path[0].rule.delta_per_question and all(pot.rule.name != "pure" for pot in path):
        measures.add("rho")
    return [family.name for family in noise_families(measures, adds_up_epsilons(view))]
