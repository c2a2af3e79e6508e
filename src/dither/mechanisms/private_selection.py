"""The best of several private runs: run, stop with probability gamma, else run again; release the
best run seen.

Each run must itself be epsilon-DP and give an output with a score that may be released. The number
of runs follows the exact geometric law P(K = k) = gamma (1 - gamma)^(k - 1), drawn by exact coins
and never cut short: a fixed number of runs would cost epsilon for every one of them, and a cut tail
would cost a delta. Guarantee: Pure(3 epsilon), whatever gamma and however many runs (Liu, Talwar
2019; Papernot, Steinke 2022, eta = 1). Proof: docs/proofs/private-selection.md#geometric-stopping.

>>> tuning = PrivateSelection(run_epsilon=Fraction(1, 10), gamma=Fraction(1, 50))
>>> tuning.loss(), tuning.error().expected_runs
(Pure(epsilon=3/10, neighbours='add_remove', unit='unit'), 50.0)
>>> tuning.release(lambda source: (7, "the only output"))
(7, 'the only output')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

from dither.canonical import Number, exact, positive, quote
from dither.errors import ParameterError
from dither.privacy.losses import Neighbours, Pure
from dither.privacy.noise import Words, bernoulli
from dither.privacy.noise.source import check_source

Output = TypeVar("Output")


@dataclass(frozen=True)
class StoppingLaw:
    """How many runs there are, and how likely none of them is good."""

    gamma: Fraction

    @property
    def expected_runs(self) -> float:
        return float(1 / self.gamma)

    def miss(self, good: Number) -> float:
        """The chance that no run is good if one run is with probability `good`.

        It is g (1-p) / (1 - (1-g) (1-p)).
        """
        bad = 1 - exact(good, "good")
        return float(self.gamma * bad / (1 - (1 - self.gamma) * bad))


@dataclass(frozen=True)
class PrivateSelection:
    """Chooses among the outputs of independent runs, each of which is run_epsilon-DP."""

    run_epsilon: Fraction
    gamma: Fraction
    neighbours: Neighbours = "add_remove"
    unit: str = "unit"

    def __post_init__(self) -> None:
        """Make run_epsilon and gamma exact, and check them."""
        object.__setattr__(self, "run_epsilon", positive(self.run_epsilon, "run_epsilon"))
        gamma = exact(self.gamma, "gamma")
        if not 0 < gamma <= 1:
            raise ParameterError(
                f"gamma must lie in (0, 1], got {quote(self.gamma)}: 0.01 makes a hundred runs on "
                f"average"
            )
        object.__setattr__(self, "gamma", gamma)
        self.loss()

    def loss(self) -> Pure:
        """What the release costs, all runs together; a single run (gamma = 1) costs itself."""
        factor = 1 if self.gamma == 1 else 3
        return Pure(factor * self.run_epsilon, neighbours=self.neighbours, unit=self.unit)

    def error(self) -> StoppingLaw:
        """The law of the number of runs."""
        return StoppingLaw(self.gamma)

    def release(
        self, run: Callable[[Words], tuple[int, Output]], *, source: Words | None = None
    ) -> tuple[int, Output]:
        """Run again a random number of times, and return (score, output) of the best run.

        Of equal scores the first, which by symmetry favours no output.
        """
        supply = check_source(source)
        best = run(supply)
        while not bernoulli(self.gamma, source=supply):
            candidate = run(supply)
            if candidate[0] > best[0]:
                best = candidate
        return best
