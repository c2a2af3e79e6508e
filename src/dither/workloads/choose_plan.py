"""From a bound workload and a price to a priced request: the plan that errs least, and why.

All that is compared is public: sizes, the price and the pot's own measure. The kernel prices every
request by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2

import numpy as np

from dither.answer.choose_mechanism import list_families
from dither.answer.curator_access import Pricer
from dither.answer.earlier_rules import double_weights, has_other_noise
from dither.errors import DitherError, ParameterError, RefusedError
from dither.laws import AdditiveErrorLaw, find_error_law
from dither.plan.algebra import Linear
from dither.plan.keys import MAX_CELLS
from dither.privacy.kernel.kernel import Priced
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.ledger import LedgerView
from dither.rules import PrivacyRule
from dither.workloads.bind import BoundWorkload
from dither.workloads.coarser import STEPS, coarsen_plan
from dither.workloads.intervals import find_rounding_share
from dither.workloads.kronecker import bound_products, plan_kronecker
from dither.workloads.line_strategies import MOST_VALUES
from dither.workloads.lines import Floats, JointNoise, Noise
from dither.workloads.listed_counts import BoundCounts, bound_listed, plan_listed
from dither.workloads.measurement import MeasurementPlan, scale_operator, split_variance
from dither.workloads.progress import track
from dither.workloads.residuals import make_domain, plan_direct, plan_residuals

FAMILIES: dict[str, tuple[Noise, str]] = {
    "laplace": ("laplace", "linear_laplace"),
    "gaussian": ("gaussian", "linear_rounded_gaussian"),
}
_WEIGHT_STEPS = 1 << 30
_ROUNDING_SHARE = 0.01
_MOST_SCALE = 1 << 24


@dataclass(frozen=True)
class WorkloadOffer:
    """A workload at a price: what will be measured, and how well it answers."""

    bound: BoundWorkload
    plan: MeasurementPlan
    noise: JointNoise
    priced: Priced
    scale: int
    lower_bound: float
    """The least weighted squared error that a strategy with this noise could have."""
    reasons: tuple[str, ...]

    @property
    def variances(self) -> Floats:
        """The variance of the noise of every step, on the grid of its unscaled operator."""
        return read_variances(self.priced) / self.scale**2

    @property
    def rounding_share(self) -> float:
        """What roundings of the noise can add to an interval, in standard deviations."""
        rows = [step.rows for step in self.plan.steps]
        return find_rounding_share(rows, read_variances(self.priced), self.noise)

    @property
    def error(self) -> float:
        """The weighted squared error of all queries, in squared steps of the released grid."""
        return sum(
            float(product.weight) * self.plan.find_total(product, self.variances)
            for product in self.bound.workload.products
        )


def read_variances(priced: Priced) -> Floats:
    """The variance of the noise of each step, from the laws of its mechanisms."""
    variances = []
    for step in priced.steps:
        law = find_error_law(step.mechanism)
        assert isinstance(law, AdditiveErrorLaw)
        variances.append(law.variance)
    return np.array(variances)


def list_plans(bound: BoundWorkload, noise: Noise) -> list[MeasurementPlan]:
    """Every plan that can answer the workload with this noise."""
    if isinstance(bound, BoundCounts):
        return [*plan_listed(bound, noise)]
    products = bound.workload.products
    domain = make_domain(products, bound.sizes)
    if domain is None:
        return [plan_kronecker(products, bound.columns, bound.sizes, noise)]
    largest = max(map(domain.count_cells, domain.marginals))
    if largest > MAX_CELLS:
        raise RefusedError(
            f"a marginal of {largest:,} cells: at most {MAX_CELLS:,}. Ask for fewer columns or "
            "for coarser bins",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    fits_residuals = max(bound.sizes.values(), default=1) <= MOST_VALUES
    if noise == "gaussian" and fits_residuals and len(domain.marginals) > 1:
        return [plan_residuals(domain, noise)]  # the optimum: nothing to compare
    plans: list[MeasurementPlan] = [plan_direct(domain, noise)]
    if fits_residuals:
        plans.append(plan_residuals(domain, noise))
    if domain.count_cells(domain.columns) <= MAX_CELLS and len(domain.marginals) > 1:
        plans.append(plan_kronecker(products, bound.columns, bound.sizes, noise))
    return plans


def score_plan(plan: MeasurementPlan, bound: BoundWorkload, noise: Noise) -> float:
    """The weighted squared error at one unit of noise."""
    variances = split_variance(plan.steps, noise)
    return sum(
        float(product.weight) * plan.find_total(product, variances)
        for product in bound.workload.products
    )


def find_lower_bound(bound: BoundWorkload) -> float:
    """What no strategy can go below, at one unit of noise.

    For Laplace noise too: the L1 norm of a column is at least its L2 norm.
    """
    if isinstance(bound, BoundCounts):
        return bound_listed(bound)
    domain = make_domain(bound.workload.products, bound.sizes)
    if domain is not None:
        return domain.find_bound()
    return bound_products(bound.workload.products, bound.sizes)


def choose_plan(
    bound: BoundWorkload, price: Price, pot: str, kernel: Pricer, view: LedgerView
) -> WorkloadOffer:
    """The offer that errs least among all plans and all noises that the price buys."""
    offers: list[WorkloadOffer] = []
    refused: list[DitherError] = []
    for family in list_families(view, price):
        if family not in FAMILIES:
            continue
        noise, name = FAMILIES[family]
        try:
            offers.append(_offer_best(bound, noise, name, price, pot, kernel, view))
        except DitherError as error:
            refused.append(error)
    if not offers:
        raise (
            refused[0]
            if refused
            else RefusedError(
                "this budget buys neither Laplace nor Gaussian noise at this price",
                rule=PrivacyRule.POT_RULE,
            )
        )
    best = min(offers, key=lambda offer: offer.error)
    compared = [
        f"{offer.noise} noise: {(offer.error / best.error) ** 0.5:.3g} times the error"
        for offer in offers
        if offer is not best
    ]
    reasons = (f"{best.noise} noise errs least at this price", *compared, *best.reasons)
    return WorkloadOffer(
        bound, best.plan, best.noise, best.priced, best.scale, best.lower_bound, reasons
    )


def _offer_best(
    bound: BoundWorkload,
    noise: Noise,
    family: str,
    price: Price,
    pot: str,
    kernel: Pricer,
    view: LedgerView,
) -> WorkloadOffer:
    """The best plan for one noise, priced by the kernel's rules."""
    plans = list_plans(bound, noise)
    scores = [score_plan(plan, bound, noise) for plan in track(plans, len(plans))]
    best = int(np.argmin(scores))
    plan = plans[best]
    reasons = [
        f"{listed.name}: {(score / scores[best]) ** 0.5:.4g} times the error of {plan.name}"
        for listed, score in zip(plans, scores, strict=True)
        if listed is not plan
    ]
    plan, priced = _price_plan(bound, plan, family, price, pot, kernel, view)
    scale = find_scale(plan, read_variances(priced), noise)
    if scale > 1:
        request = make_request(bound, plan, family, price, pot, scale)
        priced = kernel.price_at(request, view)
    if has_other_noise(kernel, priced):
        priced = double_weights(kernel, priced)
    unit = _find_unit(plan, read_variances(priced) / scale**2, noise)
    lower = unit * find_lower_bound(bound)
    return WorkloadOffer(bound, plan, noise, priced, scale, lower, (*reasons, *plan.reasons))


