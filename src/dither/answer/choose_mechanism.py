"""From a recipe and a price to a priced request: shares by least error; Laplace, box or Gaussian
noise by predicted error."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeAlias

from dither.answer.alternatives import is_chosen_by_noise, list_noisy_values
from dither.answer.arrange import (
    MOST_TOGETHER,
    Arranged,
    arrange_alone,
    arrange_together,
    find_positions,
)
from dither.answer.blocks import count_cells
from dither.answer.counts_of_selection import count_by_selection
from dither.answer.curator_access import Pricer
from dither.answer.earlier_rules import has_newer_laws
from dither.answer.interval_notes import find_usable_quantiles
from dither.answer.offered_families import list_joint_families, list_noise_families
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
from dither.laws import KeyErrorLaw, find_error_law
from dither.plan.algebra import Cells, Keys, Quantiles
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.facts import NO_FACTS, Facts
from dither.privacy.kernel.calibrate import calibrate_queries, check_keys
from dither.privacy.kernel.families import (
    BY_CURVE,
    FIRST_LAWS,
    NEWEST_LAWS,
    Measure,
    MechanismFamily,
)
from dither.privacy.kernel.kernel import Priced, delta_of_path
from dither.privacy.kernel.request import Family, Price, Request, Step
from dither.privacy.ledger import LedgerView
from dither.question.recipe import Recipe

Renewal: TypeAlias = Mapping[Family, Family]
BY_THRESHOLD: Renewal = {"geometric_keys": "threshold_keys", "gaussian_keys": "threshold_keys"}
BY_COUNT: Renewal = {"geometric_keys": "counted_keys", "gaussian_keys": "counted_keys"}
BY_EXACT_CURVE: Renewal = {"gaussian": BY_CURVE}
BY_ROWS: Renewal = {
    "permute_and_flip": "permute_and_flip_by_rows",
    "exponential": "exponential_by_rows",
}
_HALF = Fraction(1, 2)
_MARGIN = 1e-3
_CLOSE = 1.25
"""Squared errors so far apart, an eighth of the noise, may be paid for keys that few people own."""
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
    analyses: Analyses | None = None,
    laws: int = NEWEST_LAWS,
) -> Offered:
    """Make the priced request of a recipe from what the ledger says.

    Quantiles get the given ends, if any. Plans are analysed by the rules of stability of the given
    analyses, and answered by the given laws of noise.
    """
    pricing = Pricing(kernel, analyses or kernel.version.analyses, view, price, pot, laws)
    plain = read_quantile_grids(recipe, pricing.analyses)
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
    """What a recipe is priced by: analyses by some rules, what the ledger says, price and pot, and
    the laws of noise that are offered."""

    kernel: Pricer
    analyses: Analyses
    view: LedgerView
    price: Price
    pot: str
    laws: int = NEWEST_LAWS

    def make_request(self, steps: tuple[Step, ...]) -> Request:
        """The request that these steps make."""
        return Request(steps, self.price, self.pot)

    def calibrate(self, request: Request, queries: list[AnalysedQuery]) -> list[Any]:
        """One mechanism for each step of a request; `queries` are those of its steps, analysed."""
        unit = self.analyses.catalog.unit.label
        calibrated = calibrate_queries(request, queries, unit, delta_of_path(self.view.path))
        return [step.mechanism for step in calibrated]


@dataclass(frozen=True)
class CandidateOffer:
    """A request that could be made, and how well it would answer.

    `owners` is how many owners a key needs to be shown every other time.
    """

    error: float
    owners: int
    recipe: Recipe
    request: Request

    def is_better_than(self, older: CandidateOffer) -> bool:
        """Whether it errs less by a thousandth, or no more and shows keys of fewer owners.

        Less than that is rounding, and not worth another answer than the one that may be stored.
        """
        if self.error < older.error * (1 - _MARGIN):
            return True
        return self.error <= older.error * (1 + _MARGIN) and self.owners < older.owners


def _choose_cheapest(
    pricing: Pricing, recipe: Recipe, wide: Recipe, weights: Mapping[str, Fraction]
) -> tuple[Recipe, Priced]:
    """Choose the family with the smallest error among those that the price can buy from this pot.

    `wide` is the recipe with the ends of its quantiles, which is what is asked for.
    """
    candidates = list[CandidateOffer]()
    refused = list[DitherError]()
    ways = [(recipe, wide, renewed) for renewed in list_renewals(pricing, wide)]
    ways += _count_by_selection(pricing, recipe, wide)
    for family in list_families(pricing.view, pricing.price):
        for asked, asked_wide, renewed in ways:
            try:
                for candidate in _list_candidates(
                    pricing, asked, asked_wide, weights, family, renewed
                ):
                    candidates.append(candidate)
            except DitherError as error:
                refused.append(error)
    if not candidates:
        raise refused[0]
    chosen = _choose_best(candidates)
    priced = pricing.kernel.price_at(chosen.request, pricing.view, pricing.analyses.rules)
    return chosen.recipe, priced


def _count_by_selection(
    pricing: Pricing, recipe: Recipe, wide: Recipe
) -> list[tuple[Recipe, Recipe, Renewal]]:
    """The question with counts that its selection of keys releases, with and without the ends of
    its quantiles; empty where no selection can give one."""
    if pricing.laws == FIRST_LAWS or not is_rho_bought(pricing):
        return []
    counted_wide = count_by_selection(wide, pricing.analyses)
    if counted_wide is None:
        return []
    counted = counted_wide if recipe is wide else count_by_selection(recipe, pricing.analyses)
    assert counted is not None
    renewals = [renewal for renewal in list_renewals(pricing, wide) if "geometric_keys" in renewal]
    return [(counted, counted_wide, {**renewal, **BY_COUNT}) for renewal in renewals]


def is_rho_bought(pricing: Pricing) -> bool:
    """Whether the price is a rho, or an epsilon that buys one."""
    return pricing.price.epsilon is None or can_buy_rho(pricing.view)


def _choose_best(candidates: list[CandidateOffer]) -> CandidateOffer:
    """The offer that errs least, or about so with far more keys. Newer families must be better.

    So the choice among the families of release 0.1 stays what it was.
    """
    newer = [offer for offer in candidates if has_newer_laws(offer.request)]
    older = [offer for offer in candidates if not has_newer_laws(offer.request)]
    best_older = min(older, key=lambda offer: offer.error, default=None)
    best_newer = min(newer, key=lambda offer: (offer.error, offer.owners), default=None)
    best = min(candidates, key=lambda offer: (offer.error, offer.owners))
    counted = [offer for offer in newer if _shows_far_more(offer, best)]
    if counted:
        return min(counted, key=lambda offer: (offer.error, offer.owners))
    if best_older is None or (best_newer is not None and best_newer.is_better_than(best_older)):
        assert best_newer is not None
        return best_newer
    return best_older


def _shows_far_more(offer: CandidateOffer, best: CandidateOffer) -> bool:
    """Whether an offer whose selection counts needs half the owners for about the least error."""
    is_counted = any(step.family in BY_COUNT.values() for step in offer.request.steps)
    is_close = offer.error <= best.error * _CLOSE
    return is_counted and is_close and 2 * offer.owners <= best.owners


def _list_candidates(
    pricing: Pricing,
    recipe: Recipe,
    wide: Recipe,
    weights: Mapping[str, Fraction],
    family: Family,
    renewed: Renewal,
) -> Iterator[CandidateOffer]:
    """Make the requests of one family of noise: each number alone, then numbers that share one."""
    adds_epsilons = adds_up_epsilons(pricing.view)
    alone = arrange_alone(wide)
    plain = alone.recipe if recipe is wide else arrange_alone(recipe).recipe
    equal_steps = make_equal_steps(wide.queries, alone.shares, family, adds_epsilons)
    equal_request = pricing.make_request(_renew_families(renewed, equal_steps))
    queries = check_keys(equal_request, pricing.analyses)
    equal = pricing.calibrate(equal_request, queries)
    demands = compute_demands(plain, equal, family, weights)
    steps = weigh_steps(wide.queries, alone.shares, demands, family, weights, adds_epsilons)
    request = pricing.make_request(_renew_families(renewed, steps))
    mechanisms = pricing.calibrate(request, queries)
    laws = [find_error_law(mechanism) for mechanism in mechanisms]
    if family != "laplace":
        demands = compute_demands(plain, equal, "laplace", weights)
    error = predict_error(demands, mechanisms, laws)
    yield CandidateOffer(error, _count_owners(laws), alone.recipe, request)
    if family == "laplace":
        yield from _list_joint_candidates(pricing, wide, alone, equal, demands, weights, renewed)


def _list_joint_candidates(
    pricing: Pricing,
    wide: Recipe,
    alone: Arranged,
    equal: list[Any],
    demands: list[float],
    weights: Mapping[str, Fraction],
    renewed: Renewal,
) -> Iterator[CandidateOffer]:
    """Make the requests in which numbers of the same rows and keys share a noise.

    `equal` are mechanisms of each number alone, and `demands` what they count in the error.
    """
    adds_epsilons = adds_up_epsilons(pricing.view)
    families = list_joint_families("epsilon", adds_epsilons, pricing.laws)
    for most_numbers in dict.fromkeys(map(_count_together, families)):
        together = arrange_together(wide, most_numbers)
        if together is None:
            continue
        positions = find_positions(alone, together)
        queries = [pricing.analyses.analyse_query(query) for query in together.recipe.queries]
        for joint in families:
            if _count_together(joint) != most_numbers or not _may_err_less(joint, queries):
                continue
            joint_demands = join_demands(demands, positions, joint.name)
            steps = weigh_steps(
                wide.queries, together.shares, joint_demands, joint.name, weights, adds_epsilons
            )
            request = pricing.make_request(_renew_families(renewed, steps))
            mechanisms = pricing.calibrate(request, queries)
            laws = [find_error_law(mechanisms[step], column) for step, column in positions]
            error = predict_error(demands, equal, laws)
            yield CandidateOffer(error, _count_owners(laws), together.recipe, request)


def _count_together(joint: MechanismFamily) -> int:
    """The most numbers that share a noise of this family."""
    return joint.numbers[1] or MOST_TOGETHER


def _may_err_less(joint: MechanismFamily, queries: list[AnalysedQuery]) -> bool:
    """Whether a joint noise has any number with less of it than the first of its kind."""
    return joint.laws == FIRST_LAWS or any(
        by_unit * query.unit_box.rows < by_row * query.box.rows
        for query in queries
        if joint.serves(query.query)
        for by_unit, by_row in zip(query.unit_box.sides, query.box.sides, strict=True)
    )


def _renew_families(renewed: Renewal, steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Let newer families answer in the place of older ones."""
    return tuple(
        replace(step, family=renewed[step.family]) if step.family in renewed else step
        for step in steps
    )


