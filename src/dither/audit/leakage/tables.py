"""The book's tables 15.3 to 15.7, printed against ours: `dither audit leakage [--full]`.

Conventions: geometric noise is clipped; convergence means "stays within delta from here on",
relative to R* except for the first two systems (absolute); evaluation starts at 5 examples and ends
at 500,000; all four estimators see the same examples. Printed counts come from one run; ours are
medians of a few, so only some of them can be asked to agree: frequentist and NN within 30% at delta
0.1 and 0.05, within a factor of 2 at tighter ones, and the order of estimators that differ much in
print. How k is rounded moves the log10 and ln columns, and the book does not say how. Exact risks
agree to the printed digits.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from dither.audit.leakage.estimate import METHODS, Curve, Integers, Method, list_sizes
from dither.audit.leakage.line import LineClassifier
from dither.audit.leakage.systems import Geometric, Matrix, random_system

MOST = 500_000
_NEVER = 10**12
Counts = tuple[int | None, ...]


@dataclass(frozen=True)
class Experiment:
    """A system, its printed risk, and printed examples to convergence: frequentist, NN, k_n log10,
    k_n ln.

    `quick` is the number of examples at which the quick version ends; none if it leaves the system
    out. `loose` names cells (delta, estimator) in which the printed number is one run's noise, as
    repeating it shows.
    """

    table: str
    name: str
    build: Callable[[], Geometric | Matrix]
    risk: float
    counts: dict[float, Counts]
    absolute: bool = False
    quick: int | None = None
    loose: frozenset[tuple[float, Method]] = field(default=frozenset())


EXPERIMENTS = (
    Experiment(
        "15.4",
        "geometric 1.0, 100 x 10K",
        lambda: Geometric(1.0, 100, 10_000),
        0.0,
        {
            0.1: (1994, 267, 396, 679),
            0.05: (4216, 325, 458, 781),
            0.01: (19828, 425, 633, 899),
            0.005: (38621, 439, 698, 904),
        },
        absolute=True,
        quick=60_000,
    ),
    Experiment(
        "15.4",
        "geometric 0.1, 100 x 10K",
        lambda: Geometric(0.1, 100, 10_000),
        0.007,
        {
            0.1: (18110, 269, 396, 673),
            0.05: (35016, 333, 458, 768),
            0.01: (127206, 439, 633, 899),
            0.005: (211742, 4844, 698, 904),
        },
        absolute=True,
        loose=frozenset({(0.005, "nn")}),
    ),
    Experiment(
        "15.4",
        "geometric 0.01, 100 x 10K",
        lambda: Geometric(0.01, 100, 10_000),
        0.600,
        {0.1: (105453, 103357, 99852, 34243), 0.05: (205824, 205266, 205263, 199604)},
    ),
    Experiment(
        "15.5",
        "geometric 0.2, 100 x 1K",
        lambda: Geometric(0.2, 100, 1_000),
        0.364,
        {
            0.1: (8679, 8707, 7108, 2505),
            0.05: (14823, 14853, 14853, 7673),
            0.01: (51694, 60796, 60796, 60796),
            0.005: (71469, 71469, 71469, 71469),
        },
        quick=110_000,
    ),
    Experiment(
        "15.5",
        "geometric 0.02, 100 x 10K",
        lambda: Geometric(0.02, 100, 10_000),
        0.364,
        {0.1: (85912, 85644, 71003, 11197), 0.05: (152904, 152698, 151153, 68058)},
    ),
    Experiment(
        "15.5",
        "geometric 0.002, 100 x 100K",
        lambda: Geometric(0.002, 100, 100_000),
        0.364,
        {0.1: (None, None, 413974, 2967)},
    ),
    Experiment(
        "15.6",
        "geometric 2, 10K x 10K",
        lambda: Geometric(2.0, 10_000, 10_000),
        0.238,
        {
            0.1: (74501, 73085, 88296, 140618),
            0.05: (95500, 94204, 107707, 155403),
            0.01: (137099, 137348, 144846, 192014),
            0.005: (153370, 153370, 159075, 203363),
        },
    ),
    Experiment(
        "15.6",
        "geometric 2, 10K x 1K",
        lambda: Geometric(2.0, 10_000, 1_000),
        0.924,
        {
            0.1: (5, 5, 5, 5),
            0.05: (721, 514, 2309, 5977),
            0.01: (5595, 6171, 7330, 12354),
            0.005: (10770, 10797, 11037, 14575),
        },
        quick=25_000,
    ),
    Experiment(
        "15.7",
        "random 100 x 100",
        random_system,
        0.979,
        {0.05: (5, 5, 5, 5), 0.01: (82, 139, 202, 500), 0.005: (10070, 10070, 10070, 10070)},
        quick=25_000,
        loose=frozenset((0.01, method) for method in METHODS),
    ),
)


@dataclass(frozen=True)
class Reproduced:
    """One experiment: the exact risk, our counts by delta, and what disagrees beyond the
    tolerance."""

    experiment: Experiment
    risk: float
    counts: dict[float, Counts]

    @property
    def misses(self) -> dict[float, tuple[str, ...]]:
        """By delta, the estimators or orders that disagree."""
        return {
            delta: disagreements(self.experiment, delta, our_counts)
            for delta, our_counts in self.counts.items()
        }

    def to_json(self) -> dict[str, object]:
        """Write the experiment's counts beside those that the book prints."""
        experiment = self.experiment
        rows = [
            {
                "delta": delta,
                "printed": list(experiment.counts[delta]),
                "ours": list(our_counts),
                "misses": list(self.misses[delta]),
            }
            for delta, our_counts in self.counts.items()
        ]
        return {
            "table": experiment.table,
            "system": experiment.name,
            "risk_printed": experiment.risk,
            "risk": self.risk,
            "rows": rows,
        }


