"""Calibration: from price, weights and sensitivities to mechanisms. Pure functions of request, catalog and pot.

All steps of a request share one budget, in one of two measures, epsilon or rho. Step i gets budget * w_i / sum(w), its
family builds a mechanism for that share, rounded against us (`families.py` has the formula of each), and
losses of either measure add: the composed loss is at most the price, exactly. A price in epsilon buys Gaussian noise
only at the delta that the pot states per question; the rho it buys is checked with the pot's own conversion, the one
that will charge it. Proof: docs/proofs/kernel.md#calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import prod

from dither.canonical import number_text
from dither.catalog import Catalog
from dither.errors import ParameterError, RefusedError
from dither.laws import AdditiveErrorLaw
from dither.plan.algebra import Cells, CountDistinct, CountUnits, Keys, Quantiles, Query
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.grids import Points, points_of
from dither.plan.keys import key_domains, open_keys
from dither.plan.sensitivity import largest_value, touched
from dither.privacy.charges.conversions import rho_for
from dither.privacy.charges.logarithms import epsilon_up
from dither.privacy.kernel.families import FAMILIES
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import Loss, compose
from dither.privacy.mechanisms.protocol import Mechanism
from dither.privacy.mechanisms.step_terms import Measure, StepTerms

_INT64 = 2**63 - 1
_DECIMAL = 10**38 - 1
MOST_CELLS_PER_KEY = 1_000
MOST_QUANTILE_CELLS = 10_000
MOST_COLUMNS = 1_000
MOST_NUMBERS = 20_000_000
MOST_HELD = 1_000_000
_NO_RULE = "a node without a rule is refused"
_LESS = 1 - Fraction(1, 2**20)
_MOST_STEPS = 512
_MOST_HALVINGS = 64


@dataclass(frozen=True)
class Calibrated:
    """A step with the mechanism that the kernel will run, and the public width at which the noisy sum saturates.

    `copies` is how often the mechanism's loss counts: once, or for each cell of one unit. `cells` is the number of
    cells of listed keys, `unlisted` the other keys, `points` the grid of a quantile. `widths` are those of a cell's
    numbers one by one, the largest of which is `width`: a count beside a large sum is shown as narrow as it is.
    """

    step: Step
    mechanism: Mechanism
    width: int
    copies: int = 1
    cells: int = 1
    unlisted: tuple[str, ...] = ()
    points: Points | None = None
    widths: tuple[int, ...] = ()

    def loss(self) -> Loss:
        """What the step costs."""
        one = self.mechanism.loss()
        return one if self.copies == 1 else one * self.copies


def calibrate(
    request: Request, catalog: Catalog, delta: Fraction = Fraction(0), facts: Facts = NO_FACTS
) -> tuple[Calibrated, ...]:
    """One mechanism per step, so that all of them together cost at most the price; `delta` is the pot's share."""
    check_keys(request, catalog, facts)
    measure = _measure(request)
    selections = sum(isinstance(step.query, Keys) for step in request.steps)
    _check_delta(selections, delta)
    _check_numbers(request, catalog, facts)
    if measure == "rho" and selections:
        delta /= 2  # the other half is left for a conversion to epsilon
    budget = _budget(request.price, measure, delta)
    delta_of_selection = delta / selections if selections else Fraction(0)
    total = sum((step.weight for step in request.steps), Fraction(0))
    calibrated = []
    for step in request.steps:
        share = budget * step.weight / total
        terms = StepTerms(step.query, measure, share, delta_of_selection, catalog, facts)
        calibrated.append(calibrate_step(step, terms))
    return tuple(calibrated)


def _measure(request: Request) -> Measure:
    """The measure that all steps share: epsilon where the price and every family have it, else rho."""
    families = [FAMILIES[step.family] for step in request.steps]
    has_epsilon = all("epsilon" in family.measures for family in families)
    if has_epsilon and request.price.epsilon is not None:
        return "epsilon"
    if all("rho" in family.measures for family in families):
        return "rho"
    if has_epsilon:
        raise RefusedError("Laplace noise is priced in epsilon: ask with epsilon=", rule="one price, one measure")
    names = sorted({family.name for family in families})
    raise RefusedError(f"no rule for the families {names}", rule=_NO_RULE)


