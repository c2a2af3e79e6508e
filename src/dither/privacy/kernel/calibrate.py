"""Calibration: from price, weights and sensitivities to mechanisms.

The functions here depend on request, catalog and pot alone.

All steps of a request share one budget, in one of two measures, epsilon or rho. Step i gets budget
* w_i / sum(w), its family builds a mechanism for that share, rounded against us (`families.py` has
the formula of each), and losses of either measure add: the composed loss is at most the price,
exactly. A price in epsilon buys Gaussian noise only at the delta that the pot states per question;
the rho it buys is checked with the pot's own conversion, the one that will charge it. Beside noise
that has an epsilon of its own, selections of keys by a threshold buy their rho with their part of
the epsilon. Proof: docs/proofs/kernel.md#calibration.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from dither.error_terms import NoiseTerms
from dither.errors import RefusedError
from dither.plan.algebra import (
    Aggregate,
    BlockCounts,
    Cells,
    CountDistinct,
    CountUnits,
    JointScores,
    Keys,
    Quantiles,
    Query,
    Scores,
    UnitVectors,
)
from dither.plan.analysed_query import AnalysedQuery, Analyses
from dither.plan.grids import Points
from dither.plan.measured import measured_query
from dither.privacy.charges.measures import zcdp
from dither.privacy.kernel.families import BY_CURVE, FAMILIES
from dither.privacy.kernel.request import Request, Step
from dither.privacy.kernel.rho_within import rho_on_curve, rho_within
from dither.privacy.losses import ZCDP, FixedNoise, Loss, compose
from dither.privacy.mechanisms.protocol import Mechanism
from dither.privacy.mechanisms.step_terms import Measure, StepTerms
from dither.rules import PrivacyRule

_INT64 = 2**63 - 1
_DECIMAL = 10**38 - 1
MOST_CELLS_PER_KEY = 1_000
MOST_QUANTILE_CELLS = 10_000
MOST_COLUMNS = 1_000
MOST_NUMBERS = 20_000_000
MOST_HELD = 1_000_000
TEXT_OF_A_ROW = 64
"""So many characters of texts that are held for a row count as one more row in memory."""


@dataclass(frozen=True)
class Calibrated:
    """A step with the mechanism that the kernel will run for it.

    `width` is public: the noisy sum is cut off there. `copies` is how often the mechanism's loss
    counts: once, or for each cell of one unit; a fraction multiplies its rho. `cells` is how many
    cells the listed keys have, `unlisted` the other keys, `points` the grid of a quantile. `widths`
    are those of a cell's numbers one by one, the largest of which is `width`: a count beside a
    large sum is shown as narrow as it is. `largest_cells` bounds all cells together that an
    operator or a utility takes.
    """

    step: Step
    mechanism: Mechanism
    width: int
    copies: int | Fraction = 1
    cells: int = 1
    unlisted: tuple[str, ...] = ()
    points: Points | None = None
    widths: tuple[int, ...] = ()
    largest_cells: int = 0

    def loss(self) -> Loss:
        """What the step costs."""
        loss = self.mechanism.loss()
        if isinstance(self.copies, Fraction):
            rho = self.copies * zcdp(loss)[0]
            return ZCDP(rho, neighbours=loss.neighbours, unit=loss.unit)
        return loss if self.copies == 1 else loss * self.copies


def calibrate_request(
    request: Request, analyses: Analyses, delta: Fraction
) -> tuple[Calibrated, ...]:
    """Build one mechanism per step, so that all of them together cost at most the price.

    `delta` is the share of the pot's delta that this question may use.
    """
    queries = check_keys(request, analyses)
    return calibrate_queries(request, queries, analyses.catalog.unit.label, delta)


def calibrate_queries(
    request: Request, queries: list[AnalysedQuery], unit: str, delta: Fraction
) -> tuple[Calibrated, ...]:
    """As `calibrate_request`, where `queries` are the checked queries of the steps, analysed."""
    measure = _measure(request)
    selections = sum(isinstance(step.query, Keys) for step in request.steps)
    _check_delta(selections, delta)
    _check_numbers(queries)
    measures = _measures(request, measure)
    if selections and "rho" in measures:
        delta /= 2  # the other half is left for a conversion to epsilon
    budget = _budget(request, measure, delta)
    delta_of_selection = delta / selections if selections else Fraction(0)
    shares = _shares(request, measures, budget, delta)
    return tuple(
        calibrate_step(step, StepTerms(analysed, own, share, delta_of_selection, unit))
        for step, analysed, own, share in zip(request.steps, queries, measures, shares, strict=True)
    )


def _measures(request: Request, measure: Measure) -> list[Measure]:
    """The measure of every step: the shared one, or rho where its family has no other."""
    return [
        measure if measure in FAMILIES[step.family].measures else "rho" for step in request.steps
    ]


def _shares(
    request: Request, measures: list[Measure], budget: Fraction, delta: Fraction
) -> list[Fraction]:
    """The share of every step, in its own measure.

    Steps in rho beside steps in epsilon convert their part of the epsilon once, all together: the
    pot adds up their rhos before it converts them.
    """
    weights = [step.weight for step in request.steps]
    whole = sum(weights, Fraction(0))
    if len(set(measures)) == 1:
        return [budget * weight / whole for weight in weights]
    by_rho = sum((w for w, own in zip(weights, measures, strict=True) if own == "rho"), Fraction(0))
    rho = rho_within(budget * by_rho / whole, delta)
    return [
        rho * weight / by_rho if own == "rho" else budget * weight / whole
        for weight, own in zip(weights, measures, strict=True)
    ]


def _measure(request: Request) -> Measure:
    """Choose the measure that all steps share.

    It is epsilon where the price and every family have it, else rho. Selections of keys that have
    a rho alone may stand beside families that have an epsilon alone: then it is epsilon.
    """
    families = [FAMILIES[step.family] for step in request.steps]
    has_epsilon = all("epsilon" in family.measures for family in families)
    if has_epsilon and request.price.epsilon is not None:
        return "epsilon"
    if all("rho" in family.measures for family in families):
        return "rho"
    if request.price.epsilon is not None and all(
        "epsilon" in family.measures or family.answers is Keys for family in families
    ):
        return "epsilon"
    if has_epsilon:
        raise RefusedError(
            "Laplace noise is priced in epsilon: ask with epsilon=", rule=PrivacyRule.ONE_MEASURE
        )
    names = sorted({family.name for family in families})
    raise RefusedError(f"no rule for the families {names}", rule=PrivacyRule.NO_RULE)


def _budget(request: Request, measure: Measure, delta: Fraction) -> Fraction:
    """Convert the price into the measure of the steps; an epsilon may buy a rho."""
    price = request.price
    if measure == price.name:
        return price.value
    if not delta:
        raise RefusedError(
            "Gaussian noise has no epsilon at delta 0, and this budget states none per question: "
            "ask with Laplace noise, or rho= in a zCDP budget",
            rule=PrivacyRule.POT_RULE,
        )
    return (rho_on_curve if _is_by_curve(request.steps) else rho_within)(price.value, delta)


def _is_by_curve(steps: tuple[Step, ...]) -> bool:
    """Whether all noise is rounded Gaussian noise that may be charged by its exact curve."""
    return all(step.family == BY_CURVE for step in steps)


def calibrate_step(step: Step, terms: StepTerms) -> Calibrated:
    """Build the mechanism of one step, with the public shape of what it releases."""
    analysed = terms.analysed
    if isinstance(terms.query, Quantiles):
        _ = analysed.points  # refused before a mechanism is built
    mechanism, copies = FAMILIES[step.family].build(terms)
    if isinstance(terms.query, Keys):
        return Calibrated(step, mechanism, 0, copies)
    if isinstance(terms.query, Quantiles):
        return Calibrated(
            step,
            mechanism,
            _width_of_points(analysed.points),
            copies,
            _count_quantile_cells(analysed),
            analysed.unlisted,
            analysed.points,
        )
    if isinstance(terms.query, (Scores, JointScores, BlockCounts)):
        return Calibrated(
            step,
            mechanism,
            _INT64,
            copies,
            analysed.released_rows,
            largest_cells=analysed.largest_cells,
        )
    widths = _widths(analysed, mechanism)
    return Calibrated(
        step,
        mechanism,
        max(widths),
        copies,
        _count_cells(analysed),
        analysed.unlisted,
        widths=widths,
        largest_cells=analysed.largest_cells,
    )


def _widths(analysed: AnalysedQuery, mechanism: Mechanism) -> tuple[int, ...]:
    """Choose for each number a width that holds its largest value and its noise."""
    widths = []
    for column, largest in enumerate(analysed.largest_values):
        noise = mechanism.error_terms(column)
        assert isinstance(noise, NoiseTerms)
        widths.append(_INT64 if largest + noise.reach < _INT64 else _DECIMAL)
    return tuple(widths)


def _width_of_points(points: Points) -> int:
    return _INT64 if max(abs(points.low), abs(points.high)) <= _INT64 else _DECIMAL


def _count_quantile_cells(analysed: AnalysedQuery) -> int:
    """Count the cells of a query for quantiles; refuse more than one request may ask for."""
    cells = _count_cells(analysed)
    if cells > MOST_QUANTILE_CELLS:
        raise RefusedError(
            f"a quantile in each of {cells} cells: at most {MOST_QUANTILE_CELLS}. Group by fewer "
            f"keys",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return cells


def _count_cells(analysed: AnalysedQuery) -> int:
    """Count the cells of the listed keys; refuse many where every unlisted key has them all."""
    if analysed.cells > MOST_CELLS_PER_KEY and analysed.unlisted:
        raise RefusedError(
            f"{analysed.cells} declared keys for each key that is not listed: at most "
            f"{MOST_CELLS_PER_KEY}. Group by fewer",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    return analysed.released_rows


def check_keys(request: Request, analyses: Analyses) -> list[AnalysedQuery]:
    """Check the steps of a request against each other, and return the analysed query of each.

    Raises RefusedError where there are too many aggregates, where a step's family does not serve
    its query, and where unlisted keys would leave without a selection over the same rows and keys.
    """
    aggregates = sum(len(getattr(step.query, "columns", ())) or 1 for step in request.steps)
    if aggregates > MOST_COLUMNS:
        raise RefusedError(
            f"{aggregates} aggregates in one request: at most {MOST_COLUMNS}",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    selections = [step.query for step in request.steps if isinstance(step.query, Keys)]
    if len({(query.plan, query.keys) for query in selections}) != len(selections):
        raise RefusedError("a selection of keys twice", rule=PrivacyRule.NO_RULE)
    queries = [_check_step(step, selections, analyses) for step in request.steps]
    _check_samples(request.steps)
    _check_columns(request.steps)
    return queries


def _check_samples(steps: tuple[Step, ...]) -> None:
    """Refuse a sampled query beside others: two noises on one sample are not two samples."""
    if len(steps) > 1 and any(
        isinstance(step.query, UnitVectors) and step.query.rate is not None for step in steps
    ):
        raise RefusedError(
            "a sample of units is the only step of its request", rule=PrivacyRule.NO_RULE
        )


def _check_columns(steps: tuple[Step, ...]) -> None:
    """Refuse a measured column that no step answers, since its rules were not checked."""
    whole = {_name_columns(step.measured) for step in steps if step.columns is None}
    answered = {
        (*_name_columns(step.measured), position)
        for step in steps
        for position in step.columns or ()
    }
    for named in {_name_columns(step.measured) for step in steps} - whole:
        if any((*named, position) not in answered for position in range(len(named[-1]))):
            raise RefusedError(
                "a column is measured that no step answers", rule=PrivacyRule.NO_RULE
            )


def _name_columns(query: Query) -> tuple[str, tuple[str, ...], tuple[Aggregate, ...]]:
    """Return rows (by their hash: `==` takes 1 for True), keys and columns of a query."""
    return query.plan.hash, query.keys, query.columns if isinstance(query, Cells) else ()


def _check_step(step: Step, selections: list[Keys], analyses: Analyses) -> AnalysedQuery:
    """Check that a step's family answers its query, and return the query's analysis.

    Keys that the catalog does not list need a step that selects them over the same rows; listed
    keys are never selected.
    """
    query = step.query
    family = FAMILIES.get(step.family) if isinstance(step.family, str) else None
    if family is None or type(query) is not family.answers:
        raise RefusedError(
            f"no rule for {type(query).__name__} by {step.family!r}", rule=PrivacyRule.NO_RULE
        )
    analysed = analyses.analyse_query(query)
    if isinstance(query, Keys):
        if not query.keys or analysed.unlisted != query.keys:
            raise RefusedError(
                "listed keys are all returned, never selected", rule=PrivacyRule.ALL_KEYS
            )
    elif analysed.unlisted and not any(
        (selection.plan, selection.keys) == (query.plan, analysed.unlisted)
        for selection in selections
    ):
        raise RefusedError(
            f"{', '.join(analysed.unlisted)} needs a selection of keys over the same rows",
            rule=PrivacyRule.KEY_SELECTION,
        )
    return analysed


def _check_delta(selections: int, delta: Fraction) -> None:
    """Refuse a selection of keys from a pot that has no delta for it."""
    if selections and not delta:
        raise RefusedError(
            "keys that are not listed in the catalog are shown by private key selection, which "
            "needs a delta, and this budget states none: list the keys in the catalog, or ask from "
            "a budget opened with --delta-per-question (rule approx) or --delta-selection (rule "
            "zcdp)",
            rule=PrivacyRule.POT_RULE,
        )


def _check_numbers(queries: list[AnalysedQuery]) -> None:
    """Refuse a request whose answer, or what one unit adds to memory, is too large.

    Counting distinct values or owners holds every row's value: a unit whose rows a self-join
    multiplied would show in the memory, and near its end in a failure.
    """
    numbers = rows_in_memory = 0
    for analysed in queries:
        query = measured_query(analysed.query)
        columns = query.columns if isinstance(query, Cells) else ()
        distinct = sum(isinstance(column, (CountDistinct, CountUnits)) for column in columns)
        held = (*query.keys, *(of.column for of in columns if isinstance(of, CountDistinct)))
        texts = sum(analysed.rows.columns[name].width for name in held) // TEXT_OF_A_ROW
        kept = distinct + isinstance(query, (Keys, Quantiles)) + texts
        rows_in_memory += analysed.reach.rows * kept
        numbers += analysed.width * max(analysed.cells, analysed.released_rows)
    if numbers > MOST_NUMBERS:
        raise RefusedError(
            f"{numbers:,} numbers in one answer: at most {MOST_NUMBERS:,}. Group by fewer keys",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    if rows_in_memory > MOST_HELD:
        raise RefusedError(
            f"distinct values, keys or quantiles over {rows_in_memory:,} rows of one unit: at most "
            f"{MOST_HELD:,} ({TEXT_OF_A_ROW} characters of a text count as one). Limit the rows "
            "of a person first, cut long texts, or ask for fewer in one question",
            rule=PrivacyRule.BOUNDED_WORK,
        )


def loss_of(steps: tuple[Calibrated, ...]) -> Loss:
    """Compose the losses of all steps into one; all are fixed before the first."""
    losses = [step.loss() for step in steps]
    if _is_by_curve(tuple(step.step for step in steps)):
        return FixedNoise(tuple(losses))
    return losses[0] if len(losses) == 1 else compose(*losses)
