"""epsilon(loss, delta) and delta(loss, epsilon): brackets that hold for every mechanism with that
loss.

>>> from dither.privacy.losses import Gaussian, Pure
>>> epsilon(Pure(0.1) * 10, 0)
Bounds(lower=1.0, upper=1.0)
>>> round(epsilon(Gaussian(1), 1e-6).upper, 9)
4.886554117
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from dither.accounting.alternatives import alternatives
from dither.accounting.arguments import check_door
from dither.accounting.bounds import Bounds, down, exp_up, is_wide, up
from dither.accounting.ceilings import largest_loss
from dither.accounting.renyi import conversion_epsilon, conversion_log_delta, renyi_upper
from dither.accounting.routes import LEAST_DELTA, Answer, Target, log_fraction, solve
from dither.accounting.sampled import OutOfReach
from dither.accounting.wide_gaussians import (
    NO_BLUR,
    read_left,
    widen_delta,
    widen_epsilon,
    widen_target,
)
from dither.accounting.workload import (
    DIRECTIONS,
    Direction,
    Law,
    Workload,
    build_workload,
)
from dither.canonical import Number, exact
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

RENYI = "Renyi divergence, tight conversion (proposition 3.14)"
PURE = "sum of pure epsilons (theorem 3.1)"
INFINITE = "no finite epsilon: mass at infinity"
_NOTHING = Answer(Bounds(0.0, math.inf), "none")
_ANYTHING = Answer(Bounds(0.0, 1.0), "none")


@dataclass(frozen=True)
class CurveReading:
    """A bracket, the engine of its upper end, and the direction and alternative that decide it."""

    bounds: Bounds
    engine: str
    direction: str


@refuse_beyond_floats
def epsilon(
    loss: ls.Loss, delta: Number, *, direction: Direction | None = None, engine: str | None = None
) -> Bounds:
    """A bracket of the smallest epsilon for which the loss is (epsilon, delta)-DP.

    `direction` restricts to one unit removed or added; `engine` forces "contour", "faded" (one
    sampled Gaussian, repeated) or "grid", for cross-checks.

    The number holds for a plan fixed in advance; a running budget needs a filter
    (`dither.accounting.filters`).
    """
    return read_epsilon(loss, delta, direction=direction, engine=engine).bounds


@refuse_beyond_floats
def delta(
    loss: ls.Loss, epsilon: Number, *, direction: Direction | None = None, engine: str | None = None
) -> Bounds:
    """A bracket of the smallest delta for which the loss is (epsilon, delta)-DP.

    Epsilon may be negative: the curve of hypothesis tests below even odds.
    """
    return read_delta(loss, epsilon, direction=direction, engine=engine).bounds


def read_epsilon(
    loss: ls.Loss, delta: Number, *, direction: Direction | None = None, engine: str | None = None
) -> CurveReading:
    """Bracket epsilon at delta, as `epsilon` does, with the engine and direction that gave it."""
    check_door(loss, direction, engine)
    target = exact(delta, "delta")
    if not 0 <= target < 1:
        raise ParameterError(
            f"delta must lie in [0, 1), got {delta}: choose e.g. delta=1e-6, well below 1/n"
        )
    return _find_worst(
        loss,
        direction,
        lambda events, chosen, floor: _solve_epsilon(
            events, loss.neighbours, target, chosen, engine, floor
        ),
    )


def read_delta(
    loss: ls.Loss, epsilon: Number, *, direction: Direction | None = None, engine: str | None = None
) -> CurveReading:
    """Bracket delta at epsilon, as `delta` does, with the engine and direction that gave it."""
    check_door(loss, direction, engine)
    target = exact(epsilon, "epsilon")
    if target < 0:
        return _read_negative(loss, -target, direction, engine)
    return _find_worst(
        loss,
        direction,
        lambda events, chosen, _: _solve_delta(events, loss.neighbours, target, chosen, engine),
    )


def _read_negative(
    loss: ls.Loss, size: Fraction, direction: Direction | None, engine: str | None
) -> CurveReading:
    """Bracket delta at the epsilon -`size`.

    It is delta(-x) = 1 - e^-x (1 - delta'(x)), with delta' that of the opposite direction.
    """
    opposite: dict[Direction, Direction] = {"remove": "add", "add": "remove"}
    reading = read_delta(
        loss, size, direction=None if direction is None else opposite[direction], engine=engine
    )
    shrunk = Bounds(*(_shrink(size, value) for value in reading.bounds))
    label = reading.direction
    if label != "both":
        label = "remove" if label == "add" else "add"
    return CurveReading(
        Bounds(shrunk.lower * (1 - 1e-15), min(1.0, shrunk.upper * (1 + 1e-15))),
        reading.engine,
        label,
    )


def _shrink(size: Fraction, delta: float) -> float:
    """1 - e^-size + e^-size delta, which has no cancellation, to a few units of roundoff."""
    near = float(size)
    return -math.expm1(-near) + math.exp(-near) * delta


def _find_worst(
    loss: ls.Loss, direction: Direction | None, ask: Callable[[Workload, Direction, float], Answer]
) -> CurveReading:
    """Find the largest bracket over alternatives and directions.

    `ask` brackets one of them. Each is told what is certain already: one that is seen not to exceed
    it needs no bracket of its own.
    """
    best: CurveReading | None = None
    for events in alternatives(loss):
        workload = build_workload(events, loss.neighbours)
        directions = DIRECTIONS if direction is None else (direction,)
        for chosen in directions[:1] if workload.symmetric else directions:
            answer = ask(workload, chosen, 0.0 if best is None else best.bounds.lower)
            label = "both" if workload.symmetric else chosen
            if best is None:
                best = CurveReading(answer.bounds, answer.engine, label)
                continue
            lower = max(best.bounds.lower, answer.bounds.lower)
            if answer.bounds.upper > best.bounds.upper:
                best = CurveReading(Bounds(lower, answer.bounds.upper), answer.engine, label)
            else:
                best = CurveReading(Bounds(lower, best.bounds.upper), best.engine, best.direction)
    assert best is not None
    return best


def _round_outward(value: Fraction) -> Bounds:
    """Enclose an exact number between two floats; both are it where it is a float."""
    near = float(value)
    if Fraction(near) == value:
        return Bounds(near, near)
    return Bounds(
        near if Fraction(near) < value else down(near), near if Fraction(near) > value else up(near)
    )


def _solve_epsilon(
    workload: Workload,
    neighbours: str,
    target: Fraction,
    direction: Direction,
    engine: str | None,
    floor: float,
) -> Answer:
    low_mass, high_mass = workload.masses
    if high_mass > target:
        return Answer(Bounds(math.inf if low_mass > target else 0.0, math.inf), INFINITE)
    if high_mass == target:
        ceiling = _bound_largest(workload, direction)
        return _read_ceiling(workload, ceiling, low_mass == high_mass)
    rest = (target, target)
    if high_mass:
        rest = ((target - high_mass) / (1 - high_mass), (target - low_mass) / (1 - low_mass))
    best = _NOTHING
    if not workload.vague:
        best = _try_epsilon(workload, workload.upper[direction], rest, engine, floor)
    if best.bounds.upper <= floor:
        return best
    lower = best.bounds.lower
    if workload.loose:
        lower = max(
            _try_epsilon(workload, laws[direction], rest, engine).bounds.lower
            for laws in (workload.lower, *workload.more_lower)
        )
    if engine is None and (workload.loose or is_wide(best.bounds)):
        value, _ = conversion_epsilon(
            lambda alpha: renyi_upper(workload.events, neighbours, alpha, direction),
            log_fraction(rest[0]),
        )
        if value < best.bounds.upper:
            best = Answer(Bounds(0.0, value), RENYI)
    ceiling = _bound_largest(workload, direction)
    if ceiling.upper < best.bounds.upper:
        best = Answer(ceiling, PURE)
    if best.bounds.upper >= 1e300:
        if engine is not None:
            raise RefusedError(
                f"the engine '{engine}' does not reach this loss at this delta: leave engine out",
                rule=PrivacyRule.THEOREM,
            )
        raise RefusedError(
            "no proved route to (epsilon, delta) for this composition: a Renyi order too small for "
            "the delta, or an "
            "event known at different orders only; state the events by their mechanisms",
            rule=PrivacyRule.THEOREM,
        )
    return Answer(Bounds(min(lower, best.bounds.upper), best.bounds.upper), best.engine)


def _bound_largest(workload: Workload, direction: Direction) -> Bounds:
    """Enclose the largest loss between two floats, infinite where it has no bound.

    It is asked for last: its exact fractions may cost more than the bracket of a kept contour.
    """
    largest = largest_loss(workload.events, direction)
    if largest is None:
        return Bounds(math.inf, math.inf)
    return Bounds(_round_outward(largest.lower).lower, _round_outward(largest.upper).upper)


def _read_ceiling(workload: Workload, ceiling: Bounds, is_exact: bool) -> Answer:
    """The epsilon where the mass at infinity takes the whole delta: the largest loss, if any."""
    if ceiling.upper < math.inf:
        return Answer(Bounds(ceiling.lower if is_exact else 0.0, ceiling.upper), PURE)
    certain = is_exact and not workload.loose
    return Answer(Bounds(math.inf if certain else 0.0, math.inf), INFINITE)


def _try_epsilon(
    workload: Workload,
    laws: Sequence[Law],
    rest: tuple[Fraction, Fraction],
    engine: str | None,
    floor: float = 0.0,
) -> Answer:
    """Bracket epsilon by the engines.

    Below what they reach, the lower end comes from the least delta that they reach.
    """
    blur = workload.blur
    target = Target(delta=widen_target(rest, blur), floor=floor if blur == NO_BLUR else 0.0)
    try:
        answer = solve(laws, target, engine=engine)
    except OutOfReach:
        answer = _NOTHING
        if rest[0] < LEAST_DELTA:
            answer = _try_least_delta(laws, engine)
    return replace(answer, bounds=widen_epsilon(answer.bounds, blur))


def _try_least_delta(laws: Sequence[Law], engine: str | None) -> Answer:
    """Find a lower end of epsilon for every delta below the least that the engines reach."""
    try:
        least = solve(laws, Target(delta=(LEAST_DELTA, LEAST_DELTA)), engine=engine)
    except OutOfReach:
        return _NOTHING
    return Answer(Bounds(least.bounds.lower, math.inf), least.engine)


def _solve_delta(
    workload: Workload, neighbours: str, target: Fraction, direction: Direction, engine: str | None
) -> Answer:
    """Bracket delta at the epsilon `target`, with the mass at infinity added."""
    low_mass, high_mass = workload.masses
    answer = _solve_finite_delta(workload, neighbours, target, direction, engine)
    if not high_mass:
        return answer
    lower, upper = map(Fraction, answer.bounds)
    low = _round_outward(low_mass + (1 - low_mass) * lower).lower
    high = _round_outward(high_mass + (1 - high_mass) * upper).upper
    return Answer(Bounds(min(low, high), min(1.0, high)), answer.engine)


def _solve_finite_delta(
    workload: Workload, neighbours: str, target: Fraction, direction: Direction, engine: str | None
) -> Answer:
    """Bracket delta apart from the mass at infinity.

    It is zero above the largest loss, and nowhere else.
    """
    largest = largest_loss(workload.events, direction)
    if largest is not None and largest.upper <= target:
        return Answer(Bounds(0.0, 0.0), PURE)
    best = _try_delta(workload, workload.upper[direction], target, engine)
    lower = best.bounds.lower
    if workload.loose:
        lower = max(
            _try_delta(workload, laws[direction], target, engine, False).bounds.lower
            for laws in (workload.lower, *workload.more_lower)
        )
    if engine is None and (workload.loose or is_wide(best.bounds)):
        log_value, _ = conversion_log_delta(
            lambda alpha: renyi_upper(workload.events, neighbours, alpha, direction),
            float(target),
        )
        value = exp_up(log_value)
        if value < best.bounds.upper:
            best = Answer(Bounds(0.0, value), RENYI)
    if largest is not None:
        # the loss never exceeds the largest, so delta does not exceed 1 - e^{eps - largest}
        clipped = up(-math.expm1(-_round_outward(largest.upper - target).upper)) * (1 + 1e-15)
        if clipped < best.bounds.upper:
            best = Answer(Bounds(0.0, clipped), PURE)
    return Answer(Bounds(min(lower, best.bounds.upper), best.bounds.upper), best.engine)


def _try_delta(
    workload: Workload,
    laws: Sequence[Law],
    target: Fraction,
    engine: str | None,
    is_upper: bool = True,
) -> Answer:
    """Bracket delta by the engines; anything from 0 to 1 where they cannot."""
    if is_upper and workload.vague:
        return _ANYTHING
    blur = workload.blur
    try:
        if blur == NO_BLUR:
            return solve(laws, Target(epsilon=target), engine=engine)
        near = solve(laws, Target(epsilon=max(Fraction(0), target - blur.shift)), engine=engine)
        far = solve(laws, Target(epsilon=target + blur.shift), engine=engine)
    except OutOfReach:
        return _ANYTHING
    upper = read_left(near.bounds.upper, blur, target)
    return replace(near, bounds=widen_delta(far.bounds.lower, upper, blur))