def curves(
    system: Geometric | Matrix,
    secrets: Integers,
    outputs: Integers,
    step: float,
    tick: Callable[[float], None] = lambda _: None,
) -> dict[Method, Curve]:
    """Compute the exact risk of every estimator as examples grow.

    `tick` gets the share of the work that is done.
    """
    grid = list_sizes(5, len(secrets), step)
    risks: dict[Method, list[float]] = {method: [] for method in METHODS}
    for size in grid:
        classifier = LineClassifier(secrets[:size], outputs[:size], system.secrets, system.outputs)
        for method in METHODS:
            risks[method].append(system.risk(classifier.guess(method)))
        tick(1 / len(grid))
    return {
        method: Curve(method, tuple(grid), tuple(method_risks))
        for method, method_risks in risks.items()
    }


def reproduce(
    *,
    full: bool,
    runs: int = 3,
    step: float = 0.05,
    tick: Callable[[str, float], None] = lambda *_: None,
) -> Iterator[Reproduced]:
    """Run every experiment, and yield its exact risk and the medians of our counts.

    `tick` gets a name and a share done.
    """
    for experiment in EXPERIMENTS:
        examples = MOST if full else experiment.quick
        if examples is None:
            continue
        run_counts: list[dict[float, list[int]]] = []
        for _ in range(runs):
            system = experiment.build()  # the random system is drawn anew

            def tick_run(done: float, name: str = experiment.name) -> None:
                tick(name, done / runs)

            lines = curves(system, *system.pairs(examples), step, tick_run)
            run_counts.append(
                {
                    delta: [
                        lines[method].converged(
                            system.bayes_risk, delta, absolute=experiment.absolute
                        )
                        or _NEVER
                        for method in METHODS
                    ]
                    for delta in experiment.counts
                }
            )
        counts = {
            delta: tuple(
                _count_or_none(statistics.median_high(column))
                for column in zip(*(run[delta] for run in run_counts), strict=True)
            )
            for delta in experiment.counts
        }
        yield Reproduced(experiment, system.bayes_risk, counts)


def _count_or_none(count: float) -> int | None:
    """A median count; none for an estimator that never converged."""
    return None if count >= _NEVER else int(count)


def disagreements(experiment: Experiment, delta: float, our_counts: Counts) -> tuple[str, ...]:
    """List what lies outside the tolerance of the module's heading.

    >>> disagreements(EXPERIMENTS[3], 0.1, (8_000, 8_000, 7_000, 2_000))
    ()
    >>> disagreements(EXPERIMENTS[3], 0.1, (4_000, None, 7_000, 9_000))
    ('frequentist', 'nn', 'ln before frequentist', 'ln before log10')
    """
    printed = dict(zip(METHODS, map(_count_as_float, experiment.counts[delta]), strict=True))
    measured = dict(zip(METHODS, map(_count_as_float, our_counts), strict=True))
    low, high = (0.7, 1.3) if delta >= 0.05 else (0.5, 2.0)
    judged = [method for method in METHODS if (delta, method) not in experiment.loose]
    far: list[str] = [
        method
        for method in judged
        if method in ("frequentist", "nn")
        and printed[method] != measured[method]
        and not low * printed[method] <= measured[method] <= high * printed[method] < math.inf
    ]
    far += [
        f"{first} before {second}"
        for first in judged
        for second in judged
        if printed[first] * 1.3 < printed[second] and measured[first] > measured[second]
    ]
    return tuple(far)


def _count_as_float(count: int | None) -> float:
    return math.inf if count is None else float(count)
