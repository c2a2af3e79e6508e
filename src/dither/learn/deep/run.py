"""One pass over the planned steps with the caller's data: sample, clip, add up, release, move."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.clipping import ClippedSum, clip_flat, clip_layers
from dither.learn.deep.contributions import CANCELLATION
from dither.learn.deep.correlated import CorrelatedPlan, GroupDrawer
from dither.learn.deep.float_error import SLACK, bound_sensitivity
from dither.learn.deep.forms import Forms, decode_forms
from dither.learn.deep.ghost import clip_ghost
from dither.learn.deep.gradients import BookKeeper, LossFunction, list_trained
from dither.learn.deep.graphs import BlockGraph, list_addresses, record_block
from dither.learn.deep.guarantee import RunFacts
from dither.learn.deep.plan import SamplePlan
from dither.learn.deep.precision import relaxed_products, wide_sums
from dither.learn.deep.ranks import Ranks
from dither.learn.deep.refusals import is_compiled
from dither.learn.deep.rehearsal import LARGEST_MOVED, SMALL_BLOCK, Rehearsed, rehearse
from dither.learn.deep.release import Clipping, NoiseKind, SumRelease
from dither.learn.deep.rows import RowStore, SlotRows
from dither.learn.deep.sampling import Integers, SlotDrawer
from dither.learn.deep.stage import StepShapes
from dither.privacy.noise import Words

_MOST_MOVED = 2
_PHYSICAL_BATCH = 1024
ONE_FIT = "one fit; settings that were chosen by other fits on these data are not in this figure"


@dataclass(frozen=True)
class TrainerSettings:
    """How a run is computed, all of it public."""

    clip: Fraction
    clipping: Clipping
    noise: NoiseKind
    has_proved_sums: bool
    rows_per_unit: int
    augmentations: int
    augment: Callable[[Tensor], Tensor] | None
    physical_batch: int | None
    precision: torch.dtype | None
    has_graphs: bool = True
    forms: Forms | None = None
    """Those of an earlier loop of this run, or of its checkpoint."""


class TrainingRun:
    """The steps of one loop. It holds the data, and is dropped with them when the loop ends."""

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        optimizer: torch.optim.Optimizer,
        settings: TrainerSettings,
        plan: SamplePlan,
        store: RowStore,
        source: Words,
        ranks: Ranks | None = None,
    ) -> None:
        self._ranks = ranks
        self._optimizer = optimizer
        self._settings = settings
        self._plan = plan
        self._store = store
        self._source = source
        self._model = model
        self._trained = list_trained(model)
        self._rehearsed_modes = _describe_modes(model)
        self._stage, self._rehearsed = self._choose_blocks(model, loss)
        if settings.clipping == "ghost" and not isinstance(self._rehearsed.method, BookKeeper):
            raise ParameterError("ghost clipping needs layers with closed forms: use clipping=flat")
        self.release = SumRelease(
            plan,
            sum(p.numel() for p in self._trained.values()),
            self.moved,
            settings.clip,
            noise=settings.noise,
            is_adaptive=settings.clipping == "adaptive",
            device=self._stage.inputs.device,
            ranks=ranks,
        )
        self._has_failed = False
        self._graph: BlockGraph | None = None
        if settings.has_graphs and settings.clipping != "adaptive":
            self._graph = record_block(
                self._clip_block, self._stage, store, self._rehearsed.unordered
            )
        self._addresses = list_addresses(model)
        self._slots: SlotDrawer | GroupDrawer
        all_slots = self._stage.capacity * self._size
        if isinstance(plan, CorrelatedPlan):
            self._slots = GroupDrawer(store.units, plan, all_slots, source)
        else:
            is_ahead = store.is_on_cuda and ranks is None
            self._slots = SlotDrawer(store.units, plan, all_slots, source, ahead=is_ahead)

    @property
    def forms(self) -> Forms | None:
        """How gradients are computed, where several forms give the same vectors."""
        return self._rehearsed.forms

    @property
    def moved(self) -> Fraction:
        """How many clip norms one unit moves a sum, float errors included."""
        return self._bound(self._stage, self._rehearsed)

    def _bound(self, stage: StepShapes, rehearsed: Rehearsed) -> Fraction:
        if not self._settings.has_proved_sums:
            return 1 + SLACK
        return bound_sensitivity(list(rehearsed.shapes), stage.capacity)

    def describe(self, charged_steps: int, *, has_one_grid: bool) -> RunFacts:
        """The public facts of this run, and whether it makes all steps that are charged."""
        settings = self._settings
        return RunFacts(
            plan=self._plan,
            grid=self.release.grid,
            clip=settings.clip,
            moved=self.moved,
            clipping=settings.clipping,
            noise=settings.noise,
            has_proved_sums=settings.has_proved_sums,
            rows_per_unit=settings.rows_per_unit,
            augmentations=settings.augmentations,
            charged_steps=charged_steps,
            tuning=ONE_FIT,
            has_one_grid=has_one_grid,
        )

    def _choose_blocks(self, model: nn.Module, loss: LossFunction) -> tuple[StepShapes, Rehearsed]:
        """Blocks of sums as large as the bound of float errors allows; where they would be small,
        sums in float64."""
        stage = self._make_stage()
        rehearsed = rehearse(model, loss, stage, self._share_forms, self._settings.forms)
        narrow = self._halve_blocks(stage, rehearsed)
        is_small = narrow[0].sum_block < min(stage.sum_block, SMALL_BLOCK)
        if is_small or self._bound(*narrow) > LARGEST_MOVED:
            stage = replace(stage, is_wide=True)
            rehearsed = rehearsed.with_blocks(stage.sum_block, stage.sum_blocks, is_wide=True)
        else:
            stage, rehearsed = narrow
        if self._bound(stage, rehearsed) > _MOST_MOVED:
            raise ParameterError(
                "the float error of so many products in a sum has no useful bound: train the model "
                "in float64, choose a smaller batch, or sums='float', which the certificate says"
            )
        return stage, rehearsed

    def _share_forms(self, forms: Forms) -> Forms:
        """The forms of the first rank, which all take."""
        if self._ranks is None:
            return forms
        names = list(self._trained)
        return decode_forms(self._ranks.share(forms.encode(names)), names)

    def _halve_blocks(
        self, stage: StepShapes, rehearsed: Rehearsed
    ) -> tuple[StepShapes, Rehearsed]:
        """Smaller blocks, until the bound of float errors is small."""
        while stage.sum_block > 1 and self._bound(stage, rehearsed) > LARGEST_MOVED:
            stage = replace(stage, sum_block=-(-stage.sum_block // 2))
            rehearsed = rehearsed.with_blocks(
                stage.sum_block, stage.sum_blocks, is_wide=stage.is_wide
            )
        return stage, rehearsed

    def _make_stage(self) -> StepShapes:
        """As many slots at once as the physical batch holds."""
        inputs, targets = self._store.describe_row()
        settings = self._settings
        capacity = -(-self._plan.capacity // self._size)
        runs = -(-capacity // min(capacity, settings.physical_batch or _PHYSICAL_BATCH))
        slots = -(-capacity // runs)
        return StepShapes(
            inputs=inputs,
            targets=targets,
            slots=slots,
            runs=runs,
            sum_block=slots,
            rows_per_unit=settings.rows_per_unit,
            augmentations=settings.augmentations,
            augment=settings.augment,
            precision=settings.precision,
            is_proved=settings.has_proved_sums,
        )

    def train_step(self, *, is_last: bool) -> None:
        """One step: every slot is computed, whether it holds a unit or not."""
        if _describe_modes(self._model) != self._rehearsed_modes:
            raise ParameterError(
                "the model changed since its rehearsal (train or eval, trained parameters, hooks, "
                "compile): set it up before batches() or fit, and leave it so"
            )
        self._refuse_after_failure()
        slots = self._stage.slots
        filled = self._draw_slots(is_last=is_last)
        totals: dict[str, Tensor] = {}
        balance = torch.zeros((), dtype=torch.int64, device=self._stage.inputs.device)
        for start in range(0, len(filled), slots):
            clipped = self._sum_slots(filled[start : start + slots])
            if self.release.is_adaptive:
                balance = balance + clipped.balance
            if totals:
                torch._foreach_add_(list(totals.values()), [clipped.sums[name] for name in totals])
            elif self._graph and self._stage.runs > 1:  # it writes into the same memory again
                totals = {name: total.clone() for name, total in clipped.sums.items()}
            else:
                totals = dict(clipped.sums)
        sums = [
            totals[name] if name in totals else torch.zeros_like(parameter)
            for name, parameter in self._trained.items()
        ]
        self._move(self.release.release(sums, balance, is_last=is_last))
        self._has_failed = False

    def _refuse_after_failure(self) -> None:
        """Refuse a step after one that failed, where noise is correlated; note that one began.

        A step that was drawn and has no row would move the rows of a unit closer together than
        their price allows.
        """
        if self._has_failed and isinstance(self._plan, CorrelatedPlan):
            raise ParameterError(
                "a step of this run failed, and correlated noise needs every step in a row of its "
                "own: make a new trainer, and both are paid for"
            )
        self._has_failed = True

    @property
    def _size(self) -> int:
        """Over how many ranks the slots are divided."""
        return 1 if self._ranks is None else self._ranks.size

    def _draw_slots(self, *, is_last: bool) -> Integers:
        """The slots of this process."""
        if self._ranks is None:
            return self._slots.draw(is_last=is_last)
        all_slots = self._stage.capacity * self._size
        return self._ranks.share_slots(lambda: self._slots.draw(is_last=is_last), all_slots)

    def _sum_slots(self, slots: Integers) -> ClippedSum:
        """The clipped sum over some slots: by the recorded graph, as long as the model's tensors
        lie where they were when it was recorded."""
        if self._graph is not None and list_addresses(self._model) == self._addresses:
            return self._graph.sum_units(self._store, slots)
        self._graph = None
        return self._clip_block(self._store.gather(slots))

    def close(self) -> None:
        """End the threads that draw ahead."""
        self._slots.close()
        self.release.close()

    def _clip_block(self, rows: SlotRows) -> ClippedSum:
        """The clipped sum over one block of slots."""
        method = self._rehearsed.method
        clip = float(self.release.clip)
        with self._stage.passes():
            batch = self._stage.prepare(rows.inputs, rows.targets, rows.weights)
            if self._settings.clipping == "ghost":
                assert isinstance(method, BookKeeper)
                return clip_ghost(method, batch, clip, rows.is_present)
            contributions = method.find(*batch, rows.units)
        with (
            torch.no_grad(),
            relaxed_products(not self._settings.has_proved_sums),
            wide_sums(CANCELLATION * clip if self._stage.is_wide else None),
        ):
            if self._settings.clipping == "per_layer":
                return clip_layers(contributions, clip, rows.is_present, self._stage.sum_block)
            return clip_flat(contributions, clip, rows.is_present, self._stage.sum_block)

    def _move(self, means: list[Tensor]) -> None:
        """Give noisy gradients to the optimiser; what is not trained gets none."""
        self._optimizer.zero_grad(set_to_none=True)
        for parameter, mean in zip(self._trained.values(), means, strict=True):
            parameter.grad = mean.detach().to(parameter.dtype)
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)


def _describe_modes(model: nn.Module) -> list[tuple[object, ...]]:
    """What of a model decides how it computes, beside its weights: by module."""
    return [
        (
            name,
            type(module),
            module.training,
            is_compiled(module),
            tuple(parameter.requires_grad for parameter in module.parameters(recurse=False)),
            len(module._forward_hooks) + len(module._forward_pre_hooks),
            len(module._backward_hooks) + len(module._backward_pre_hooks),
        )
        for name, module in model.named_modules()
    ]
