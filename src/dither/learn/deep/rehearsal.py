"""A rehearsal on generated data before a run: whether a model may be trained, and how.

It computes nothing from the caller's rows but their shape. What it finds: layers that mix examples
or keep values of them, whether closed forms give the gradient that autograd gives, and the shapes
of sums, from which the bound of float errors follows. Results of a slot must be the same bits
whatever the other slots hold: that is tried here, on the shapes, types,
device and kernels of the run. It is a test, and the certificate names what stays assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.clipping import add_lengths
from dither.learn.deep.contributions import Contribution, EmbeddingRows, Formed, OuterProducts
from dither.learn.deep.float_error import SumShape, bound_sensitivity
from dither.learn.deep.forms import Forms, measure_forms, time_work
from dither.learn.deep.gradients import (
    BookKeeper,
    Contributions,
    LossFunction,
    Vmapper,
    has_closed_forms,
    list_trained,
)
from dither.learn.deep.stage import UNORDERED, Batch, StepShapes, refused_orders

LARGEST_MOVED = Fraction(105, 100)
"""Clip norms that a unit may move a sum: blocks are halved until then."""
SMALL_BLOCK = 32
"""Slots: products of fewer at a time cost more than products in float64."""
_TOLERANCE = 2e-3
_HALF_TOLERANCE = 0.05
_TRIED_SLOTS = 3
_FURTHER_COINS = range(2, 9)
"""A layer that mixes rows only now and then, by a coin of its own, must be met too."""


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal found: how gradients of units are computed, and the shapes of their sums."""

    method: BookKeeper | Vmapper
    shapes: tuple[SumShape, ...]
    unordered: frozenset[str] = frozenset()
    """Parameters whose sums are added up in an order that is free: rows of embeddings on CUDA."""
    forms: Forms | None = None
    """The forms that were tried; None where no layer has closed ones."""

    def with_blocks(self, block: int, blocks: int, *, is_wide: bool) -> Rehearsed:
        """The same with sums in other blocks or in float64, which changes no operand."""
        shapes = (
            replace(shape, block=block, blocks=blocks, is_wide=is_wide) for shape in self.shapes
        )
        return replace(self, shapes=tuple(shapes))


def rehearse(
    model: nn.Module,
    loss: LossFunction,
    stage: StepShapes,
    share_forms: Callable[[Forms], Forms] = lambda forms: forms,
    forms: Forms | None = None,
) -> Rehearsed:
    """Try a model on invented rows; refuse it, or say how its gradients are computed: by closed
    forms where they are right for this model, else by vmap; refused where slots mix. `forms` are
    those of an earlier rehearsal, and are measured where there was none."""
    if has_closed_forms(model):
        _run(model, BookKeeper(model, loss), stage, stage.generate(1))
        forms = share_forms(choose_forms(model, loss, stage) if forms is None else forms)
        keeper = BookKeeper(model, loss, forms)
        contributions = _run(model, keeper, stage, stage.generate(1))
        rehearsed = replace(_describe(keeper, contributions, stage), forms=forms)
        if _matches_autograd(model, loss, contributions, stage) and _are_slots_apart(
            model, keeper, stage, contributions
        ):
            return rehearsed
    vmapper = Vmapper(model, loss)
    contributions = _run(model, vmapper, stage, stage.generate(1))
    rehearsed = replace(_describe(vmapper, contributions, stage), forms=forms)
    if not _are_losses_apart(model, loss, stage) or not _are_slots_apart(
        model, vmapper, stage, contributions
    ):
        raise ParameterError(
            "an example's loss changes with the other examples of the batch: a layer or the loss "
            "mixes them, and no clip norm bounds that. Remove it; "
            "dither.learn.deep.repair_model(model) replaces batch norm by group norm"
        )
    return rehearsed


