"""What training would do and cost, from public numbers alone: shown before anything is paid."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import sqrt

from dither.learn.columns import ColumnFacts
from dither.learn.descent import DescentPlan
from dither.learn.sums import ReleasePlan


@dataclass(frozen=True)
class TrainingPlan:
    """The settings of a fit. `noise` is the standard deviation on each number of a mean gradient,
    product or count, or the scale of a choice among them. `risk_ceiling` bounds the excess risk of
    descent beside the best weights of length 1, where the loss is convex; `risk_floor` is what no
    private method beats, up to a constant. `warnings` are signs that a feature knows the target."""

    epsilon: float
    delta: float
    rho: float
    people: int
    features: int
    releases: int
    clip: float
    learning_rate: float | None
    noise: float
    risk_floor: float
    risk_ceiling: float | None = None
    warnings: tuple[str, ...] = ()

    @property
    def is_hopeless(self) -> bool:
        """Whether no private method can learn from so few people, up to a constant."""
        return self.risk_floor >= 1

    def __str__(self) -> str:
        rate = "" if self.learning_rate is None else f", learning rate {self.learning_rate:.3g}"
        end = ": not possible at this n" if self.is_hopeless else ""
        if self.risk_ceiling is not None:
            end += (
                f"\nexcess risk beside weights of length 1, expected at most: "
                f"{self.risk_ceiling:.2g}"
            )
        end += "".join(f"\nwarning: {warning}" for warning in self.warnings)
        return (
            f"{self.releases:,} releases of {self.features:,} features, clip {self.clip:.3g}{rate}"
            f"\n"
            f"price: epsilon {self.epsilon:g} at delta {self.delta:g}, rho {self.rho:.4g}, charged "
            f"first\n"
            f"noise: {self.noise:.3g} on each mean over {self.people:,} people\n"
            f"lower bound on the excess risk, up to a constant: {self.risk_floor:.2g}{end}"
        )


def bound_excess_risk(
    lipschitz: float, length: float, steps: int, rho: Fraction, features: int, people: int
) -> float:
    """The expected excess of the mean loss after gradient descent with noise, for a convex loss.

    With the best step, L |C| sqrt(1 / T + p / (2 rho n^2)): Bassily, Smith and Thakurta 2014, for
    T steps of rho / T each. Whether steps are the best ones is not known, so it is a guide.
    """
    noise = features / (2 * float(rho) * people**2)
    return lipschitz * length * sqrt(1 / steps + noise)


def describe_training(
    plan: ReleasePlan,
    facts: ColumnFacts,
    people: int,
    epsilon: Fraction,
    delta: Fraction,
    warnings: tuple[str, ...] = (),
) -> TrainingPlan:
    """Say what a plan does.

    The excess risk of a linear loss on the unit ball is at least of the order of
    min(1, sqrt(features) / (epsilon people)) (Bassily, Smith and Thakurta 2014).
    """
    clip = float(getattr(plan, "clip", facts.largest_norm**2 + 1))
    rate = getattr(plan, "learning_rate", None)
    ceiling = None
    if isinstance(plan, DescentPlan):
        rho = plan.rho * Fraction(plan.divisor / people) ** 2  # as if whole passes had its noise
        ceiling = bound_excess_risk(clip, 1.0, plan.steps, rho, facts.width, people)
    return TrainingPlan(
        epsilon=float(epsilon),
        delta=float(delta),
        rho=float(plan.rho),
        people=people,
        features=facts.width,
        releases=plan.releases,
        clip=clip,
        learning_rate=rate,
        noise=plan.find_noise(clip) / getattr(plan, "divisor", people),
        risk_floor=min(1.0, sqrt(facts.width) / (float(epsilon) * people)),
        risk_ceiling=ceiling,
        warnings=warnings,
    )
