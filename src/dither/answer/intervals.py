"""Intervals from the known noise law.

They cover the exact answer on the registered table as often as said.

* One atom, or an affine function of one: exact, from the law itself; at least the level.
* An affine function of several: the law of the weighted sum of noises, at fixed points; of more
  than six, or at a level beyond the reach of points, a certain bound by convolution.
* A ratio of two such (AVG): r is kept iff |N - r D| is no larger than the noise of N - r D is with
  that probability: Fieller's test inverted, with the true law in place of the normal (`ratios.py`),
  however small the group. Where the denominator cannot be told from 0 no finite interval exists,
  and both ends are null.
* Variances, covariances, slopes and correlations: the formula over released minus noise, at fixed
  points; equal tails. Draws where it has no value, or past a pole, count as beyond both ends, so
  that doubt widens.
* Any other function of these: interval arithmetic over intervals that hold together, each at its
  part of the miss (`interval_shapes.py`, `interval_arithmetic.py`). Where there is no rule for the
  function, both ends are null.
* CASE, IF, COALESCE, NULLIF: the interval of the alternative that a row shows; none for a constant
  that noise chose. `selection.py` says at which level.

An end that is NaN (null in the table) is no bound at all. Proof and measured coverage:
docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from functools import lru_cache, reduce

import numpy as np

from dither.answer import draws
from dither.answer.draws import NoiseLaw
from dither.answer.evaluate import FormulaInputs, evaluate, round_half_away
from dither.answer.interval_arithmetic import (
    COMPARISONS,
    MONOTONE,
    Ends,
    Floats,
    absolute_ends,
    add_ends,
    compare_ends,
    connect_ends,
    exponential_ends,
    extreme_ends,
    invert_ends,
    multiply_ends,
    negate_ends,
    no_ends,
    open_ends,
    raise_ends,
    remainder_ends,
)
from dither.answer.interval_shapes import (
    find_base_level,
    is_base,
    list_inner_values,
    read_determination,
    read_remainder,
    read_truncation,
)
from dither.answer.noises import Noises, weigh_positions
from dither.answer.ratios import FEW, find_ratio_ends
from dither.answer.selection import split_pieces
from dither.answer.sums import find_sum_bound
from dither.canonical import Number, exact, number_text
from dither.errors import ParameterError
from dither.question.expressions import Apply, Formula
from dither.question.shapes import Affine, affine, atoms_of, ratio


def read_level(confidence: Number) -> Fraction:
    """Read a confidence level; refused where it lies outside (0, 1)."""
    level = exact(confidence, "confidence")
    if not 0 < level < 1 or not 0.0 < float(level) < 1.0:
        raise ParameterError(
            f"confidence must lie in (0, 1), got {number_text(level)}: choose e.g. 0.95"
        )
    return level


def compute_interval(
    formula: Formula, inputs: FormulaInputs, noises: Noises, level: Fraction
) -> Ends:
    """Compute both ends for every row, in the units of the formula.

    An end is NaN where there is no bound or no value.
    """
    value = evaluate(formula, inputs)
    rows = int(np.prod(value.shape))
    low = np.full(value.shape, np.nan)
    high = np.full(value.shape, np.nan)
    if value.dtype == object:
        return low, high
    for piece in split_pieces(formula, inputs, rows):
        if piece.has_interval:
            chosen = ... if piece.rows is None else piece.rows
            low[chosen], high[chosen] = _compute_finite_ends(
                piece.value, piece.select_inputs(inputs), noises, level
            )
    return np.where(np.isnan(value), np.nan, low), np.where(np.isnan(value), np.nan, high)


def _compute_finite_ends(
    formula: Formula, inputs: FormulaInputs, noises: Noises, level: Fraction
) -> Ends:
    """Compute the ends of a formula's interval; an end that is not finite becomes NaN."""
    with np.errstate(all="ignore"):
        ends = _compute_ends(
            formula, inputs, noises, find_base_level(formula, noises.base_facts, level)
        )
    first, last = (np.where(np.isfinite(end), end, np.nan) for end in ends)
    return first, last