def _count_owners(laws: list[Any]) -> int:
    """The owners that a key needs to be shown every other time, in the strictest selection."""
    return max((law.size_shown(_HALF) for law in laws if isinstance(law, KeyErrorLaw)), default=0)


def list_renewals(pricing: Pricing, recipe: Recipe) -> list[Renewal]:
    """List which newer families may answer in the place of older ones: none, some, or all.

    A threshold with Gaussian noise selects keys. It is priced in rho, which an epsilon buys where
    the pot states a delta for each question, and it needs fewer owners where one unit has many
    keys. Gaussian noise alone may be charged by its exact curve where epsilons are added up.
    Quantiles may count rows one by one: that is another law where units are replaced, and in rho,
    where one group can have only a part of a unit's rows.
    """
    renewals: list[Renewal] = [{}]
    if pricing.laws == FIRST_LAWS:
        return renewals
    if is_rho_bought(pricing) and any(isinstance(query, Keys) for query in recipe.queries):
        renewals += [{**renewal, **BY_THRESHOLD} for renewal in renewals]
    is_noise_alone = all(isinstance(query, Cells) for query in recipe.queries)
    is_converted = pricing.price.epsilon is not None and can_buy_rho(pricing.view)
    if is_converted and adds_up_epsilons(pricing.view) and is_noise_alone:
        renewals += [{**renewal, **BY_EXACT_CURVE} for renewal in renewals]
    is_replaced = pricing.analyses.catalog.neighbours == "replace"
    has_law_by_rows = is_replaced or pricing.price.epsilon is None
    if has_law_by_rows and any(isinstance(query, Quantiles) for query in recipe.queries):
        renewals += [{**renewal, **BY_ROWS} for renewal in renewals]
    return renewals


def adds_up_epsilons(view: LedgerView) -> bool:
    """Whether every pot on the path adds up epsilons.

    Families of which only the epsilon is known need that.
    """
    return all(pot.rule.name in ("pure", "approx") for pot in view.path)


def can_buy_rho(view: LedgerView) -> bool:
    """Whether an epsilon buys a rho: the pot states a delta for it, and no pot is pure."""
    path = view.path
    if not path or not path[0].rule.delta_per_question:
        return False
    return all(pot.rule.name != "pure" for pot in path)


def list_families(view: LedgerView, price: Price) -> list[Family]:
    """List the noise families that a price can buy.

    Laplace noise for epsilon. Gaussian noise for rho, or where the pot states a delta.

    A pure pot cannot pay for Gaussian noise, wherever it is on the path.
    """
    measures: set[Measure] = {"rho"} if price.epsilon is None else {"epsilon"}
    if can_buy_rho(view):
        measures.add("rho")
    return [family.name for family in list_noise_families(measures, adds_up_epsilons(view))]
