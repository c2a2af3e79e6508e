"""`PrivateTrainer`: a model trained with differential privacy by clipped, noisy sums of gradients.

All that a step releases is a rounded sum of clipped gradients with integer noise; what the
optimiser makes of it is post-processing. Batch sizes, losses and norms stay inside.
Proof: docs/proofs/deep-learning.md.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NoReturn, get_args

import torch
from torch import Tensor, nn

from dither.canonical import Number, positive, quote
from dither.errors import ParameterError
from dither.given_numbers import whole_number
from dither.learn.deep.checkpoints import (
    Family,
    Resumed,
    read_checkpoint,
    write_checkpoint,
    write_terms,
)
from dither.learn.deep.correlated import plan_correlated
from dither.learn.deep.gradients import list_trained
from dither.learn.deep.guarantee import RunFacts, compose_runs, describe_run, write_deep_card
from dither.learn.deep.losses import read_loss
from dither.learn.deep.plan import SamplePlan, plan_sampling, read_clip
from dither.learn.deep.ranks import Ranks
from dither.learn.deep.refusals import (
    check_model,
    check_optimizer,
    check_scheduler,
    refuse_autocast,
)
from dither.learn.deep.release import Clipping, NoiseKind
from dither.learn.deep.rows import RowStore
from dither.learn.deep.run import TrainerSettings, TrainingRun
from dither.learn.guarantees import ModelGuarantee
from dither.privacy.noise import SystemSource

CORRELATED = ("tree", "banded")
_PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, eq=False)
class StepToken:
    """The permission for one step, from the trainer's own sampler; it shows nothing else."""

    number: int