def _compute_ends(formula: Formula, inputs: FormulaInputs, noises: Noises, level: Fraction) -> Ends:
    """Compute the ends of a formula's interval, each noisy term (base) at this level."""
    value = evaluate(formula, inputs)
    if not atoms_of(formula):
        return (value, value) if value.dtype != object else no_ends()
    if not is_base(formula, noises.base_facts):
        return _apply_function(formula, inputs, noises, level)
    whole = affine(formula)
    if whole is not None and noises.base_facts.quantiles & set(atoms_of(formula)):
        return _read_band(whole, inputs, noises, level) or no_ends()
    if whole is not None:
        half = find_affine_half(whole, noises, level)
        return value - half, value + half
    quotient = ratio(formula)
    return (
        _draw_ends(formula, inputs, noises, level)
        if quotient is None
        else _compute_ratio_ends(*quotient, inputs, noises, level)
    )


# -- affine
# --------------------------------------------------------------------------------------------------


def find_affine_half(linear_form: Affine, noises: Noises, level: Fraction) -> float:
    """The half-width of an affine function of atoms: the same for every cell."""
    return _compute_half(tuple(weigh_positions(linear_form, noises).values()), level)


@lru_cache(maxsize=256)
def _compute_half(terms: tuple[tuple[float, NoiseLaw], ...], level: Fraction) -> float:
    """Compute half the interval of a sum of weighted noises; `terms` are (weight, law)."""
    laws = tuple(law for _, law in terms)
    weights = tuple(weight for weight, _ in terms)
    count = draws.count_size_points(float(level))
    is_joint = len(terms) > 1 and any(law.joint is not None for law in laws)
    # Points fill a cube of few dimensions, and few tails.
    if not is_joint or not count or len(terms) > FEW:
        return find_sum_bound(laws, weights, level, 1 << 13 if len(terms) <= FEW else 0)
    return draws.find_size_quantile(draws.draw_sizes(laws, count) @ np.array(weights), float(level))


def _read_band(
    linear_form: Affine, inputs: FormulaInputs, noises: Noises, level: Fraction
) -> Ends | None:
    """Compute the ends of a quantile, or of an affine function of one; None if none was bought."""
    if len(linear_form.weights) != 1:
        return None
    ((atom, weight),) = linear_form.weights
    band = noises.bands.get(atom)
    if band is None or level > band.level:
        return None
    low = np.minimum(inputs.atoms[band.low], inputs.atoms[atom])
    high = np.maximum(inputs.atoms[band.high], inputs.atoms[atom])
    high = high + float(dict(noises.bands.coarse).get(atom, 0))
    first_end, second_end = (
        float(weight) * end + float(linear_form.constant) for end in (low, high)
    )
    return np.minimum(first_end, second_end), np.maximum(first_end, second_end)


# -- ratios
# --------------------------------------------------------------------------------------------------


def _compute_ratio_ends(
    above: Affine, below: Affine, inputs: FormulaInputs, noises: Noises, level: Fraction
) -> Ends:
    """Compute the ends of a ratio of two affine functions of atoms."""
    top = weigh_positions(above, noises)
    bottom = weigh_positions(below, noises)
    return find_ratio_ends(
        top, bottom, _evaluate_affine(above, inputs), _evaluate_affine(below, inputs), level
    )


def _evaluate_affine(linear_form: Affine, inputs: FormulaInputs) -> Floats:
    """Compute the values of an affine function of atoms, row by row."""
    total = np.zeros(1) + float(linear_form.constant)
    for atom, weight in linear_form.weights:
        total = total + float(weight) * inputs.atoms[atom]
    return total


# -- around bases
# ------------------------------------------------------------------------------------------------


def _apply_function(
    formula: Formula, inputs: FormulaInputs, noises: Noises, level: Fraction
) -> Ends:
    """Apply the outer function to the ends of its inner values.

    This is interval arithmetic: the inner intervals hold at once.
    """
    ends = [
        open_ends(_compute_ends(inner, inputs, noises, level))
        for inner in list_inner_values(formula)
    ]
    if read_remainder(formula) is not None:
        return remainder_ends(ends[0], ends[1][0])
    if read_determination(formula) is not None:
        return raise_ends(ends[0], ends[1][0])
    if read_truncation(formula) is not None:
        return np.trunc(ends[0][0]), np.trunc(ends[0][1])
    match formula:
        case Apply("negate", _):
            return negate_ends(ends[0])
        case Apply("abs", _):
            return absolute_ends(ends[0])
        case Apply("round" | "power", (_, second)) if atoms_of(second):
            return _raise_public(formula, inputs, ends[1])
        case Apply("round", (_, *decimals)):
            digits = ends[1][0] if decimals else np.zeros(1)
            return round_half_away(ends[0][0], digits), round_half_away(ends[0][1], digits)
        case Apply("power", _):
            return raise_ends(ends[0], ends[1][0])
        case Apply(name, _) if name in MONOTONE:
            return MONOTONE[name](ends[0][0]), MONOTONE[name](ends[0][1])
        case Apply("least" | "greatest" as name, _):
            return _pick_extreme(name, formula.arguments, inputs, ends)
        case Apply(name, _) if name in COMPARISONS:
            return compare_ends(name, ends[0])
        case Apply("and" | "or" | "not" as name, _):
            return connect_ends(name, ends)
        case Apply("add" | "subtract" | "multiply" | "divide" as name, arguments):
            return _combine(name, arguments, ends)
    return no_ends()