def _budget(price: Price, measure: Measure, delta: Fraction) -> Fraction:
    """What all steps share, in their measure."""
    if measure == "rho":
        return _rho(price, delta)
    assert price.epsilon is not None
    return price.epsilon


def calibrate_step(step: Step, terms: StepTerms) -> Calibrated:
    """The mechanism that the step's family builds for its share, and the public shape of what it releases."""
    query, catalog, facts = step.query, terms.catalog, terms.facts
    if isinstance(query, Quantiles):
        terms = replace(terms, points=points_of(query, catalog, facts))
    mechanism, copies = FAMILIES[step.family].build(terms)
    if isinstance(query, Keys):
        return Calibrated(step, mechanism, 0, copies)
    unlisted = open_keys(query, catalog, facts)
    if isinstance(query, Quantiles):
        points = terms.points
        assert points is not None
        cells = _count_quantile_cells(query, catalog, facts)
        return Calibrated(step, mechanism, _width_of_points(points), copies, cells, unlisted, points)
    widths = _widths(query, mechanism, catalog, facts)
    cells = _count_cells(query, catalog, facts)
    return Calibrated(step, mechanism, max(widths), copies, cells, unlisted, widths=widths)


def _widths(query: Cells, mechanism: Mechanism, catalog: Catalog, facts: Facts) -> tuple[int, ...]:
    """For each number the width that holds its largest value and its noise."""
    widths = []
    for column, aggregate in enumerate(query.columns):
        law = mechanism.error_law(column)
        assert isinstance(law, AdditiveErrorLaw)
        is_narrow = largest_value(aggregate, query, catalog, facts) + law.reach < _INT64
        widths.append(_INT64 if is_narrow else _DECIMAL)
    return tuple(widths)


def _width_of_points(points: Points) -> int:
    return _INT64 if max(abs(points.low), abs(points.high)) <= _INT64 else _DECIMAL


def _count_quantile_cells(query: Quantiles, catalog: Catalog, facts: Facts) -> int:
    cells = _count_cells(query, catalog, facts)
    if cells > MOST_QUANTILE_CELLS:
        raise RefusedError(
            f"a quantile in each of {cells} cells: at most {MOST_QUANTILE_CELLS}. Group by fewer keys",
            rule="work is bounded",
        )
    return cells


def _count_cells(query: Query, catalog: Catalog, facts: Facts) -> int:
    """Cells of the listed keys; few, where each unlisted key has so many."""
    cells = prod(domain.codes for domain in key_domains(query, catalog, facts))
    if cells > MOST_CELLS_PER_KEY and open_keys(query, catalog, facts):
        raise RefusedError(
            f"{cells} declared keys for each key that is not listed: at most {MOST_CELLS_PER_KEY}. Group by fewer",
            rule="work is bounded",
        )
    return cells


def _check_delta(selections: int, delta: Fraction) -> None:
    if selections and not delta:
        raise RefusedError(
            "keys that are not listed in the catalog are shown by private key selection, which needs a delta, and this "
            "pot states none: list the keys in the catalog, or ask from a pot opened with --delta-per-question (rule "
            "approx) or --delta-selection (rule zcdp)",
            rule="privacy-rules 14",
        )


def check_keys(request: Request, catalog: Catalog, facts: Facts) -> None:
    """Every step has a family of its kind; unlisted keys leave only through a selection over the same rows and keys."""
    asked = sum(len(getattr(step.query, "columns", ())) or 1 for step in request.steps)
    if asked > MOST_COLUMNS:
        raise RefusedError(f"{asked} aggregates in one request: at most {MOST_COLUMNS}", rule="work is bounded")
    selections = [step.query for step in request.steps if isinstance(step.query, Keys)]
    if len({(query.plan, query.keys) for query in selections}) != len(selections):
        raise RefusedError("a selection of keys twice", rule=_NO_RULE)
    for step in request.steps:
        query = step.query
        family = FAMILIES.get(step.family) if isinstance(step.family, str) else None
        if family is None or type(query) is not family.answers:
            raise RefusedError(f"no rule for {type(query).__name__} by {step.family!r}", rule=_NO_RULE)
        unlisted = open_keys(query, catalog, facts)
        if isinstance(query, Keys):
            if not query.keys or unlisted != query.keys:
                raise RefusedError("listed keys are all returned, never selected", rule="listed keys are all returned")
        elif unlisted and not any((one.plan, one.keys) == (query.plan, unlisted) for one in selections):
            raise RefusedError(
                f"{', '.join(unlisted)} needs a selection of keys over the same rows",
                rule="undeclared keys go through key selection",
            )