def choose_forms(model: nn.Module, loss: LossFunction, stage: StepShapes) -> Forms:
    """The forms that take the least time on invented rows."""
    is_image = stage.inputs.dim() == 4 and not stage.inputs.is_cuda
    is_channels_last = is_image and _is_faster_last(model, loss, stage)
    unformed = dict.fromkeys(list_trained(model), False)
    keeper = BookKeeper(model, loss, Forms(is_channels_last, unformed))
    contributions = _run(model, keeper, stage, stage.generate(1))
    shapes = [
        contribution.shape_of_sum(SMALL_BLOCK, -(-stage.capacity // SMALL_BLOCK))
        for contribution in contributions.values()
    ]
    is_wide = stage.is_proved and bound_sensitivity(shapes, stage.capacity) > LARGEST_MOVED
    with torch.no_grad():
        return Forms(is_channels_last, measure_forms(contributions, is_wide=is_wide))


def _is_faster_last(model: nn.Module, loss: LossFunction, stage: StepShapes) -> bool:
    """Whether a whole pass takes less time where channels of images lie last in memory."""
    seconds = []
    for is_last in (False, True):
        keeper = BookKeeper(model, loss, Forms(is_last))

        def work(keeper: BookKeeper = keeper) -> None:
            add_lengths(_run(model, keeper, stage, stage.generate(1)).values())

        seconds.append(time_work(work, is_cuda=False))
    return seconds[1] < seconds[0]


def _describe(
    method: BookKeeper | Vmapper, contributions: Contributions, stage: StepShapes
) -> Rehearsed:
    """How sums of these contributions are computed."""
    shapes = (
        contribution.shape_of_sum(stage.sum_block, stage.sum_blocks)
        for contribution in contributions.values()
    )
    unordered = (
        name
        for name, contribution in contributions.items()
        if isinstance(contribution, EmbeddingRows)
    )
    return Rehearsed(method, tuple(shapes), frozenset(unordered))


def _are_losses_apart(model: nn.Module, loss: LossFunction, stage: StepShapes) -> bool:
    """Whether rows keep their losses, but for rounding, when the other rows are replaced.

    vmap runs every unit by itself; a model that mixes rows would then learn something else.
    """
    devices = [stage.inputs.device] if stage.inputs.is_cuda else []
    measured = []
    for rows in (stage.generate(1), _replace_others(stage, 0, stage.generate(2))):
        with torch.random.fork_rng(devices), stage.passes(), torch.no_grad():
            torch.manual_seed(1)
            inputs, targets, _ = stage.prepare(*rows)
            measured.append(loss(model(inputs), targets)[: stage.rows_per_slot].double())
    return bool(torch.allclose(measured[0], measured[1], rtol=1e-3, atol=1e-5))


def _run(
    model: nn.Module,
    method: BookKeeper | Vmapper,
    stage: StepShapes,
    rows: Batch,
    coins: int = 1,
) -> Contributions:
    """Contributions of invented rows; buffers must stay as they were, and masks of dropout are the
    same in every run."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = [stage.inputs.device] if stage.inputs.is_cuda else []
    with (
        torch.random.fork_rng(devices),
        stage.passes(),
        refused_orders(is_proved=stage.is_proved),
    ):
        torch.manual_seed(coins)
        try:
            contributions = method.find(*stage.prepare(*rows), stage.slots)
        except ParameterError:
            raise
        except Exception as error:
            if UNORDERED in str(error):
                raise
            raise ParameterError(
                f"the model does not run on invented rows of this shape ({error}). Layers without "
                f"a closed form must work under torch.func.vmap: "
                f"dither.learn.deep.repair_model(model) replaces LSTM, GRU and attention by layers "
                f"of linear ones"
            ) from error
    if not contributions:
        raise ParameterError("the loss depends on no trained parameter of the model")
    for name, buffer in model.named_buffers():
        if not torch.equal(before[name], buffer):
            raise ParameterError(
                f"buffer {name!r} changes in a forward pass: it would keep values of examples, "
                f"without noise. Remove it, or replace the layer by one without running values"
            )
    return contributions


def _matches_autograd(
    model: nn.Module, loss: LossFunction, contributions: Contributions, stage: StepShapes
) -> bool:
    """Whether closed forms give the summed gradient of autograd: a parameter may also be used
    outside of its layer."""
    ones = torch.ones(stage.slots, device=stage.inputs.device)
    devices = [stage.inputs.device] if stage.inputs.is_cuda else []
    # gradients of parameters are taken here alone, and may be added up in any order
    with torch.random.fork_rng(devices), stage.passes(is_strict=False):
        torch.manual_seed(1)
        inputs, targets, weights = stage.prepare(*stage.generate(1))
        total = (loss(model(inputs), targets) * weights).sum()
        trained = list_trained(model)
        expected = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    tolerance = _TOLERANCE if stage.precision is None else _HALF_TOLERANCE
    largest = max(float(g.abs().max()) for g in expected if g is not None)
    for name, gradient in zip(trained, expected, strict=True):
        if (gradient is None) != (name not in contributions):
            return False
        if gradient is not None:
            computed = contributions[name].add_weighted(ones, ones.bool(), stage.sum_block)
            scale = max(float(gradient.abs().max()), 1e-4 * largest)
            if not bool((computed - gradient).abs().max() <= tolerance * scale):
                return False
    return True


def _replace_others(stage: StepShapes, slot: int, others: Batch) -> Batch:
    """Invented rows of one slot among other rows."""
    own = slice(slot * stage.rows_per_unit, (slot + 1) * stage.rows_per_unit)
    mixed = []
    for original, other in zip(stage.generate(1), others, strict=True):
        changed = other.clone()
        changed[own] = original[own]
        mixed.append(changed)
    return mixed[0], mixed[1], mixed[2]


def _are_slots_apart(
    model: nn.Module, method: BookKeeper | Vmapper, stage: StepShapes, first: Contributions
) -> bool:
    """Whether a slot's operands are the same bits whatever other slots hold."""
    replaced = stage.generate(2)
    inputs, targets, weights = (torch.zeros_like(values) for values in replaced)
    tried = range(0, stage.slots, max(1, stage.slots // _TRIED_SLOTS))
    expected = {slot: _copy_slot(first, slot) for slot in tried}
    first.clear()  # two sets of contributions need not lie in memory at once
    for slot in tried:
        for others in (replaced, (inputs, targets, weights)):
            again = _run(model, method, stage, _replace_others(stage, slot, others))
            if not _are_same(expected[slot], _copy_slot(again, slot)):
                return False
            del again
    for coins in _FURTHER_COINS:
        slot = coins % stage.slots
        copies = [
            _copy_slot(_run(model, method, stage, rows, coins), slot)
            for rows in (stage.generate(1), _replace_others(stage, slot, replaced))
        ]
        if not _are_same(*copies):
            return False
    return True


def _copy_slot(contributions: Contributions, slot: int) -> dict[str, list[Tensor]]:
    """A slot's operands, and under no name its norm."""
    copies = {
        name: [values[slot].clone() for values in _operands(contribution)]
        for name, contribution in contributions.items()
    }
    return copies | {"": [add_lengths(contributions.values()).squares[slot].clone()]}


def _are_same(first: dict[str, list[Tensor]], second: dict[str, list[Tensor]]) -> bool:
    """Whether two copies of a slot are the same bits."""
    return first.keys() == second.keys() and all(
        torch.equal(ours, theirs)
        for name, values in first.items()
        for ours, theirs in zip(values, second[name], strict=True)
    )


def _operands(contribution: Contribution) -> tuple[Tensor, ...]:
    """The arrays of a contribution, a unit in each row."""
    match contribution:
        case Formed(values=values):
            return (values,)
        case OuterProducts(inputs=inputs, gradients=gradients):
            return inputs, gradients
        case EmbeddingRows(places=places, gradients=gradients):
            return places, gradients
    raise AssertionError("unknown contribution")