def _raise_public(formula: Apply, inputs: FormulaInputs, exponent: Ends) -> Ends:
    """Bound a public number to a noisy power.

    A noisy number to a noisy power, or rounded to noisy decimals, has no bounds.
    """
    base = formula.arguments[0]
    if formula.name == "round" or atoms_of(base):
        return no_ends()
    return exponential_ends(evaluate(base, inputs), exponent)


def _pick_extreme(
    name: str, arguments: tuple[Formula, ...], inputs: FormulaInputs, ends: list[Ends]
) -> Ends:
    """Compute the ends of LEAST or GREATEST; arguments that are public and null are left out."""
    pairs = []
    for argument, pair in zip(arguments, ends, strict=True):
        is_absent = (
            False if atoms_of(argument) else np.isnan(evaluate(argument, inputs).astype(np.float64))
        )
        pairs.append((np.where(is_absent, np.nan, pair[0]), np.where(is_absent, np.nan, pair[1])))
    return extreme_ends(np.fmin if name == "least" else np.fmax, pairs)


def _combine(name: str, arguments: tuple[Formula, ...], ends: list[Ends]) -> Ends:
    """Compute the ends of +, -, * or /. Equal factors are a power: x times x is never negative."""
    if name == "subtract":
        return add_ends(ends[0], negate_ends(ends[1]))
    if name == "divide":
        return multiply_ends(ends[0], invert_ends(ends[1]))
    if name == "add":
        return reduce(add_ends, ends)
    powers = Counter(arguments)
    by_factor = dict(zip(arguments, ends, strict=True))
    return reduce(
        multiply_ends,
        (raise_ends(by_factor[factor], np.array(float(n))) for factor, n in powers.items()),
    )


# -- statistics with measured coverage
# ---------------------------------------------------------------------------


def _draw_ends(formula: Formula, inputs: FormulaInputs, noises: Noises, level: Fraction) -> Ends:
    """Take equal tails of the formula over released minus noise, at fixed points."""
    value = evaluate(formula, inputs)
    rows = max((inputs.atoms[atom].shape[-1] for atom in atoms_of(formula)), default=1)
    count = draws.count_points(float(level), rows) or draws.count_block_points(float(level), rows)
    low = np.full(rows, np.nan)
    high = np.full(rows, np.nan)
    if not count or value.dtype == object:
        return low, high
    read = atoms_of(formula)
    positions = sorted({noises.positions[atom] for atom in read})
    by_position = {noises.positions[atom]: noises.laws[atom] for atom in read}
    laws = tuple(law for position in positions if (law := by_position[position]) is not None)
    beyond = math.floor(count * (1 - draws.raise_level(float(level))) / 2) - 1
    width = max(1, (1 << 22) // min(count, draws.BLOCK))
    for start in range(0, rows, width):
        chunk = slice(start, start + width)
        keys = {key: values[chunk] for key, values in inputs.keys.items()}
        tails: Ends | None = None
        for drawn in draws.draw_blocks(laws, count):
            atoms = list(inputs.atoms)
            for atom in read:
                steps = drawn[:, positions.index(noises.positions[atom])] * float(
                    noises.atoms[atom].unit
                )
                atoms[atom] = inputs.atoms[atom][None, chunk] - np.append(0.0, steps)[:, None]
            drawn_values = evaluate(
                formula, FormulaInputs(tuple(atoms), keys, inputs.absent, guarded=True)
            )[1:]
            tails = draws.keep_tails(
                np.broadcast_to(drawn_values, (len(drawn), len(low[chunk]))), tails, beyond + 1
            )
        assert tails is not None
        low[chunk] = tails[0].max(axis=0)
        high[chunk] = tails[1].min(axis=0)
    return low, high