def _price_plan(
    bound: BoundWorkload,
    plan: MeasurementPlan,
    family: str,
    price: Price,
    pot: str,
    kernel: Pricer,
    view: LedgerView,
) -> tuple[MeasurementPlan, Priced]:
    """The plan in the largest integers whose noise can be drawn, and its price."""
    refused: ParameterError | None = None
    for bits in STEPS:
        smaller = coarsen_plan(plan, bits)
        if smaller is None:
            break
        try:
            request = make_request(bound, smaller, family, price, pot, 1)
            return smaller, kernel.price_at(request, view)
        except ParameterError as error:
            refused = refused or error
    assert refused is not None
    raise refused


def make_request(
    bound: BoundWorkload,
    plan: MeasurementPlan,
    family: str,
    price: Price,
    pot: str,
    scale: int,
) -> Request:
    """The request that measures a plan, with every operator times an integer."""
    steps = tuple(
        Step(
            Linear(bound.make_cells(step.columns), scale_operator(step.operator, scale)),
            family,
            Fraction(max(1, round(step.share * _WEIGHT_STEPS)), _WEIGHT_STEPS),
        )
        for step in plan.steps
    )
    return Request(steps, price, pot)


def find_scale(plan: MeasurementPlan, variances: Floats, noise: Noise) -> int:
    """The power of two, at most 2**24, to multiply every operator by: the least at which roundings
    of the noise add at most a hundredth of a standard deviation to any estimate, if one does."""
    share = find_rounding_share([step.rows for step in plan.steps], variances, noise)
    if share <= _ROUNDING_SHARE:
        return 1
    if share >= _ROUNDING_SHARE * _MOST_SCALE:
        return _MOST_SCALE
    return int(2 ** ceil(log2(share / _ROUNDING_SHARE)))


def _find_unit(plan: MeasurementPlan, variances: Floats, noise: Noise) -> float:
    """The variance of one unit of noise: that of a count by itself at the whole price."""
    return float((variances / split_variance(plan.steps, noise)).min())
