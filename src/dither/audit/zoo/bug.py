"""What a planted bug is: a mechanism that somebody got wrong, its claim, and the detector that must
catch it.

A bug keeps its real parameters. Its detector is named: `black box` (runs of the tester, at most 1e8
on each side, with the power of a named event computed in advance), `exact law`, `accountant` (the
bracket of the loss), or `structure` (a property that no sampling shows). `needs` says what the
black box alone would need.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from dither.audit.black_box import test
from dither.audit.confidence import power, runs_needed
from dither.audit.events import Event, event
from dither.audit.exact import Law, judge
from dither.audit.figures import write_claim, write_needed_runs
from dither.audit.verdict import Budget, Verdict
from dither.figures import write_bound

Detector = Literal["black box", "exact law", "accountant", "structure"]
ALPHA = 1e-9
MOST_RUNS = 10**8
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Catch:
    """What the detector found, with its sample size, rate and computed power (1 where nothing is
    random)."""

    caught: bool
    evidence: str
    runs: int = 0
    alpha: float = 0.0
    power: float = 1.0
    needs: str = ""
    verdict: Verdict | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Bug:
    """One broken mechanism."""

    name: str
    what: str
    origin: str
    claim: str
    detector: Detector
    catch: Callable[[], Catch] = field(repr=False)


def black_box(
    name: str,
    what: str,
    origin: str,
    *,
    mechanism: Callable[..., Any],
    pair: tuple[Any, Any],
    epsilon: float,
    delta: float = 0.0,
    named: tuple[str, Callable[[Any], Any]],
    chances: Callable[[], tuple[float, float]],
    runs: int,
) -> Bug:
    """Make a bug that the tester must see.

    `chances` are the named event's probabilities on the side where it is likelier, and on the
    other; from them the power is computed. The search is on as well, and may find a better event.
    """
    text, holds = named
    spend = Budget(runs, ALPHA)

    def catch() -> Catch:
        """Run the tester; compute its power and the runs it needs from the true chances."""
        own: Event = event(text, holds)
        verdict = test(mechanism, *pair, epsilon, delta, budget=spend, events=[own], name=name)
        share = spend.end_alpha(1)
        likely, rare = chances()
        strength = power(likely, rare, spend.testing, epsilon, delta, share)
        needed = runs_needed(likely, rare, epsilon, delta, share)
        needed_text = "" if needed is None else write_needed_runs(needed)
        return Catch(verdict.violated, str(verdict), runs, ALPHA, strength, needed_text, verdict)

    claim = write_claim(epsilon, delta)
    return Bug(name, what, origin, claim, "black box", catch)


def exact_law(
    name: str,
    what: str,
    origin: str,
    *,
    laws: Callable[[], tuple[Law, Law]],
    epsilon: float,
    delta: float = 0.0,
) -> Bug:
    """Make a bug whose two laws can be written down.

    What a black box would need follows from the best set of outputs.
    """

    def catch() -> Catch:
        """Compare the two written laws with the claim, without sampling."""
        left, right = laws()
        verdict = judge(left, right, epsilon=epsilon, delta=delta)
        needed = black_box_needs(left, right, epsilon, delta)
        evidence = (
            f"delta({write_bound(epsilon)}) >= {write_bound(verdict.delta_bounds.lower)} > "
            f"{write_bound(delta)}; "
            f"worst output {verdict.worst!r}"
        )
        return Catch(verdict.outcome == "violated", evidence, needs=needed)

    claim = write_claim(epsilon, delta)
    return Bug(name, what, origin, claim, "exact law", catch)


def black_box_needs(left: Law, right: Law, epsilon: float, delta: float) -> str:
    """Say with how many runs on each side the best event of two laws is seen with power 0.99."""
    best: int | None = None
    for a, b in ((left, right), (right, left)):
        order = sorted(a, key=lambda x: -float(a[x]) / max(float(b.get(x, 0)), 1e-300))
        p = np.cumsum([float(a[x]) for x in order])
        q = np.cumsum([float(b.get(x, 0)) for x in order])
        gain = p - math.exp(epsilon) * q - delta
        for k in {
            int(np.argmax(gain)),
            int(np.argmax(gain / np.sqrt(p + math.exp(2 * epsilon) * q + 1e-300))),
        }:
            needed = runs_needed(float(min(1.0, p[k])), float(q[k]), epsilon, delta, ALPHA / 4)
            best = needed if best is None else best if needed is None else min(best, needed)
    return "not visible in one run" if best is None else write_needed_runs(best)


def accountant(
    name: str,
    what: str,
    origin: str,
    *,
    claim: str,
    claimed: Callable[[], float],
    true_lower: Callable[[], float],
    needs: Callable[[], str],
) -> Bug:
    """Make a bug in arithmetic: the number claimed lies below the proved lower end of the
    bracket."""

    def catch() -> Catch:
        """Compare the claimed value with the accountant's lower bound of the truth."""
        claimed_value = claimed()
        truth = true_lower()
        return Catch(
            claimed_value < truth,
            f"claims {write_bound(claimed_value, up=True)}; the truth is at least "
            f"{write_bound(truth)}",
            needs=needs(),
        )

    return Bug(name, what, origin, claim, "accountant", catch)


def structure(
    name: str,
    what: str,
    origin: str,
    *,
    claim: str,
    faults: Callable[[], Sequence[str]],
    needs: str,
) -> Bug:
    """Make a bug that a property of the code shows: `faults` lists where the property fails."""

    def catch() -> Catch:
        fault_list = list(faults())
        return Catch(
            bool(fault_list), fault_list[0] if fault_list else "the property holds", needs=needs
        )

    return Bug(name, what, origin, claim, "structure", catch)


def laplace_pmf(scale: float, z: Any) -> Any:
    """Integer Laplace: P(z) = tanh(1/2s) e^(-|z|/s)."""
    return math.tanh(0.5 / scale) * np.exp(-np.abs(z) / scale)


def laplace_tail(scale: float, t: Any) -> Any:
    """Compute P(z >= t) of integer Laplace noise."""
    a = math.exp(-1 / scale)
    t = np.asarray(t, np.float64)
    upper = np.exp(-np.maximum(t, 1) / scale) / (1 + a)
    below = np.exp(-np.maximum(1 - t, 0) / scale) / (1 + a)
    return np.where(t >= 1, upper, 1 - below)
