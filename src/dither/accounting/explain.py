"""The ladder of composition theorems on a workload of one's own: basic, advanced, zCDP, Renyi,
exact.

Every rung is an upper bound with its theorem; a rung that has no theorem for the loss is left out.
The last line is the bracket of `epsilon`, with the engine that gave it. All of it holds for a plan
fixed in advance.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.accounting.alternatives import alternatives
from dither.accounting.bounds import Bounds
from dither.accounting.curves import read_epsilon
from dither.accounting.events import Events
from dither.accounting.guarantees import pure_epsilon
from dither.accounting.masses import mass_at_infinity
from dither.accounting.renyi import conversion_epsilon, renyi_upper, zcdp
from dither.accounting.routes import log_fraction
from dither.accounting.workload import DIRECTIONS, Direction
from dither.canonical import Number, exact
from dither.errors import DitherError
from dither.privacy import losses as ls
from dither.privacy.numbers import refuse_beyond_floats


@dataclass(frozen=True)
class Rung:
    """One theorem's epsilon."""

    name: str
    epsilon: float
    theorem: str


@dataclass(frozen=True)
class LossExplanation:
    """What each theorem gives for a loss at a delta, and what is true."""

    loss: ls.Loss
    delta: float
    rungs: tuple[Rung, ...]
    bounds: Bounds
    engine: str
    direction: str

    def __str__(self) -> str:
        lines = [f"{self.loss!r}", f"at delta = {self.delta:g}, for a plan fixed in advance:"]
        width = max(len(rung.name) for rung in self.rungs)
        lines += [
            f"  {rung.name:<{width}}  {rung.epsilon:<12.7g} {rung.theorem}" for rung in self.rungs
        ]
        lines.append(
            f"  bracket [{self.bounds.lower!r}, {self.bounds.upper!r}], worst direction: "
            f"{self.direction}"
        )
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Write the explanation as plain data for `json.dumps`.

        Floats are for reading, the bracket for using.
        """
        return {
            "loss": self.loss.to_json(),
            "delta": self.delta,
            "epsilon": {"lower": self.bounds.lower, "upper": self.bounds.upper},
            "engine": self.engine,
            "direction": self.direction,
            "ladder": [
                {"name": r.name, "epsilon": r.epsilon, "theorem": r.theorem} for r in self.rungs
            ],
            "validity": "plan fixed in advance",
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw a bar for every rung (needs the `plot` extra), and return the matplotlib axes."""
        axes = _axes(axes)
        names = [rung.name for rung in self.rungs]
        axes.barh(names[::-1], [rung.epsilon for rung in self.rungs][::-1], color="#4c72b0")
        axes.set_xlabel(f"epsilon at delta = {self.delta:g}")
        axes.set_title("the same workload under each theorem")
        return axes


@refuse_beyond_floats
def explain(loss: ls.Loss, delta: Number) -> LossExplanation:
    """List which theorem and engine give which epsilon for this loss.

    >>> from dither.privacy.losses import Laplace
    >>> ladder = explain(Laplace(10) * 100, 1e-6)
    >>> [(rung.name, round(rung.epsilon, 3)) for rung in ladder.rungs]
    [('basic', 10.0), ('advanced', 5.757), ('zCDP', 5.12...), ('Renyi', 4.98...), ('exact', 4.693)]
    """
    target = exact(delta, "delta")
    reading = read_epsilon(loss, target)
    rungs = []
    for name, theorem, rule in (
        ("basic", "theorem 3.1: epsilons and deltas add", _basic),
        (
            "advanced",
            "theorems 3.18 and 3.22: (sum eps^2)/2 + sqrt(2 log(1/delta) sum eps^2)",
            _advanced,
        ),
        ("zCDP", "rho adds; tight conversion (proposition 3.14)", _concentrated),
        ("Renyi", "Renyi divergences add at one order; tight conversion, best order", _renyi),
    ):
        try:
            values = [rule(loss, events, target) for events in alternatives(loss)]
        except DitherError:
            continue
        if all(value is not None and math.isfinite(value) for value in values):
            rungs.append(Rung(name, max(value for value in values if value is not None), theorem))
    rungs.append(Rung("exact", reading.bounds.upper, reading.engine))
    return LossExplanation(
        loss, float(target), tuple(rungs), reading.bounds, reading.engine, reading.direction
    )


def _list_epsilons(events: Events) -> list[tuple[float, int]] | None:
    """List (epsilon, count) of all events; None where one of them is not pure."""
    pairs = []
    for event, count in events.items():
        epsilon = pure_epsilon(event)
        if epsilon is None:
            return None
        pairs.append((float(epsilon), count))
    return pairs


def _basic(loss: ls.Loss, events: Events, target: Fraction) -> float | None:
    pairs = _list_epsilons(events)
    if pairs is None or mass_at_infinity(events)[1] > target:
        return None
    return math.fsum(epsilon * count for epsilon, count in pairs)


def _advanced(loss: ls.Loss, events: Events, target: Fraction) -> float | None:
    """Compute epsilon by advanced composition; None where an event is not pure."""
    pairs = _list_epsilons(events)
    rest = target - mass_at_infinity(events)[1]
    if pairs is None or rest <= 0:
        return None
    squares = math.fsum(count * epsilon**2 for epsilon, count in pairs)
    return squares / 2 + math.sqrt(-2 * log_fraction(rest) * squares)


def _concentrated(loss: ls.Loss, events: Events, target: Fraction) -> float | None:
    """Compute epsilon by zCDP; None where the delta is spent already."""
    rho, mass = zcdp(loss)
    if target <= mass:
        return None
    rest = (target - mass) / (1 - mass)
    return conversion_epsilon(lambda alpha: alpha * rho.upper, log_fraction(rest))[0]


def _renyi(loss: ls.Loss, events: Events, target: Fraction) -> float | None:
    """Compute epsilon by the best Renyi order; None where the delta is spent already."""
    mass = mass_at_infinity(events)[1]
    if target <= mass:
        return None
    rest = log_fraction((target - mass) / (1 - mass))

    def convert(direction: Direction) -> float:
        return conversion_epsilon(
            lambda alpha: renyi_upper(events, loss.neighbours, alpha, direction), rest
        )[0]

    return max(map(convert, DIRECTIONS))


def _axes(axes: Any) -> Any:
    """Return the axes given, or new ones.

    Raises ImportError, with the remedy, without matplotlib.
    """
    if axes is not None:
        return axes
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'dither[plot]'") from error
    return Figure(figsize=(7, 4), layout="constrained").subplots()
