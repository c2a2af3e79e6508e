"""Calibration: from price, weights and sensitivities to mechanisms. Pure functions of request, catalog and pot.

All steps of a request share one budget, in one of two measures: epsilon (Laplace and box noise, geometric selection of
keys, the exponential mechanism, permute-and-flip) or rho (Gaussian noise, Gaussian selection, exponential mechanism).
Step i gets budget * w_i / sum(w), every solution is rounded against us, and losses of either measure add: the composed
loss is at most the price, exactly. A price in epsilon buys Gaussian noise only at the delta that the pot states per
question; the rho it buys is checked with the pot's own conversion, the one that will charge it.

Laplace: scale = D1 / epsilon_i. Box: scale = rows / epsilon_i. Gaussian: sigma = sqrt(D2 / (2 rho_i)). Quantiles: the
choices in all cells together are one exponential mechanism for the rows of a unit in all, or one for the rows in a cell
for each of its g cells, whichever errs less; m quantiles are `levels` of them, and a part of the price is for their
ends, where asked for. Keys: by the mechanism, for at most m keys per unit. Proof: docs/proofs/kernel.md#calibration.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import isqrt, prod
from typing import TypeAlias

from dither.canonical import number_text
from dither.catalog import Catalog
from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Cells, CountDistinct, CountUnits, Keys, Quantiles, Query
from dither.plan.facts import NO_FACTS, Facts
from dither.plan.grids import Points, points_of
from dither.plan.keys import key_domains, open_keys
from dither.plan.sensitivity import Reach, box, largest_value, sensitivity, touched
from dither.privacy.charges.conversions import rho_for
from dither.privacy.charges.logarithms import epsilon_up
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import Loss, compose
from dither.privacy.mechanisms import (
    FlippedQuantile,
    GaussianKeys,
    IntegerBox,
    IntegerGaussian,
    IntegerLaplace,
    JointQuantiles,
    Quantile,
    QuantilesWithEnds,
    TruncatedGeometricKeys,
)
from dither.privacy.mechanisms.box import MOST_SIDES

_INT64 = 2**63 - 1
_DECIMAL = 10**38 - 1
_IN_EPSILON = {"laplace", "box", "geometric_keys", "exponential", "permute_and_flip"}
_IN_RHO = {"gaussian", "gaussian_keys", "exponential"}
_FITS = {
    Cells: ("laplace", "gaussian", "box"),
    Keys: ("geometric_keys", "gaussian_keys"),
    Quantiles: ("exponential", "permute_and_flip"),
}
MOST_CELLS_PER_KEY = 1_000
MOST_QUANTILE_CELLS = 10_000
MOST_COLUMNS = 1_000
MOST_NUMBERS = 20_000_000
MOST_HELD = 1_000_000
_NO_RULE = "a node without a rule is refused"
_LESS = 1 - Fraction(1, 2**20)
_MOST_STEPS = 512
_MOST_HALVINGS = 64

Mechanism: TypeAlias = (
    IntegerLaplace
    | IntegerBox
    | IntegerGaussian
    | TruncatedGeometricKeys
    | GaussianKeys
    | Quantile
    | JointQuantiles
    | QuantilesWithEnds
)


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
    families = {step.family for step in request.steps}
    total = sum((step.weight for step in request.steps), Fraction(0))
    selections = sum(isinstance(step.query, Keys) for step in request.steps)
    in_epsilon = families <= _IN_EPSILON and request.price.epsilon is not None
    if not in_epsilon and not families <= _IN_RHO:
        if families <= _IN_EPSILON:
            raise RefusedError("Laplace noise is priced in epsilon: ask with epsilon=", rule="one price, one measure")
        raise RefusedError(f"no rule for the families {sorted(families)}", rule=_NO_RULE)
    if selections and not delta:
        raise RefusedError(
            "keys that are not listed in the catalog are shown by private key selection, which needs a delta, and this "
            "pot states none: list the keys in the catalog, or ask from a pot opened with --delta-per-question (rule "
            "approx) or --delta-selection (rule zcdp)",
            rule="privacy-rules 14",
        )
    _check_numbers(request, catalog, facts)
    if in_epsilon:
        assert request.price.epsilon is not None
        budget, each = request.price.epsilon, delta / selections if selections else Fraction(0)
        return tuple(_in_epsilon(step, budget * step.weight / total, catalog, facts, each) for step in request.steps)
    # half of the delta is left for a conversion to epsilon where keys are selected with the other half
    spent = delta / 2 if selections else delta
    budget, each = _rho(request.price, spent), spent / selections if selections else Fraction(0)
    return tuple(_in_rho(step, budget * step.weight / total, catalog, facts, each) for step in request.steps)


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
        if type(query) not in _FITS or step.family not in _FITS[type(query)]:
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


def _in_epsilon(step: Step, share: Fraction, catalog: Catalog, facts: Facts, delta: Fraction) -> Calibrated:
    query, neighbours, unit = step.query, catalog.neighbours, catalog.unit.label
    if isinstance(query, Keys):
        groups = _groups(query, catalog, facts)
        return Calibrated(step, TruncatedGeometricKeys(share, delta, groups, neighbours, unit), 0)
    if isinstance(query, Quantiles):
        return _quantiles(step, query, share, False, catalog, facts)
    if step.family == "box":
        return _box(step, query, share, catalog, facts)
    mechanism = IntegerLaplace.for_epsilon(share, sensitivity(query, catalog, facts), neighbours=neighbours, unit=unit)
    return _additive(step, query, mechanism, (100 * mechanism.scale,) * len(query.columns), catalog, facts)


def _box(step: Step, query: Cells, share: Fraction, catalog: Catalog, facts: Facts) -> Calibrated:
    if not 2 <= len(query.columns) <= MOST_SIDES:
        raise RefusedError(f"box noise is for 2 to {MOST_SIDES} numbers, got {len(query.columns)}", rule=_NO_RULE)
    known = box(query, catalog, facts)
    towards = {"neighbours": catalog.neighbours, "unit": catalog.unit.label}
    mechanism = IntegerBox.for_epsilon(share, known.sides, known.rows, **towards)
    reaches = tuple(100 * side * mechanism.scale for side in known.sides)
    return _additive(step, query, mechanism, reaches, catalog, facts)


def _in_rho(step: Step, share: Fraction, catalog: Catalog, facts: Facts, delta: Fraction) -> Calibrated:
    query, neighbours, unit = step.query, catalog.neighbours, catalog.unit.label
    if isinstance(query, Keys):
        groups = _groups(query, catalog, facts)
        return Calibrated(step, GaussianKeys.for_rho(share, delta, groups=groups, neighbours=neighbours, unit=unit), 0)
    if isinstance(query, Quantiles):
        return _quantiles(step, query, share, True, catalog, facts)
    mechanism = IntegerGaussian.for_rho(share, sensitivity(query, catalog, facts), neighbours=neighbours, unit=unit)
    return _additive(step, query, mechanism, (40 * mechanism.sigma,) * len(query.columns), catalog, facts)


def _additive(
    step: Step,
    query: Cells,
    mechanism: IntegerLaplace | IntegerGaussian | IntegerBox,
    reaches: tuple[Fraction, ...],
    catalog: Catalog,
    facts: Facts,
) -> Calibrated:
    largest = (largest_value(aggregate, query, catalog, facts) for aggregate in query.columns)
    widths = tuple(_INT64 if most + reach < _INT64 else _DECIMAL for most, reach in zip(largest, reaches, strict=True))
    cells, unlisted = _cells(query, catalog, facts), open_keys(query, catalog, facts)
    return Calibrated(step, mechanism, max(widths), cells=cells, unlisted=unlisted, widths=widths)


def _quantiles(
    step: Step, query: Quantiles, share: Fraction, is_rho: bool, catalog: Catalog, facts: Facts
) -> Calibrated:
    """One exponential mechanism (or one joint one) in each cell; `share` is an epsilon, or a rho."""
    points = points_of(query, catalog, facts)
    rows, copies = _ranges(touched(query, catalog, facts), is_rho)
    towards = (rows, catalog.neighbours, catalog.unit.label)
    share /= copies

    def epsilon(part: Fraction, levels: int) -> Fraction:
        """`levels` bounded ranges of epsilon / levels each: rho = epsilon^2 / (8 levels)."""
        return root_down(8 * part * levels) if is_rho else part

    level, for_ends = query.ends or (Fraction(0), Fraction(0))
    part = share * (1 - for_ends)
    mechanism: Quantile | JointQuantiles | QuantilesWithEnds
    if step.family == "permute_and_flip":
        if len(query.shares) > 1:
            raise RefusedError("permute-and-flip chooses one quantile", rule=_NO_RULE)
        mechanism = FlippedQuantile(query.shares[0], part, *towards)
    elif len(query.shares) == 1:
        mechanism = Quantile(query.shares[0], epsilon(part, 1), *towards)
    else:
        mechanism = JointQuantiles(query.shares, epsilon(part, len(query.shares).bit_length()), *towards)
    if query.ends is not None:
        each = epsilon(share * for_ends / (2 * len(query.shares)), 1)
        mechanism = QuantilesWithEnds(mechanism, each, level, points.count)
    if (cells := _cells(query, catalog, facts)) > MOST_QUANTILE_CELLS:
        raise RefusedError(
            f"a quantile in each of {cells} cells: at most {MOST_QUANTILE_CELLS}. Group by fewer keys",
            rule="work is bounded",
        )
    width = _INT64 if max(abs(points.low), abs(points.high)) <= _INT64 else _DECIMAL
    return Calibrated(step, mechanism, width, copies, cells, open_keys(query, catalog, facts), points)


def _ranges(reach: Reach, is_rho: bool) -> tuple[int, int]:
    """(rows per unit, copies) of the exponential mechanism in each cell, with the smaller noise for one price.

    Ranges of cells add up, and each is in proportion to the rows of the unit there: together they are one range for all
    of its rows. Or g cells with at most r rows each. Noise goes with rows * copies in epsilon, rows^2 * copies in rho.
    """
    ways = [(reach.rows, 1), (reach.rows_per_cell, reach.cells)]
    return min(ways, key=lambda way: way[0] ** (2 if is_rho else 1) * way[1])


def _cells(query: Query, catalog: Catalog, facts: Facts) -> int:
    """Cells of the listed keys; few, where each unlisted key has so many."""
    cells = prod(domain.codes for domain in key_domains(query, catalog, facts))
    if cells > MOST_CELLS_PER_KEY and open_keys(query, catalog, facts):
        raise RefusedError(
            f"{cells} declared keys for each key that is not listed: at most {MOST_CELLS_PER_KEY}. Group by fewer",
            rule="work is bounded",
        )
    return cells


def _groups(query: Keys, catalog: Catalog, facts: Facts) -> int:
    """At most so many keys per unit; the mechanism itself doubles them under replace."""
    cells = touched(query, catalog, facts).cells
    return -(-cells // 2) if catalog.neighbours == "replace" else cells


def root_down(x: Fraction) -> Fraction:
    """A rational at most sqrt(x), to about 60 bits.

    >>> root_down(Fraction(9)), root_down(Fraction(2)) ** 2 < 2
    (Fraction(3, 1), True)
    """
    shift = 64 + max(0, x.denominator.bit_length() - x.numerator.bit_length())
    return Fraction(isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)


def loss_of(calibrated: tuple[Calibrated, ...]) -> Loss:
    """The loss of all steps together, as data."""
    losses = [each.loss() for each in calibrated]
    return losses[0] if len(losses) == 1 else compose(*losses)
