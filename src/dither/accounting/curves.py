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
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

from dither.accounting.bounds import Bounds, down, up
from dither.accounting.guarantees import infinite_mass, pure_epsilon
from dither.accounting.renyi import conversion_epsilon, conversion_log_delta, renyi_upper
from dither.accounting.routes import Answer, Target, log_fraction, solve
from dither.accounting.sampled import OutOfReach
from dither.accounting.workload import (
    DIRECTIONS,
    Direction,
    Events,
    Workload,
    alternatives,
    build_workload,
)
from dither.canonical import Number, exact
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

RENYI = "Renyi divergence, tight conversion (proposition 3.14)"
PURE = "sum of pure epsilons (theorem 3.1)"
_ZERO = Fraction(0)


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
    """A bracket of the smallest delta for which the loss is (epsilon, delta)-DP."""
    return read_delta(loss, epsilon, direction=direction, engine=engine).bounds


def read_epsilon(
    loss: ls.Loss, delta: Number, *, direction: Direction | None = None, engine: str | None = None
) -> CurveReading:
    """`epsilon` with the engine and direction that gave it."""
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
    """`delta` with the engine and direction that gave it."""
    target = exact(epsilon, "epsilon")
    if target < 0:
        raise ParameterError(f"epsilon must not be negative, got {epsilon}")
    return _find_worst(
        loss,
        direction,
        lambda events, chosen, _: _solve_delta(events, loss.neighbours, target, chosen, engine),
    )


def _find_worst(
    loss: ls.Loss, direction: Direction | None, ask: Callable[[Workload, Direction, float], Answer]
) -> CurveReading:
    """The largest bracket over alternatives and directions; joined last.

    Each is told what is certain already: one that is seen not to exceed it needs no bracket of its
    own.
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


_WITH_MASS = (
    ls.Approx,
    ls.ZCDP,
    ls.PoissonSampled,
    ls.SampledWithoutReplacement,
    ls.Composed,
    ls.Repeated,
)


def mass_at_infinity(events: Events) -> tuple[Fraction, Fraction]:
    """Bounds on 1 - prod (1 - delta_j): what is spent whatever epsilon."""
    low = high = 0.0
    for event, count in events.items():
        if not isinstance(event, _WITH_MASS) or _has_no_mass(event):
            continue
        for side in ("lower", "upper"):
            mass = infinite_mass(event, side)
            if mass >= 1:
                return Fraction(1), Fraction(1)
            log = count * math.log1p(-float(mass))
            if side == "lower":
                low += log * (1 - 1e-14)
            else:
                high += log * (1 + 1e-14)
    if low == high == 0:
        return _ZERO, _ZERO
    lower = Fraction(-math.expm1(low) * (1 - 1e-14)) if low else Fraction(0)
    upper = Fraction(-math.expm1(high) * (1 + 1e-14)) if high else Fraction(0)
    return lower, min(Fraction(1), upper)


def _has_no_mass(event: ls.Loss) -> bool:
    """Remembered on the (frozen) loss: workloads grow by appending to old ones."""
    is_finite: bool | None = event.__dict__.get("_accounting_finite")
    if is_finite is None:
        is_finite = event.__dict__["_accounting_finite"] = infinite_mass(event) == 0
    return is_finite


def _sum_pure(events: Events) -> Fraction | None:
    for event in events:
        inner = event.loss if isinstance(event, ls.PoissonSampled) else event
        if isinstance(inner, (ls.Gaussian, ls.GaussianSum)):
            return None  # before adding up hundreds of fractions in vain
    total = Fraction(0)
    for event, count in events.items():
        epsilon = pure_epsilon(event)
        if epsilon is None:
            return None
        total += count * epsilon
    return total


def _round_outward(value: Fraction) -> Bounds:
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
    low_mass, high_mass = mass_at_infinity(workload.events)
    total = _sum_pure(workload.events)
    ceiling = (
        Bounds(math.inf, math.inf) if total is None or high_mass > target else _round_outward(total)
    )
    if target == 0 or high_mass >= target:
        if total is not None and high_mass == target == 0:
            return Answer(_sampled_ceiling(workload, ceiling), PURE)
        certain = low_mass > target or (target == 0 and total is None and not workload.loose)
        return Answer(
            Bounds(math.inf if certain else 0.0, ceiling.upper),
            "no finite epsilon: mass at infinity",
        )
    rest = (target, target)
    if high_mass:
        rest = ((target - high_mass) / (1 - high_mass), (target - low_mass) / (1 - low_mass))
    best = Answer(Bounds(0.0, math.inf), "none")
    if not workload.vague:
        try:
            best = solve(workload.upper[direction], Target(delta=rest, floor=floor), engine=engine)
        except OutOfReach:
            best = Answer(Bounds(0.0, math.inf), "none")
    if best.bounds.upper <= floor:
        return best
    lower = best.bounds.lower
    if workload.loose:
        try:
            lower = solve(workload.lower[direction], Target(delta=rest), engine=engine).bounds.lower
        except OutOfReach:
            lower = 0.0
    if engine is None and (workload.loose or _is_wide(best.bounds)):
        value, _ = conversion_epsilon(
            lambda alpha: renyi_upper(workload.events, neighbours, alpha, direction),
            log_fraction(rest[0]),
        )
        if value < best.bounds.upper:
            best = Answer(Bounds(0.0, value), RENYI)
    if ceiling.upper < best.bounds.upper:
        best = Answer(ceiling, PURE)
    if best.bounds.upper >= 1e300:
        raise RefusedError(
            "no proved route to (epsilon, delta) for this composition: a Renyi order too small for "
            "the delta, or an "
            "event known at different orders only; state the events by their mechanisms",
            rule=PrivacyRule.THEOREM,
        )
    return Answer(Bounds(min(lower, best.bounds.upper), best.bounds.upper), best.engine)


def _is_wide(bounds: Bounds) -> bool:
    """Whether another route may beat the engine's upper end."""
    return not bounds.upper - bounds.lower <= 1e-6 * bounds.upper


