"""epsilon(loss, delta) and delta(loss, epsilon): brackets that hold for every mechanism with that loss.

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
from dither.accounting.workload import DIRECTIONS, Direction, Events, Workload, alternatives, workload
from dither.canonical import Number, exact
from dither.errors import ParameterError, RefusedError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats
from dither.rules import PrivacyRule

RENYI = "Renyi divergence, tight conversion (proposition 3.14)"
PURE = "sum of pure epsilons (theorem 3.1)"
_ZERO = Fraction(0)


@dataclass(frozen=True)
class Reading:
    """A bracket, the engine of its upper end, and the direction and alternative that decide it."""

    bounds: Bounds
    engine: str
    direction: str


@refuse_beyond_floats
def epsilon(loss: ls.Loss, delta: Number, *, direction: Direction | None = None, engine: str | None = None) -> Bounds:
    """A bracket of the smallest epsilon for which the loss is (epsilon, delta)-DP.

    `direction` restricts to one unit removed or added; `engine` forces "contour" or "grid", for cross-checks.
    The number holds for a plan fixed in advance; a running budget needs a filter (`dither.accounting.filters`).
    """
    return read_epsilon(loss, delta, direction=direction, engine=engine).bounds


@refuse_beyond_floats
def delta(loss: ls.Loss, epsilon: Number, *, direction: Direction | None = None, engine: str | None = None) -> Bounds:
    """A bracket of the smallest delta for which the loss is (epsilon, delta)-DP."""
    return read_delta(loss, epsilon, direction=direction, engine=engine).bounds


def read_epsilon(
    loss: ls.Loss, delta: Number, *, direction: Direction | None = None, engine: str | None = None
) -> Reading:
    """`epsilon` with the engine and direction that gave it."""
    target = exact(delta, "delta")
    if not 0 <= target < 1:
        raise ParameterError(f"delta must lie in [0, 1), got {delta}: choose e.g. delta=1e-6, well below 1/n")
    return _worst(
        loss,
        direction,
        lambda events, way, floor: _epsilon_one(events, loss.neighbours, target, way, engine, floor),
    )


def read_delta(
    loss: ls.Loss, epsilon: Number, *, direction: Direction | None = None, engine: str | None = None
) -> Reading:
    """`delta` with the engine and direction that gave it."""
    target = exact(epsilon, "epsilon")
    if target < 0:
        raise ParameterError(f"epsilon must not be negative, got {epsilon}")
    return _worst(loss, direction, lambda events, way, _: _delta_one(events, loss.neighbours, target, way, engine))


def _worst(loss: ls.Loss, direction: Direction | None, ask: Callable[[Workload, Direction, float], Answer]) -> Reading:
    """The largest bracket over alternatives and directions; joined last.

    Each is told what is certain already: one that is seen not to exceed it needs no bracket of its own.
    """
    best: Reading | None = None
    for events in alternatives(loss):
        found = workload(events, loss.neighbours)
        ways = DIRECTIONS if direction is None else (direction,)
        for way in ways[:1] if found.symmetric else ways:
            answer = ask(found, way, 0.0 if best is None else best.bounds.lower)
            label = "both" if found.symmetric else way
            if best is None:
                best = Reading(answer.bounds, answer.engine, label)
                continue
            lower = max(best.bounds.lower, answer.bounds.lower)
            if answer.bounds.upper > best.bounds.upper:
                best = Reading(Bounds(lower, answer.bounds.upper), answer.engine, label)
            else:
                best = Reading(Bounds(lower, best.bounds.upper), best.engine, best.direction)
    assert best is not None
    return best


_WITH_MASS = (ls.Approx, ls.ZCDP, ls.PoissonSampled, ls.SampledWithoutReplacement, ls.Composed, ls.Repeated)


def mass_at_infinity(events: Events) -> tuple[Fraction, Fraction]:
    """Bounds on 1 - prod (1 - delta_j): what is spent whatever epsilon."""
    low = high = 0.0
    for event, count in events.items():
        if not isinstance(event, _WITH_MASS) or _without_mass(event):
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


def _without_mass(event: ls.Loss) -> bool:
    """Remembered on the (frozen) loss: workloads grow by appending to old ones."""
    known: bool | None = event.__dict__.get("_accounting_finite")
    if known is None:
        known = event.__dict__["_accounting_finite"] = infinite_mass(event) == 0
    return known


def _pure_sum(events: Events) -> Fraction | None:
    for event in events:
        inner = event.loss if isinstance(event, ls.PoissonSampled) else event
        if isinstance(inner, (ls.Gaussian, ls.GaussianSum)):
            return None  # before adding up hundreds of fractions in vain
    total = Fraction(0)
    for event, count in events.items():
        one = pure_epsilon(event)
        if one is None:
            return None
        total += count * one
    return total


def _outward(value: Fraction) -> Bounds:
    near = float(value)
    if Fraction(near) == value:
        return Bounds(near, near)
    return Bounds(near if Fraction(near) < value else down(near), near if Fraction(near) > value else up(near))


def _epsilon_one(
    found: Workload, neighbours: str, target: Fraction, way: Direction, engine: str | None, floor: float
) -> Answer:
    low_mass, high_mass = mass_at_infinity(found.events)
    total = _pure_sum(found.events)
    ceiling = Bounds(math.inf, math.inf) if total is None or high_mass > target else _outward(total)
    if target == 0 or high_mass >= target:
        if total is not None and high_mass == target == 0:
            return Answer(_sampled_ceiling(found, ceiling), PURE)
        certain = low_mass > target or (target == 0 and total is None and not found.loose)
        return Answer(Bounds(math.inf if certain else 0.0, ceiling.upper), "no finite epsilon: mass at infinity")
    rest = (target, target)
    if high_mass:
        rest = ((target - high_mass) / (1 - high_mass), (target - low_mass) / (1 - low_mass))
    best = Answer(Bounds(0.0, math.inf), "none")
    if not found.vague:
        try:
            best = solve(found.upper[way], Target(delta=rest, floor=floor), engine=engine)
        except OutOfReach:
            best = Answer(Bounds(0.0, math.inf), "none")
    if best.bounds.upper <= floor:
        return best
    lower = best.bounds.lower
    if found.loose:
        try:
            lower = solve(found.lower[way], Target(delta=rest), engine=engine).bounds.lower
        except OutOfReach:
            lower = 0.0
    if engine is None and (found.loose or _wide(best.bounds)):
        value, _ = conversion_epsilon(
            lambda alpha: renyi_upper(found.events, neighbours, alpha, way), log_fraction(rest[0])
        )
        if value < best.bounds.upper:
            best = Answer(Bounds(0.0, value), RENYI)
    if ceiling.upper < best.bounds.upper:
        best = Answer(ceiling, PURE)
    if best.bounds.upper >= 1e300:
        raise RefusedError(
            "no proved route to (epsilon, delta) for this composition: a Renyi order too small for the delta, or an "
            "event known at different orders only; state the events by their mechanisms",
            rule=PrivacyRule.THEOREM,
        )
    return Answer(Bounds(min(lower, best.bounds.upper), best.bounds.upper), best.engine)


def _wide(bounds: Bounds) -> bool:
    """Whether another route may beat the engine's upper end."""
    return not bounds.upper - bounds.lower <= 1e-6 * bounds.upper


