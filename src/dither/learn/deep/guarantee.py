"""What a trained model promises: the guarantee, and a card for readers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from dither.accounting import epsilon as find_epsilon
from dither.errors import ParameterError
from dither.figures import write_bound
from dither.learn.deep.correlated import CorrelatedPlan
from dither.learn.deep.plan import GridPlan, SamplePlan
from dither.learn.guarantees import LIBRARY, ModelGuarantee
from dither.learn.model_files import write_card
from dither.privacy.losses import Loss, Repeated, compose
from dither.version import __version__

FLOAT_SUM = "float sum, sensitivity not proved"
PROVED_SUM = "float error bounded and paid for"
FLOAT_NOISE = "float noise of a generator that is no cipher: not defensible"
INTEGER_NOISE = (
    "integers of a rounded Gaussian, exact, by a cipher keyed by the operating system "
    "(AES-256-CTR on a host, ChaCha20 on a device)"
)
ASSUMED = "a slot's floats do not depend on other slots: tried on invented rows before the run"


@dataclass(frozen=True)
class RunFacts:
    """Public facts of a run that its guarantee states."""

    plan: SamplePlan
    grid: GridPlan
    clip: Fraction
    moved: Fraction
    clipping: str
    noise: str
    has_proved_sums: bool
    rows_per_unit: int
    augmentations: int
    charged_steps: int
    tuning: str
    has_one_grid: bool = True
    """Whether all steps that are charged have this grid: no other loop made any of them."""

    @property
    def loss(self) -> Loss:
        """The loss of all steps that are charged: by their grid where they have one, else by the
        plan's multiplier, below which no grid's noise lies."""
        has_many_grids = self.clipping == "adaptive" or not self.has_one_grid
        if has_many_grids or self.noise == "float":
            return Repeated(self.plan.step_loss(), self.charged_steps)
        return self.plan.run_loss(self.charged_steps, self.grid.sigma, self.grid.sensitivity)


def describe_run(facts: RunFacts) -> ModelGuarantee:
    """The guarantee of a run, by the accountant from the loss of all planned steps.

    It is that of the whole plan, also where a run stopped early: when to stop may have been chosen
    by what was released.
    """
    plan = facts.plan
    public: dict[str, Any] = {
        "declared n": plan.n,
        "mean batch": plan.batch,
        "slots": plan.capacity,
        "steps charged": facts.charged_steps,
        "clip norm": float(facts.clip),
        "clipping": facts.clipping,
        "noise multiplier": float(plan.noise_multiplier),
        "noise": FLOAT_NOISE if facts.noise == "float" else INTEGER_NOISE,
        "sums": PROVED_SUM if facts.has_proved_sums else FLOAT_SUM,
        "float error": f"one {plan.unit} moves a sum by at most "
        f"{write_bound(float(facts.moved), up=True)} clip norms",
        "assumed": ASSUMED,
        "rows of a unit": facts.rows_per_unit,
        "augmentations": facts.augmentations,
    }
    if isinstance(plan, CorrelatedPlan):
        kind = "bands of " + str(plan.coefficients) if plan.coefficients else "a binary tree"
        public |= {
            "correlated noise": f"integer factor, {kind}; noise on its rows is independent",
            "participation": f"every {plan.separation:,} steps, by a secret group of each unit",
        }
    return ModelGuarantee(
        epsilon=find_epsilon(facts.loss, plan.loss_delta).upper,
        delta=float(plan.delta),
        unit=plan.unit,
        neighbours="add_remove",
        trust=LIBRARY,
        releases=facts.charged_steps,
        loss=facts.loss.to_json(),
        tuning=facts.tuning,
        public=public,
    )


def explain_guarantee(guarantee: ModelGuarantee) -> str:
    """The guarantee in plain words, its numbers rounded up."""
    epsilon = write_bound(guarantee.epsilon, up=True)
    delta = write_bound(guarantee.delta, up=True)
    return (
        f"Whatever anybody learns from this model, they could have learnt nearly as well had any "
        f"one {guarantee.unit} been left out: no chance changes by more than a factor of "
        f"e^{epsilon}, plus {delta}. The weights of every step are covered. It is a library "
        f"guarantee: whoever trained held the data, ran this code on it, and no ledger counted "
        f"what else was computed from it."
    )


def write_deep_card(guarantee: ModelGuarantee, model: str, purpose: str) -> str:
    """A model card in Markdown."""
    if not purpose.strip():
        raise ParameterError("purpose is missing: say in a sentence what the model is for")
    epsilon = write_bound(guarantee.epsilon, up=True)
    rows = [
        ("model", model),
        ("purpose", purpose.strip()),
        ("in plain words", explain_guarantee(guarantee)),
        ("protected", f"one {guarantee.unit}; neighbours: {guarantee.neighbours}"),
        ("guarantee", f"epsilon {epsilon} at delta {write_bound(guarantee.delta, up=True)}"),
        ("tuning", guarantee.tuning),
        ("trust", guarantee.trust),
        ("releases", f"{guarantee.releases:,} noisy sums, all of them covered"),
        *((f"public: {name}", str(value)) for name, value in guarantee.public.items()),
        ("written by", f"dither {__version__}"),
    ]
    return write_card(rows)


def compose_runs(runs: list[RunFacts], delta: Fraction) -> ModelGuarantee:
    """The guarantee of several runs on the same data, of which any may be looked at or kept.

    Every trial of a search is one of them: reporting the best alone pays for all.
    """
    losses = [facts.loss for facts in runs]
    loss = compose(*losses)
    overflow = sum((facts.plan.overflow_delta for facts in runs), Fraction(0))
    if overflow >= delta:
        raise ParameterError("delta is smaller than what the runs need for full groups: raise it")
    return ModelGuarantee(
        epsilon=find_epsilon(loss, delta - overflow).upper,
        delta=float(delta),
        unit=runs[0].plan.unit,
        neighbours="add_remove",
        trust=LIBRARY,
        releases=sum(facts.charged_steps for facts in runs),
        loss=loss.to_json(),
        tuning=f"{len(runs)} fits on the same data, all of them in this figure",
        public={
            "noise multipliers": [float(run.plan.noise_multiplier) for run in runs],
            "noise": FLOAT_NOISE if any(run.noise == "float" for run in runs) else INTEGER_NOISE,
            "sums": PROVED_SUM if all(run.has_proved_sums for run in runs) else FLOAT_SUM,
            "assumed": ASSUMED,
        },
    )
