"""Intervals from the known noise law: they cover the exact answer on the registered table as often as said.

* One atom, or an affine function of one: exact, from the law itself; at least the level.
* An affine function of several: the law of the weighted sum of noises, at fixed points; of more than six, or at a level
  beyond the reach of points, a certain bound by convolution.
* A ratio of two such (AVG): r is kept iff |N - r D| is no larger than the noise of N - r D is with that probability:
  Fieller's test inverted, with the true law in place of the normal (`ratios.py`), however small the group. Where the
  denominator cannot be told from 0 no finite interval exists, and both ends are null.
* sqrt, exp, ln, round, ... of any of these: the ends go through the function.
* CASE, IF, COALESCE, NULLIF: the interval of the alternative that a row shows; none for a constant that noise chose.
  `selection.py` says at which level.
* LEAST and GREATEST of several, comparisons, AND and OR: from intervals that hold together, each at its part of the
  miss.
* Anything else (variances, correlations): the formula over released minus noise, at fixed points; equal tails. Draws
  where it has no value, or past a pole, count as beyond both ends, so that doubt widens.

An end that is NaN (null in the table) is no bound at all. Proof and measured coverage: docs/proofs/intervals.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.answer import draws
from dither.answer.bands import NO_BANDS, Bands
from dither.answer.draws import Law, law_of
from dither.answer.evaluate import Array, Given, evaluate, rounded
from dither.answer.expressions import FUNCTIONS, Apply, Formula
from dither.answer.ratios import FEW, ratio_ends
from dither.answer.recipe import Atom
from dither.answer.selection import pieces_of
from dither.answer.shapes import Affine, affine, atoms_of, ratio
from dither.answer.sums import sum_bound
from dither.canonical import Number, exact, number_text
from dither.errors import ParameterError
from dither.privacy.mechanisms import IntegerBox, IntegerGaussian, IntegerLaplace
from dither.privacy.mechanisms.box import BoxSide

Floats = NDArray[np.float64]
Ends = tuple[Floats, Floats]
_MONOTONE: dict[str, Callable[[Floats], Floats]] = {
    "sqrt": lambda x: np.sqrt(np.maximum(x, 0)),
    "exp": np.exp,
    "ln": lambda x: np.where(x > 0, np.log(np.maximum(x, 1e-300)), -np.inf),
    "floor": np.floor,
    "ceil": np.ceil,
    "sign": np.sign,
}


def level_of(confidence: Number) -> Fraction:
    """A confidence level, checked."""
    level = exact(confidence, "confidence")
    if not 0 < level < 1 or not 0.0 < float(level) < 1.0:
        raise ParameterError(f"confidence must lie in (0, 1), got {number_text(level)}: choose e.g. 0.95")
    return level


ADDITIVE = (IntegerLaplace, IntegerGaussian, BoxSide)


def seen(mechanism: Any, column: int) -> Any:
    """What a mechanism is for one of its numbers: itself, or a side of its box."""
    return mechanism.side(column) if isinstance(mechanism, IntegerBox) else mechanism


def noise_scale(mechanism: IntegerLaplace | IntegerGaussian | BoxSide) -> Fraction:
    """The parameter of the noise, in grid steps: the scale of Laplace or box noise, the sigma of Gaussian noise."""
    return mechanism.sigma if isinstance(mechanism, IntegerGaussian) else mechanism.scale


@dataclass(frozen=True)
class Noises:
    """The noise of every atom of one grouping set; None for what is not additive (quantiles).

    `places` tells atoms apart: two with the same place are the same released number.
    """

    atoms: tuple[Atom, ...]
    laws: tuple[Law | None, ...]
    places: tuple[tuple[int, int], ...]
    bands: Bands = NO_BANDS

    @classmethod
    def of(
        cls,
        atoms: Sequence[Atom],
        mechanisms: Sequence[object],
        places: Sequence[tuple[int, int]],
        bands: Bands = NO_BANDS,
    ) -> Noises:
        """From the mechanisms of a priced request, one for each query."""
        laws: list[Law | None] = []
        for query, column in places:
            each = seen(mechanisms[query], column)
            law = law_of(each.error()) if isinstance(each, ADDITIVE) else None
            laws.append(replace(law, joint=query) if law is not None and isinstance(each, BoxSide) else law)
        return cls(tuple(atoms), tuple(laws), tuple(places), bands)


def interval(formula: Formula, at: Given, noises: Noises, level: Fraction) -> Ends:
    """Both ends for every row, in the units of the formula; NaN where there is no bound, or no value."""
    value = evaluate(formula, at)
    rows = int(np.prod(value.shape))
    low, high = np.full(value.shape, np.nan), np.full(value.shape, np.nan)
    if value.dtype == object:
        return low, high
    for piece in pieces_of(formula, at, rows):
        if piece.has_ends:
            chosen = ... if piece.rows is None else piece.rows
            low[chosen], high[chosen] = _bounded_ends(piece.value, piece.given(at), noises, level)
    return np.where(np.isnan(value), np.nan, low), np.where(np.isnan(value), np.nan, high)


def _bounded_ends(formula: Formula, at: Given, noises: Noises, level: Fraction) -> Ends:
    with np.errstate(all="ignore"):
        ends = _ends(formula, at, noises, level)
    first, last = (np.where(np.isfinite(end), end, np.nan) for end in ends)
    return first, last


def _ends(formula: Formula, at: Given, noises: Noises, level: Fraction) -> Ends:
    read = atoms_of(formula)
    value = evaluate(formula, at)
    if not read:
        return value, value
    whole = affine(formula)
    if any(noises.laws[atom] is None for atom in read):
        inner = _through(formula, at, noises, level) if whole is None else _banded(whole, at, noises, level)
        return (np.full_like(value, np.nan), np.full_like(value, np.nan)) if inner is None else inner
    if whole is not None:
        half = affine_half(whole, noises, level)
        return value - half, value + half
    parts = ratio(formula)
    if parts is not None:
        return _ratio(*parts, at, noises, level)
    inner = _through(formula, at, noises, level)
    return _drawn(formula, at, noises, level) if inner is None else inner


# -- affine -------------------------------------------------------------------------------------------------------


def _weights(of: Affine, noises: Noises) -> dict[tuple[int, int], tuple[float, Law]]:
    """Weight and law of every released number that an affine function reads, in grid steps."""
    found: dict[tuple[int, int], tuple[float, Law]] = {}
    for atom, weight in of.weights:
        law = noises.laws[atom]
        assert law is not None
        place, step = noises.places[atom], float(weight * noises.atoms[atom].unit)
        found[place] = (found.get(place, (0.0, law))[0] + step, law)
    return found


def affine_half(of: Affine, noises: Noises, level: Fraction) -> float:
    """The half-width of an affine function of atoms: the same for every cell."""
    return _half(tuple(_weights(of, noises).values()), level)


@lru_cache(maxsize=256)
def _half(parts: tuple[tuple[float, Law], ...], level: Fraction) -> float:
    laws, weights = tuple(law for _, law in parts), tuple(weight for weight, _ in parts)
    count = draws.enough_sizes(float(level))
    is_joint = len(parts) > 1 and any(law.joint is not None for law in laws)
    if not is_joint or not count or len(parts) > FEW:  # points fill a cube of few dimensions, and few tails
        return sum_bound(laws, weights, level, 1 << 13 if len(parts) <= FEW else 0)
    return draws.size_quantile(draws.sizes_at(laws, count) @ np.array(weights), float(level))


def _banded(of: Affine, at: Given, noises: Noises, level: Fraction) -> Ends | None:
    """A quantile (or an affine function of one) between its ends, and never outside them."""
    if len(of.weights) != 1:
        return None
    ((atom, weight),) = of.weights
    band = noises.bands.get(atom)
    if band is None or level > band.level:
        return None
    low, high = np.minimum(at.atoms[band.low], at.atoms[atom]), np.maximum(at.atoms[band.high], at.atoms[atom])
    high = high + float(dict(noises.bands.coarse).get(atom, 0))
    one, other = (float(weight) * end + float(of.constant) for end in (low, high))
    return np.minimum(one, other), np.maximum(one, other)


# -- ratios -------------------------------------------------------------------------------------------------------


def _ratio(above: Affine, below: Affine, at: Given, noises: Noises, level: Fraction) -> Ends:
    top, bottom = _weights(above, noises), _weights(below, noises)
    return ratio_ends(top, bottom, _affine_values(above, at), _affine_values(below, at), level)


def _affine_values(of: Affine, at: Given) -> Floats:
    total = np.zeros(1) + float(of.constant)
    for atom, weight in of.weights:
        total = total + float(weight) * at.atoms[atom]
    return total


# -- through monotone functions -----------------------------------------------------------------------------------


def _through(formula: Formula, at: Given, noises: Noises, level: Fraction) -> Ends | None:
    """The ends of an inner interval, taken through a monotone function; None where the outer one is none."""
    match formula:
        case Apply("negate", (inner,)):
            low, high = _ends(inner, at, noises, level)
            return -high, -low
        case Apply("abs", (inner,)):
            low, high = _open(_ends(inner, at, noises, level))
            return np.maximum(0, np.maximum(low, -high)), np.maximum(np.abs(low), np.abs(high))
        case Apply("round", (inner, *decimals)):
            places = affine(decimals[0]) if decimals else Affine((), Fraction(0))
            if places is None or places.weights:
                return None
            low, high = _ends(inner, at, noises, level)
            return rounded(low, float(places.constant)), rounded(high, float(places.constant))
        case Apply(name, (inner,)) if name in _MONOTONE:
            low, high = _open(_ends(inner, at, noises, level))
            return _MONOTONE[name](low), _MONOTONE[name](high)
        case Apply("add" | "subtract" | "multiply" | "divide" as name, (left, right)):
            return _beside(name, left, right, at, noises, level)
        case Apply("least" | "greatest" as name, arguments):
            return _extreme(np.fmin if name == "least" else np.fmax, _together(arguments, at, noises, level))
        case Apply(name, arguments) if FUNCTIONS[name] == "conditions":
            return _condition(name, arguments, at, noises, level)
    return None


def _open(ends: Ends) -> Ends:
    """No bound as an infinite one."""
    low, high = ends
    return np.where(np.isnan(low), -np.inf, low), np.where(np.isnan(high), np.inf, high)


def _beside(name: str, left: Formula, right: Formula, at: Given, noises: Noises, level: Fraction) -> Ends | None:
    """An operation with something public (a constant, a key) on one side: monotone in the other."""
    if atoms_of(left) and atoms_of(right):
        return None
    noisy, public = (left, right) if atoms_of(left) else (right, left)
    if name == "divide" and noisy is right:
        return None
    beside = evaluate(public, at)
    if beside.dtype == object:
        return None
    low, high = _open(_ends(noisy, at, noises, level))
    match name:
        case "add":
            return low + beside, high + beside
        case "subtract":
            return (low - beside, high - beside) if noisy is left else (beside - high, beside - low)
    one, other = (low * beside, high * beside) if name == "multiply" else (low / beside, high / beside)
    return np.minimum(one, other), np.maximum(one, other)


# -- several at once ----------------------------------------------------------------------------------------------


def _together(arguments: tuple[Formula, ...], at: Given, noises: Noises, level: Fraction) -> list[Ends]:
    """Intervals of all arguments that hold at once: each noisy one has an equal part of the miss (union bound)."""
    noisy = sum(bool(atoms_of(each)) for each in arguments)
    part = 1 - (1 - level) / max(1, noisy)
    ends = []
    for each in arguments:
        if atoms_of(each):
            ends.append(_open(_ends(each, at, noises, part)))
        else:
            value = evaluate(each, at)
            ends.append((value, value) if value.dtype != object else (np.full(1, np.nan), np.full(1, np.nan)))
    return ends


def _extreme(keep: Callable[[Floats, Floats], Floats], ends: list[Ends]) -> Ends:
    """The least or the largest of several numbers, which leaves nulls out: its ends are those of the ends."""
    low, high = ends[0]
    for other_low, other_high in ends[1:]:
        low, high = keep(low, other_low), keep(high, other_high)
    return low, high


def _condition(name: str, arguments: tuple[Formula, ...], at: Given, noises: Noises, level: Fraction) -> Ends:
    """A truth value between "true for all numbers in doubt" and "true for one of them", as 0 and 1."""
    if name == "is_null":
        return (np.full(1, np.nan),) * 2
    if name in ("and", "or", "not"):
        ends = [_doubted(each) for each in _together(arguments, at, noises, level)]
        if name == "not":
            ((low, high),) = ends
            return 1 - high, 1 - low
        return _extreme(np.minimum if name == "and" else np.maximum, ends)
    low, high = _open(_ends(Apply("subtract", arguments), at, noises, level))
    surely, perhaps = _SIGNS[name](low, high)
    return surely.astype(np.float64), perhaps.astype(np.float64)


def _doubted(ends: Ends) -> Ends:
    """A truth value that is unknown may be either."""
    return np.nan_to_num(np.clip(ends[0], 0, 1), nan=0.0), np.nan_to_num(np.clip(ends[1], 0, 1), nan=1.0)


_SIGNS: dict[str, Callable[[Floats, Floats], tuple[Any, Any]]] = {
    "lt": lambda low, high: (high < 0, low < 0),
    "le": lambda low, high: (high <= 0, low <= 0),
    "gt": lambda low, high: (low > 0, high > 0),
    "ge": lambda low, high: (low >= 0, high >= 0),
    "eq": lambda low, high: ((low == 0) & (high == 0), (low <= 0) & (high >= 0)),
    "ne": lambda low, high: ((low > 0) | (high < 0), (low != 0) | (high != 0)),
}
"""Whether a difference in [low, high] compares so with 0: surely, and perhaps."""


# -- everything else ----------------------------------------------------------------------------------------------


def _drawn(formula: Formula, at: Given, noises: Noises, level: Fraction) -> Ends:
    """Equal tails of the formula over released minus noise, at fixed points."""
    value = evaluate(formula, at)
    rows = max((at.atoms[atom].shape[-1] for atom in atoms_of(formula)), default=1)
    count = draws.enough(float(level), rows) or draws.many(float(level), rows)
    low, high = np.full(rows, np.nan), np.full(rows, np.nan)
    if not count or value.dtype == object:
        return low, high
    read = atoms_of(formula)
    places = sorted({noises.places[atom] for atom in read})
    by_place = {noises.places[atom]: noises.laws[atom] for atom in read}
    laws = tuple(law for place in places if (law := by_place[place]) is not None)
    beyond = math.floor(count * (1 - draws.outward(float(level))) / 2) - 1
    width = max(1, (1 << 22) // min(count, draws.BLOCK))
    for start in range(0, rows, width):
        part = slice(start, start + width)
        keys = {key: values[part] for key, values in at.keys.items()}
        tails: Ends | None = None
        for drawn in draws.blocks_of(laws, count):
            atoms = list(at.atoms)
            for atom in read:
                steps = drawn[:, places.index(noises.places[atom])] * float(noises.atoms[atom].unit)
                atoms[atom] = at.atoms[atom][None, part] - np.append(0.0, steps)[:, None]
            found = evaluate(formula, Given(tuple(atoms), keys, at.absent, guarded=True))[1:]
            tails = _tails(np.broadcast_to(found, (len(drawn), len(low[part]))), tails, beyond + 1)
        assert tails is not None
        low[part], high[part] = tails[0].max(axis=0), tails[1].min(axis=0)
    return low, high


def _tails(found: Array, before: Ends | None, most: int) -> Ends:
    """The `most` least and largest of a block and of those before; what has no value counts as beyond both ends."""
    unknown = np.isnan(found)
    least, largest = np.where(unknown, -np.inf, found), np.where(unknown, np.inf, found)
    if before is not None:
        least, largest = np.concatenate([before[0], least]), np.concatenate([before[1], largest])
    if len(least) > most:
        least = np.partition(least, most - 1, axis=0)[:most]
        largest = np.partition(largest, len(largest) - most, axis=0)[-most:]
    return least, largest