def _sampled_ceiling(found: Workload, ceiling: Bounds) -> Bounds:
    """At delta = 0 the sum is exact, except where an irrational amplified epsilon was rounded up."""
    if any(isinstance(event, ls.PoissonSampled) and event.neighbours == "replace" for event in found.events):
        return Bounds(0.0, ceiling.upper)
    rounded = any(isinstance(event, (ls.PoissonSampled, ls.SampledWithoutReplacement)) for event in found.events)
    return Bounds(ceiling.lower * (1 - 1e-13), ceiling.upper) if rounded and not found.loose else ceiling


def _delta_one(found: Workload, neighbours: str, target: Fraction, way: Direction, engine: str | None) -> Answer:
    low_mass, high_mass = mass_at_infinity(found.events)
    total = _pure_sum(found.events)
    best, lower = Answer(Bounds(0.0, 1.0), "none"), 0.0
    if total is not None and total <= target:
        best = Answer(Bounds(0.0, 0.0), PURE)
    else:
        if not found.vague:
            try:
                best = solve(found.upper[way], Target(epsilon=target), engine=engine)
                lower = best.bounds.lower
            except OutOfReach:
                best = Answer(Bounds(0.0, 1.0), "none")
        if found.loose:
            try:
                lower = solve(found.lower[way], Target(epsilon=target), engine=engine).bounds.lower
            except OutOfReach:
                lower = 0.0
        if engine is None and (found.loose or _wide(best.bounds)):
            log_value, _ = conversion_log_delta(
                lambda alpha: renyi_upper(found.events, neighbours, alpha, way), float(target)
            )
            if math.exp(log_value) < best.bounds.upper:
                best = Answer(Bounds(0.0, math.exp(log_value)), RENYI)
        if total is not None:
            # the loss never exceeds the sum, so neither does 1 - e^{eps - loss}
            clipped = -math.expm1(-float(total - target)) * (1 + 1e-15)
            if clipped < best.bounds.upper:
                best, lower = Answer(Bounds(0.0, clipped), PURE), min(lower, clipped)
    low = float(low_mass) + (1 - float(low_mass)) * lower
    high = float(high_mass) + (1 - float(high_mass)) * best.bounds.upper
    if low_mass or high_mass:
        low, high = low * (1 - 1e-15), min(1.0, high * (1 + 1e-15))
    return Answer(Bounds(min(low, high), high), best.engine)
