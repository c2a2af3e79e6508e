"""A rehearsal on generated data before a run: whether a model may be trained, and how.

It computes nothing from the caller's rows but their shape. What it finds: layers that mix examples
or keep values of them, whether closed forms give the gradient that autograd gives, and the shapes
of sums, from which the bound of float errors follows. Results of a slot must be the same bits
whatever the other slots hold (rule P37 of the review): that is tried here, on the shapes, types,
device and kernels of the run. It is a test, and the certificate names what stays assumed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.clipping import add_lengths
from dither.learn.deep.contributions import Contribution, Formed, Outer, Rows
from dither.learn.deep.float_error import SumShape
from dither.learn.deep.gradients import (
    BookKeeper,
    Contributions,
    LossFunction,
    Vmapper,
    has_closed_forms,
    list_trained,
)
from dither.learn.deep.stage import Batch, Stage

_TOLERANCE = 2e-3
_TRIED_SLOTS = 3


@dataclass(frozen=True)
class Rehearsed:
    """What a rehearsal found: how gradients of units are computed, and the shapes of their sums."""

    method: BookKeeper | Vmapper
    shapes: tuple[SumShape, ...]


def rehearse(model: nn.Module, loss: LossFunction, stage: Stage) -> Rehearsed:
    """Try a model on invented rows; refuse it, or say how its gradients are computed."""
    method: BookKeeper | Vmapper = Vmapper(model, loss)
    if has_closed_forms(model):
        keeper = BookKeeper(model, loss)
        if _matches_autograd(model, loss, keeper, stage):
            method = keeper
    contributions = _run(model, method, stage, stage.generate(1))
    _check_slots(model, method, stage, contributions)
    missing = list_trained(model).keys() - contributions.keys()
    if len(missing) == len(list_trained(model)):
        raise ParameterError("the loss depends on no trained parameter of the model")
    shapes = [each.shape_of_sum(stage.slots, stage.blocks) for each in contributions.values()]
    return Rehearsed(method, tuple(shapes))


def _run(
    model: nn.Module,
    method: BookKeeper | Vmapper,
    stage: Stage,
    rows: Batch,
) -> Contributions:
    """Contributions of invented rows; buffers must stay as they were, and masks of dropout are the
    same in every run."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    devices = [stage.inputs.device] if stage.inputs.is_cuda else []
    with torch.random.fork_rng(devices), stage.passes():
        torch.manual_seed(1)
        try:
            contributions = method.find(*stage.prepare(*rows), stage.slots)
        except ParameterError:
            raise
        except Exception as error:
            raise ParameterError(
                f"the model does not run on invented rows of this shape ({error}). Layers without "
                f"a closed form must work under torch.func.vmap: "
                f"dither.learn.deep.repair_model(model) replaces LSTM, GRU and attention by layers "
                f"of linear ones"
            ) from error
    for name, buffer in model.named_buffers():
        if not torch.equal(before[name], buffer):
            raise ParameterError(
                f"buffer {name!r} changes in a forward pass: it would keep values of examples, "
                f"without noise. Remove it, or replace the layer by one without running values"
            )
    return contributions


def _matches_autograd(
    model: nn.Module, loss: LossFunction, method: BookKeeper, stage: Stage
) -> bool:
    """Whether closed forms give the summed gradient of autograd: a parameter may also be used
    outside of its layer."""
    rows = stage.generate(1)
    contributions = _run(model, method, stage, rows)
    ones = torch.ones(stage.slots, device=stage.inputs.device)
    devices = [stage.inputs.device] if stage.inputs.is_cuda else []
    with torch.random.fork_rng(devices), stage.passes():
        torch.manual_seed(1)
        inputs, targets, weights = stage.prepare(*rows)
        total = (loss(model(inputs), targets) * weights).sum()
        trained = list_trained(model)
        expected = torch.autograd.grad(total, list(trained.values()), allow_unused=True)
    tolerance = _TOLERANCE if stage.precision is None else 0.05
    for name, gradient in zip(trained, expected, strict=True):
        if (gradient is None) != (name not in contributions):
            return False
        if gradient is not None:
            computed = contributions[name].add_weighted(ones, ones.bool())
            scale = gradient.abs().max() + 1e-6
            if not bool((computed - gradient).abs().max() <= tolerance * scale):
                return False
    return True


def _check_slots(
    model: nn.Module, method: BookKeeper | Vmapper, stage: Stage, first: Contributions
) -> None:
    """Refuse a model for which a slot's operands change with what other slots hold."""
    original = stage.generate(1)
    replaced = stage.generate(2)
    step = max(1, stage.slots // _TRIED_SLOTS)
    for slot in range(0, stage.slots, step):
        own = slice(slot * stage.rows_per_unit, (slot + 1) * stage.rows_per_unit)
        for others in (replaced, tuple(torch.zeros_like(part) for part in replaced)):
            rows = tuple(part.clone() for part in others)
            for part, source in zip(rows, original, strict=True):
                part[own] = source[own]
            again = _run(model, method, stage, (rows[0], rows[1], rows[2]))
            if not _same_slot(first, again, slot):
                raise ParameterError(
                    "an example's gradient changes with the other examples of the batch: a layer "
                    "or the loss mixes them, and no clip norm bounds that. Remove it; "
                    "dither.learn.deep.repair_model(model) replaces batch norm by group norm"
                )


def _same_slot(first: Contributions, again: Contributions, slot: int) -> bool:
    """Whether a slot's operands and norm are the same bits."""
    if first.keys() != again.keys():
        return False
    for name, contribution in first.items():
        for ours, theirs in zip(_operands(contribution), _operands(again[name]), strict=True):
            if not torch.equal(ours[slot], theirs[slot]):
                return False
    lengths = add_lengths(first.values()), add_lengths(again.values())
    return bool(lengths[0].squares[slot] == lengths[1].squares[slot])


def _operands(contribution: Contribution) -> tuple[Tensor, ...]:
    """The arrays of a contribution, a unit in each row."""
    match contribution:
        case Formed(values=values):
            return (values,)
        case Outer(inputs=inputs, gradients=gradients):
            return inputs, gradients
        case Rows(places=places, gradients=gradients):
            return places, gradients
    raise AssertionError("unknown contribution")