def _sampled_ceiling(workload: Workload, ceiling: Bounds) -> Bounds:
    """At delta = 0 the sum is exact, except where an irrational amplified epsilon was rounded
    up."""
    if any(
        isinstance(event, ls.PoissonSampled) and event.neighbours == "replace"
        for event in workload.events
    ):
        return Bounds(0.0, ceiling.upper)
    rounded = any(
        isinstance(event, (ls.PoissonSampled, ls.SampledWithoutReplacement))
        for event in workload.events
    )
    return (
        Bounds(ceiling.lower * (1 - 1e-13), ceiling.upper)
        if rounded and not workload.loose
        else ceiling
    )


def _solve_delta(
    workload: Workload, neighbours: str, target: Fraction, direction: Direction, engine: str | None
) -> Answer:
    low_mass, high_mass = mass_at_infinity(workload.events)
    total = _sum_pure(workload.events)
    best = Answer(Bounds(0.0, 1.0), "none")
    lower = 0.0
    if total is not None and total <= target:
        best = Answer(Bounds(0.0, 0.0), PURE)
    else:
        if not workload.vague:
            try:
                best = solve(workload.upper[direction], Target(epsilon=target), engine=engine)
                lower = best.bounds.lower
            except OutOfReach:
                best = Answer(Bounds(0.0, 1.0), "none")
        if workload.loose:
            try:
                lower = solve(
                    workload.lower[direction], Target(epsilon=target), engine=engine
                ).bounds.lower
            except OutOfReach:
                lower = 0.0
        if engine is None and (workload.loose or _is_wide(best.bounds)):
            log_value, _ = conversion_log_delta(
                lambda alpha: renyi_upper(workload.events, neighbours, alpha, direction),
                float(target),
            )
            if math.exp(log_value) < best.bounds.upper:
                best = Answer(Bounds(0.0, math.exp(log_value)), RENYI)
        if total is not None:
            # the loss never exceeds the sum, so neither does 1 - e^{eps - loss}
            clipped = -math.expm1(-float(total - target)) * (1 + 1e-15)
            if clipped < best.bounds.upper:
                best = Answer(Bounds(0.0, clipped), PURE)
                lower = min(lower, clipped)
    low = float(low_mass) + (1 - float(low_mass)) * lower
    high = float(high_mass) + (1 - float(high_mass)) * best.bounds.upper
    if low_mass or high_mass:
        low = low * (1 - 1e-15)
        high = min(1.0, high * (1 + 1e-15))
    return Answer(Bounds(min(low, high), high), best.engine)