class PrivateTrainer:
    """Trains a model so that what it learnt is (epsilon, delta)-private for every unit.

    `n` is the declared number of units (or an upper bound), `batch` how many of them a step samples
    on average. A unit is a row, or all rows of one owner (`fit(..., owners=...)`, at most
    `rows_per_unit` of each). Guarantee: a library guarantee, the caller held the data.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: Any,
        *,
        n: int,
        epsilon: Number,
        delta: Number | None = None,
        epochs: Number,
        batch: int,
        clip: Number = 1,
        optimizer: torch.optim.Optimizer | None = None,
        scheduler: Any = None,
        clipping: Clipping = "flat",
        noise: NoiseKind = "integer",
        bands: int | None = None,
        sums: str = "proved",
        unit: str = "example",
        rows_per_unit: int = 1,
        augment: Callable[[Tensor], Tensor] | None = None,
        augmentations: int = 1,
        physical_batch: int | None = None,
        precision: str = "float32",
        graphs: bool = True,
        process_group: Any = None,
    ) -> None:
        check_model(model)
        _check_choice(clipping, get_args(Clipping), "clipping")
        _check_choice(noise, get_args(NoiseKind), "noise")
        _check_choice(sums, ("proved", "float"), "sums")
        _check_choice(precision, tuple(_PRECISIONS), "precision")
        check_scheduler(scheduler)
        self.model = model
        self.optimizer = optimizer or torch.optim.SGD(list_trained(model).values(), lr=0.1)
        check_optimizer(self.optimizer, model)
        self._scheduler = scheduler
        self._loss = read_loss(loss)
        self._settings = TrainerSettings(
            clip=read_clip(clip),
            clipping=clipping,
            noise=noise,
            has_proved_sums=sums == "proved" and clipping != "ghost",
            rows_per_unit=whole_number(rows_per_unit, "rows_per_unit"),
            augmentations=_read_augmentations(augment, augmentations),
            augment=augment,
            physical_batch=physical_batch and whole_number(physical_batch, "physical_batch"),
            precision=_PRECISIONS[precision],
            has_graphs=graphs,
        )
        terms: dict[str, Any] = {"n": n, "batch": batch, "epochs": epochs, "epsilon": epsilon}
        terms |= {"delta": delta, "unit": unit}
        self.plan: SamplePlan
        if noise in CORRELATED:
            check_correlated(clipping)
            self.plan = plan_correlated(noise=noise, bands=bands, **terms)
        elif bands is not None:
            raise ParameterError("bands are for noise='banded'")
        else:
            self.plan = plan_sampling(**terms)
        self._ranks = None if process_group is None else Ranks(process_group)
        if self._ranks is not None and noise == "float":
            raise ParameterError("several ranks add up integers: use noise='integer'")
        self.steps_done = 0
        self._extra_steps = 0
        self._family: Family | None = None
        self._has_ended = False
        self._source = SystemSource()
        self._process = os.getpid()
        self._run: TrainingRun | None = None
        self._waiting: StepToken | None = None
        self._facts: RunFacts | None = None

    def fit(
        self, data: Any, *, owners: Any = None, progress: Callable[[int], None] | None = None
    ) -> PrivateTrainer:
        """Make all steps that are left. `progress(steps)` is called after each of them."""
        for token in self.batches(data, owners=owners):
            self.step(token)
            if progress is not None:
                progress(self.steps_done)
        return self

    def batches(self, data: Any, *, owners: Any = None) -> Iterator[StepToken]:
        """Tokens for all steps that are left: each is given to `step` once, before the next."""
        run = self._begin(data, owners)
        try:
            while self.steps_done < self.plan.steps:
                self._waiting = StepToken(self.steps_done)
                yield self._waiting
                if self._waiting is not None:
                    raise ParameterError("a token was not used: call step(token) before the next")
        finally:
            run.close()
            self._run = None
            self._waiting = None

    def step(self, token: StepToken) -> None:
        """One step of training. It returns nothing: a loss on private rows is private."""
        self._check_process()
        if not isinstance(token, StepToken) or self._run is None or token is not self._waiting:
            raise ParameterError(
                "step takes the token that this trainer's batches() gave last, once: a batch of "
                "the caller's own is no Poisson sample, and its price would be wrong"
            )
        if self._has_ended:
            raise ParameterError("this run ended with its checkpoint: resume that one")
        refuse_autocast(next(self.model.parameters()).device)
        self._waiting = None
        self.steps_done += 1  # paid before anything is read
        self._run.train_step(is_last=self.steps_done == self.plan.steps)
        if self._scheduler is not None:
            self._scheduler.step()

    @property
    def facts(self) -> RunFacts:
        """The public facts of the run."""
        if self._facts is None:
            raise ParameterError("nothing was trained yet: call fit")
        return self._facts

    @property
    def guarantee(self) -> ModelGuarantee:
        """What the whole plan promises, also where fewer steps were made."""
        return describe_run(self.facts)

    def write_model_card(self, *, purpose: str) -> str:
        """A card in Markdown, with the guarantee in plain words."""
        return write_deep_card(self.guarantee, type(self.model).__name__, purpose)

    def find_spent(self) -> float:
        """Epsilon of the steps so far, by the plan; with those of other runs from a checkpoint."""
        return self.plan.find_spent(self.steps_done + self._extra_steps)

    def write_checkpoint(self, path: str | Path, *, ends_run: bool = False) -> None:
        """Write weights, optimiser and the spent plan. With `ends_run` this trainer makes no
        further step, and a run that resumes is charged for what is left only once."""
        self._check_process()
        if self._settings.noise in CORRELATED:
            raise ParameterError(
                "a run with correlated noise cannot be resumed, since its exact sums are kept in "
                "no file: save model.state_dict(), and a further run is a new trainer"
            )
        if self._has_ended:
            raise ParameterError("this run ended with its checkpoint: there is no second one")
        if ends_run:
            self._has_ended = True
        self._family = write_checkpoint(
            Path(path),
            self.model,
            self.optimizer,
            write_terms(self.plan, self._settings),
            Resumed(self.steps_done, self._extra_steps, self._family, self._settings.forms),
            unmade_steps=self.plan.steps - self.steps_done if ends_run else None,
        )

    def resume(self, path: str | Path) -> PrivateTrainer:
        """Go on from a checkpoint, with fresh keys: remaining steps are paid as new ones."""
        if self.steps_done or self._run is not None:
            raise ParameterError("resume a new trainer: this one has made steps of its own")
        terms = write_terms(self.plan, self._settings)
        resumed = read_checkpoint(Path(path), self.model, self.optimizer, terms, self.plan.steps)
        self.steps_done = resumed.steps_done
        self._extra_steps = resumed.extra_steps
        self._family = resumed.family
        self._settings = replace(self._settings, forms=resumed.forms)
        return self

    def _begin(self, data: Any, owners: Any) -> TrainingRun:
        """Check and rehearse; nothing is read but shapes and the number of units."""
        self._check_process()
        if self._run is not None:
            raise ParameterError("this trainer is training: finish that loop first")
        if self._has_ended:
            raise ParameterError("this run ended with its checkpoint: resume that one")
        if self.steps_done >= self.plan.steps:
            raise ParameterError(
                f"all {self.plan.steps:,} planned steps were made: a further run is a new trainer, "
                f"and both are paid for"
            )
        settings = self._settings
        if self.steps_done and settings.noise in CORRELATED:
            raise ParameterError(
                "correlated noise is for one loop, since its exact sums ended with the first: make "
                "a new trainer, and both are paid for"
            )
        if owners is None and settings.rows_per_unit != 1:
            raise ParameterError("rows_per_unit is for owners: give owners=, a label for each row")
        device = next(self.model.parameters()).device
        refuse_autocast(device)
        store = RowStore(data, owners, settings.rows_per_unit, self._source, device)
        if store.units > self.plan.n:
            raise ParameterError(
                f"there are more units than the declared n = {self.plan.n:,}: declare an upper "
                f"bound, since the capacity of batches and the price follow from it"
            )
        if self._ranks is not None:
            terms = write_terms(self.plan, settings)
            self._ranks.check_same((terms, self.steps_done, store.describe_units()))
            self._ranks.share_model(self.model)
        self._run = TrainingRun(
            self.model,
            self._loss,
            self.optimizer,
            settings,
            self.plan,
            store,
            self._source,
            self._ranks,
        )
        self._settings = replace(settings, forms=self._run.forms)
        self._facts = self._run.describe(
            self.plan.steps + self._extra_steps,
            # another loop may have had other forms, and its sums and noise other steps
            has_one_grid=not self.steps_done and self._family is None,
        )
        if self._ranks is not None:  # the first rank's noise must cover what any of them moves
            self._ranks.check_same((repr(self._facts.grid), str(self._facts.moved)))
        return self._run

    def _check_process(self) -> None:
        """Refuse to train in a forked copy: two runs would be charged as one."""
        if os.getpid() != self._process:
            raise ParameterError("this trainer belongs to the process that made it: make another")

    def _never(self, *_: Any) -> NoReturn:
        raise TypeError("a trainer cannot be copied or pickled: write a checkpoint instead")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _never


def compose_trials(trainers: list[PrivateTrainer], delta: Number) -> ModelGuarantee:
    """The guarantee of all fits of a search together, at one delta."""
    if not trainers:
        raise ParameterError("give the trainers of all trials")
    facts = [trainer.facts for trainer in trainers]
    if len({run.plan.unit for run in facts}) > 1:
        raise ParameterError("trials protect different units: their losses do not add up")
    return compose_runs(facts, positive(delta, "delta"))


def check_correlated(clipping: str) -> None:
    """Refuse clip norms that change: rows add up steps of one sensitivity."""
    if clipping == "adaptive":
        raise ParameterError("correlated noise needs one clip norm: use clipping='flat'")


def _check_choice(value: Any, choices: tuple[str, ...], name: str) -> None:
    if value not in choices:
        raise ParameterError(f"{name} is one of {', '.join(choices)}, got {quote(value)}")


def _read_augmentations(augment: Any, augmentations: int) -> int:
    count = whole_number(augmentations, "augmentations")
    if count > 1 and augment is None:
        raise ParameterError("augmentations need augment=, a function that changes rows at random")
    return count