def _check_numbers(request: Request, catalog: Catalog, facts: Facts) -> None:
    """All declared cells of all steps together are few enough to be held, and so is what one unit adds to memory.

    Counting distinct values or owners holds every row's value: a unit whose rows a self-join multiplied would show in
    the memory, and near its end in a failure.
    """
    numbers = held = 0
    for step in request.steps:
        distinct = [one for one in getattr(step.query, "columns", ()) if isinstance(one, (CountDistinct, CountUnits))]
        held += touched(step.query, catalog, facts).rows * (len(distinct) + isinstance(step.query, (Keys, Quantiles)))
        each = len(getattr(step.query, "columns", ())) or getattr(step.query, "width", 1)
        numbers += each * prod(domain.codes for domain in key_domains(step.query, catalog, facts))
    if numbers > MOST_NUMBERS:
        raise RefusedError(
            f"{numbers:,} numbers in one answer: at most {MOST_NUMBERS:,}. Group by fewer keys", rule="work is bounded"
        )
    if held > MOST_HELD:
        raise RefusedError(
            f"distinct values, keys or quantiles over {held:,} rows of one unit: at most {MOST_HELD:,}. Limit the rows "
            "of a person first, or ask for fewer of them in one question",
            rule="work is bounded",
        )


def _rho(price: Price, delta: Fraction) -> Fraction:
    """What steps with Gaussian noise share."""
    if price.rho is not None:
        return price.rho
    if not delta:
        raise RefusedError(
            "Gaussian noise has no epsilon at delta 0, and this pot states none per question: ask with Laplace noise, "
            "or rho= in a zCDP pot",
            rule="privacy-rules 14",
        )
    assert price.epsilon is not None
    return rho_within(price.epsilon, delta)


@lru_cache(maxsize=256)
def rho_within(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho, the largest to six digits, whose exact conversion at delta is at most epsilon.

    >>> float(rho_within(Fraction(1), Fraction(1, 10**6)))
    0.02435...
    """
    start = Fraction(rho_for(epsilon, delta))

    def fits(rho: Fraction) -> bool:
        return epsilon_up(rho, delta) <= epsilon

    def lowered(step: int) -> Fraction:
        return start * Fraction(_LESS**step)

    steps = first_step(lambda step: fits(lowered(step)), _MOST_STEPS)
    if steps is not None:
        return lowered(steps)
    halvings = first_step(lambda step: fits(start / 2**step), _MOST_HALVINGS)
    if halvings is None:
        raise ParameterError(
            f"epsilon {number_text(epsilon)} is too small for Gaussian noise at delta {number_text(delta)}: ask with "
            "Laplace noise, with rho= in a zCDP pot, or choose e.g. epsilon=0.5"
        )
    low: Fraction = start / 2**halvings

    def raised(step: int) -> Fraction:
        return low * (2 - Fraction(step, 2**20))

    finer = first_step(lambda step: fits(raised(step)), 2**20)
    return low if finer is None else raised(finer)


def first_step(holds: Callable[[int], bool], most: int) -> int | None:
    """The first step from 0 to `most` at which `holds`, which stays true from there on; None if there is none.

    >>> first_step(lambda step: step >= 300, 512), first_step(lambda step: False, 512)
    (300, None)
    """
    if holds(0):
        return 0
    low, high = 0, 1
    while not holds(high):
        if high == most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def loss_of(calibrated: tuple[Calibrated, ...]) -> Loss:
    """The loss of all steps together, as data."""
    losses = [each.loss() for each in calibrated]
    return losses[0] if len(losses) == 1 else compose(*losses)
