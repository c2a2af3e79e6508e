"""Which engine answers: the tightest one whose bounds are proved for the laws at hand.

Order: closed Gaussian, exact sum of equal Laplaces, exact sum over atoms, exact lattice, contour
(with the far tail faded out for one sampled Gaussian that does not suit the plain one), grid.

Each answer carries the name of its engine and theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from typing import cast

from dither.accounting.adaptive_range import MOST_MECHANISMS, RangeComposition
from dither.accounting.atomic import atomic
from dither.accounting.bounded_range import BoundedRangeFactor, bounded_range_delta
from dither.accounting.bounds import SMALLEST, Bounds, down, is_wide, up
from dither.accounting.contour import Contour
from dither.accounting.crossing import invert
from dither.accounting.few_steps import build, is_certainly_zero
from dither.accounting.few_steps import is_below as is_below_by_chernoff
from dither.accounting.gaussian import gaussian_delta, gaussian_epsilon
from dither.accounting.gaussian_mixtures import GaussianMixtureLaw
from dither.accounting.grid import GridLaw, GridPair, exact_step
from dither.accounting.grid_steps import grid_step
from dither.accounting.growth import contours, goal, is_below, keep
from dither.accounting.guarantees import sigma_fraction
from dither.accounting.laplace_sum import MOST, laplace_delta
from dither.accounting.laws import GaussianLaw, LaplaceLaw
from dither.accounting.mixtures import GridMixture, MixtureFactor
from dither.accounting.one_step import bound_one_step, guess_one_step
from dither.accounting.rough_law import RoughLaw, SampledSteps, are_nearly_gaussian
from dither.accounting.saddle import find_saddle_epsilon
from dither.accounting.sampled import OutOfReach, SampledGaussianFactor
from dither.accounting.transforms import AtomsFactor, Factor, GaussianFactor, LaplaceFactor
from dither.accounting.workload import Law

Curve = Callable[[float], Bounds]
Route = Callable[[Sequence[Law], "Target"], "Answer"]
# equal Laplaces of which the residues are summed at once; of more, only where the contour is out of
# reach
_FEW = 60
LEAST_DELTA = Fraction(1, 10**305)
"""Below it floats lose digits: only the closed form and routes in logarithms serve."""
_NO_CONTOUR = {GaussianLaw, LaplaceLaw, GridMixture, GaussianMixtureLaw, RangeComposition}
_NEGLIGIBLE = 1e-3
"""A largest loss of an added unit that is not worth the grid, which would take very long."""
_NEVER = "the loss never exceeds this epsilon"
_FADING = "contour with the far tail faded out"
_RANGES = "bounded range, each mechanism chosen by earlier answers (recursion)"
_CONTOUR = "contour inversion of the moment-generating function"


@dataclass(frozen=True)
class Answer:
    """A bracket and where it comes from."""

    bounds: Bounds
    engine: str
    slope: float = -1.0
    """Roughly the slope of log delta at epsilon: where the next search may start from."""


@dataclass(frozen=True)
class Target:
    """Either a delta (a rational known between two floats' logarithms) or an epsilon.

    With a delta, a `floor`: an epsilon that is not above it need not be known any better.
    """

    delta: tuple[Fraction, Fraction] | None = None
    epsilon: Fraction | None = None
    floor: float = 0.0

    @property
    def log_delta(self) -> float | None:
        return None if self.delta is None else log_fraction(self.delta[0])

    @property
    def float_epsilon(self) -> float | None:
        return None if self.epsilon is None else float(self.epsilon)


@lru_cache(maxsize=64)
def log_fraction(value: Fraction) -> float:
    """log of a positive rational of any size."""
    return math.log(value.numerator) - math.log(value.denominator)


def solve(laws: Sequence[Law], target: Target, *, engine: str | None = None) -> Answer:
    """Bracket delta or epsilon for one direction, whichever the target leaves open.

    `engine` forces "contour", "faded" or "grid" (for cross-checks). Raises OutOfReach where no
    engine can.
    """
    if not laws:
        floor = Bounds(0.0, 0.0)
        return Answer(floor, "nothing is spent")
    if engine is None and len(laws) == 1 and isinstance(laws[0], GaussianFactor):
        return _gaussian(laws[0], target)
    if target.delta is not None and target.delta[0] < LEAST_DELTA:
        raise OutOfReach
    ceiling = 0.0
    for law in laws:
        ceiling += law.largest()
        if ceiling == math.inf:
            break
    if target.epsilon is not None and ceiling <= target.epsilon:
        return Answer(Bounds(0.0, 0.0), _NEVER)
    if target.delta is not None and ceiling <= target.floor:
        return Answer(Bounds(0.0, ceiling), _NEVER)
    answer = _first(laws, target, engine)
    if target.epsilon is not None:
        # the loss may exceed this epsilon: its delta is positive, however small
        return replace(
            answer, bounds=Bounds(answer.bounds.lower, max(answer.bounds.upper, SMALLEST))
        )
    if ceiling < answer.bounds.upper:
        return Answer(Bounds(min(answer.bounds.lower, ceiling), ceiling), _NEVER)
    return answer


def _list_routes(
    laws: Sequence[Law], target: Target, engine: str | None
) -> list[tuple[str, Route]]:
    """Try the engines in order, and return the first answer that is sharp enough."""
    routes: list[tuple[str, Route]] = [
        ("exact", _solve_exactly),
        ("contour", _solve_by_contour),
        ("faded", _solve_by_fading),
        ("grid", _solve_by_grid),
    ]
    alone = laws[0] if len(laws) == 1 and engine is None else None
    if isinstance(alone, SampledGaussianFactor):
        routes.insert(1, ("faded", partial(_solve_by_fading, first=True)))
        if alone.largest() <= _NEGLIGIBLE and target.delta is not None:
            routes[-1] = ("ceiling", _solve_by_ceiling)
    if isinstance(alone, LaplaceFactor) and alone.count > _FEW:
        routes[:2] = routes[1], routes[0]
    return routes


def _first(laws: Sequence[Law], target: Target, engine: str | None) -> Answer:
    """The answer of the first route that reaches the laws and is not wide."""
    routes = _list_routes(laws, target, engine)
    for name, attempt in routes:
        if engine is not None and engine != name:
            continue
        try:
            answer = attempt(laws, target)
        except OutOfReach:
            continue
        if answer.bounds.upper <= target.floor:
            return answer
        if name == "contour" == routes[0][0] and is_wide(answer.bounds):
            continue
        if isinstance(attempt, partial) and is_wide(answer.bounds, 1e-9):
            continue
        is_least = target.epsilon is not None and answer.bounds.upper < LEAST_DELTA
        if engine is None and name == "contour" and is_wide(answer.bounds) and not is_least:
            return _join_answers(answer, laws, target)
        return answer
    raise OutOfReach


def _solve_by_ceiling(laws: Sequence[Law], target: Target) -> Answer:
    return Answer(Bounds(0.0, sum(law.largest() for law in laws)), _NEVER)


def _join_answers(answer: Answer, laws: Sequence[Law], target: Target) -> Answer:
    """Join a wide bracket of the contour with another engine's: both hold, so does their
    overlap."""
    try:
        second = _solve_by_fading(laws, target)
    except OutOfReach:
        try:
            second = _solve_by_grid(laws, target)
        except OutOfReach:
            return answer
    a, b = answer.bounds
    c, d = second.bounds
    return Answer(Bounds(max(a, c), min(b, d)), "grid of privacy losses, joined with the contour")


def _gaussian(law: GaussianFactor, target: Target) -> Answer:
    """Bracket a single Gaussian by its closed form."""
    name = "closed Gaussian (proposition 3.3, erfcx form)"
    if target.epsilon is not None:
        return Answer(gaussian_delta(2 * law.rho, target.epsilon), name)
    assert target.delta is not None
    low, high = (gaussian_epsilon(2 * law.rho, delta) for delta in target.delta)
    return Answer(Bounds(min(low.lower, high.lower), max(low.upper, high.upper)), name)


def _read_curve(
    curve: Curve, target: Target, slope: float, name: str, guess: float = 1.0, certain: bool = False
) -> Answer:
    """Read a curve of delta at an epsilon, or find where it crosses a delta (`certain`: not at
    zero)."""
    if target.epsilon is not None:
        epsilon = float(target.epsilon)
        low, high = (
            (epsilon, epsilon)
            if Fraction(epsilon) == target.epsilon
            else (down(epsilon), up(epsilon))
        )
        return Answer(Bounds(curve(max(0.0, high)).lower, curve(max(0.0, low)).upper), name)
    assert target.delta is not None
    low_delta = _float_down(target.delta[0])
    high_delta = -_float_down(-target.delta[1])
    if target.floor > 0 and curve(target.floor).upper <= low_delta:
        return Answer(Bounds(0.0, target.floor), name)
    bounds, slope = invert(curve, max(low_delta, 5e-324), high_delta, guess, slope, certain)
    return Answer(bounds, name, slope)


@lru_cache(maxsize=64)
def _float_down(value: Fraction) -> float:
    near = float(value)
    return near if Fraction(near) <= value else down(near)


def _solve_exactly(laws: Sequence[Law], target: Target) -> Answer:
    if len(laws) == 1 and isinstance(laws[0], SampledGaussianFactor) and laws[0].count == 1:
        return _solve_one_step(laws[0], target)
    if len(laws) == 1 and isinstance(laws[0], LaplaceFactor) and len(laws[0].epsilons) == 1:
        query_epsilon = laws[0].epsilons[0]
        count = laws[0].counts[0]
        if count > MOST:
            raise OutOfReach
        guess = 1.0
        slope = -1.0
        if target.log_delta is not None:
            guess, slope = find_saddle_epsilon([laws[0]], target.log_delta)
        return _read_curve(
            lambda epsilon: laplace_delta(query_epsilon, count, Fraction(epsilon)),
            target,
            slope,
            "exact sum of equal Laplaces (residues)",
            min(guess, float(query_epsilon) * count),
        )
    if len(laws) == 1 and isinstance(laws[0], (BoundedRangeFactor, RangeComposition)):
        return _solve_bounded_range(laws[0], target)
    atoms = [law for law in laws if isinstance(law, AtomsFactor)]
    if len(atoms) < len(laws):
        raise OutOfReach
    step = exact_step(atoms)
    try:
        curve = atomic(atoms, 20_000 if step is not None else 2_000_000).delta
        return _read_curve(
            curve, target, -5.0, "exact sum over atoms (Kairouz, Oh and Viswanath 2015)"
        )
    except OutOfReach:
        if step is None:
            raise
    pair = GridPair(atoms, step, target.log_delta, target.float_epsilon)
    return _read_curve(pair.delta, target, -pair.c, "exact lattice (tilted FFT)")


def _solve_bounded_range(law: BoundedRangeFactor | RangeComposition, target: Target) -> Answer:
    """Bracket mechanisms of one range: one alone in closed form, several by the recursion.

    The composed pair is an upper bound too: it is the smaller one where the largest loss is near.
    """
    width = law.epsilon
    if law.count == 1:
        return _read_curve(
            lambda epsilon: bounded_range_delta(width, Fraction(min(epsilon, float(width)))),
            target,
            -1.0,
            "one exponential mechanism (closed form)",
            float(width) / 2,
        )
    if law.count > MOST_MECHANISMS:
        raise OutOfReach
    curve = RangeComposition(width, law.count).delta
    answer = _read_curve(curve, target, -1.0, _RANGES, float(width) * law.count / 2)
    try:
        pairs = _solve_by_contour([BoundedRangeFactor(width, law.count)], target)
    except OutOfReach:
        return answer
    lower, upper = answer.bounds
    return replace(answer, bounds=Bounds(lower, min(upper, pairs.bounds.upper)))


def _solve_one_step(law: SampledGaussianFactor, target: Target) -> Answer:
    guess = 1.0
    slope = -2.0
    if target.log_delta is not None:
        guess, slope = guess_one_step(law, target.log_delta)
    return _read_curve(
        partial(bound_one_step, law),
        target,
        slope,
        "one Poisson sample of a Gaussian (half-line, closed form)",
        guess,
    )


def _solve_by_contour(laws: Sequence[Law], target: Target) -> Answer:
    """Bracket by the contour, which is kept for the next question; OutOfReach without
    transforms."""
    kinds = set(map(type, laws))
    if kinds & _NO_CONTOUR or kinds == {AtomsFactor}:
        raise OutOfReach
    factors = cast(Sequence[Factor], laws)
    missing = 0.0
    if AtomsFactor in kinds:
        masses = (law.count * law.missing for law in laws if isinstance(law, AtomsFactor))
        missing = up(math.fsum(up(mass) for mass in masses if mass))
    aim = goal(factors, target.log_delta, target.float_epsilon)
    if target.floor > 0 and missing == 0 and is_below(factors, aim, target.floor):
        return Answer(Bounds(0.0, target.floor), "Chernoff's bound")
    for grown in contours(factors, aim):
        contour = grown.contour

        def curve(epsilon: float, contour: Contour = contour) -> Bounds:
            bounds = contour.delta(epsilon)
            return Bounds(bounds.lower, min(1.0, up(bounds.upper + missing))) if missing else bounds

        answer = _read_curve(
            curve, target, grown.slope, _CONTOUR, max(1e-3, grown.root), grown.parent is not None
        )
        if answer.bounds.upper <= target.floor or grown.sharp(answer.bounds):
            break
    keep(grown, aim, answer.bounds if answer.bounds.upper > target.floor else None, answer.slope)
    return answer


def _solve_by_fading(laws: Sequence[Law], target: Target, first: bool = False) -> Answer:
    """Bracket one sampled Gaussian, repeated, by the contour with the far tail faded out.

    Asked `first`, it leaves to the contour what suits the contour. Raises OutOfReach for others.
    """
    if len(laws) != 1 or not isinstance(laws[0], SampledGaussianFactor) or laws[0].q == 1:
        raise OutOfReach
    law = laws[0]
    if law.kind == "swap":
        raise OutOfReach
    steps = SampledSteps(law.kind, float(law.q), float(law.sigma), law.count)
    log_delta = target.log_delta
    if first and log_delta is not None and are_nearly_gaussian(steps, log_delta):
        raise OutOfReach
    if log_delta is None:
        assert target.float_epsilon is not None
        log_delta = RoughLaw(steps, -25.0).guess_log_delta(target.float_epsilon)
    elif is_certainly_zero(steps, log_delta):
        return Answer(Bounds(0.0, 0.0), "total variation below delta")
    if not (-30 if first else -600) < log_delta < 0:
        raise OutOfReach  # far below 1e-12 the plain contour is the sharper one
    rough = RoughLaw(steps, log_delta)
    epsilon = target.float_epsilon
    guess = rough.guess_epsilon() if epsilon is None else epsilon
    if first and rough.suits_contour(guess):
        raise OutOfReach
    if target.floor > 0 and is_below_by_chernoff(rough, target.floor):
        return Answer(Bounds(0.0, target.floor), "Chernoff's bound")
    bounds = Bounds(0.0, math.inf)
    for _ in range(3):
        contour = build(rough, guess)
        c = contour.contour.c
        answer = _read_curve(contour.delta, target, -c, _FADING, max(guess, 0.01 / c))
        low, high = answer.bounds
        bounds = Bounds(max(bounds.lower, low), min(bounds.upper, high))
        if epsilon is not None or high <= target.floor or not is_wide(bounds):
            break
        if bounds.upper == math.inf or bounds.upper - bounds.lower <= 1e-9:
            break
        guess = bounds.upper
    return Answer(bounds, _FADING, answer.slope)


def grid_laws(laws: Sequence[Law], side: str) -> list[GridLaw]:
    """Convert the laws to the representation of the grid engine."""
    converted: list[GridLaw] = []
    for law in laws:
        if isinstance(law, GaussianFactor):
            converted.append(
                GaussianLaw("plain", Fraction(1), sigma_fraction(2 * law.rho, side), 1)
            )
        elif isinstance(law, LaplaceFactor):
            converted += [
                LaplaceLaw("plain", Fraction(1), e, k)
                for e, k in zip(law.epsilons, law.counts, strict=True)
            ]
        elif isinstance(law, SampledGaussianFactor):
            converted.append(GaussianLaw(law.kind, law.q, law.sigma, law.count))
        elif isinstance(law, MixtureFactor):
            converted.append(law.on_grid())
        elif isinstance(law, RangeComposition):
            raise OutOfReach
        else:
            converted.append(law)
    return converted


def _solve_by_grid(laws: Sequence[Law], target: Target, resolution: int = 8192) -> Answer:
    """Bracket by the grid of losses; where it would be too large, on a coarser one."""
    upper = grid_laws(laws, "upper")
    lower = grid_laws(laws, "lower")
    step = exact_step(upper) or grid_step(upper, resolution)
    for _ in range(8):
        try:
            pair = GridPair(upper, step, target.log_delta, target.float_epsilon, lower)
            return _read_curve(
                pair.delta, target, -pair.c, "grid of privacy losses (connect the dots, tilted FFT)"
            )
        except (OutOfReach, MemoryError):
            step *= 2
    raise OutOfReach
