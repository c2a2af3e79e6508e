"""How gradients of units are computed, where several ways give the same vectors: chosen by time on
invented rows before a run, never on the caller's.

The choice is public. A run keeps it to its end, also where it is resumed from a checkpoint on the
same kind of device, and all ranks take that of the first. What a unit moves, and with it the grid's
noise, may follow from the choice; steps of several loops are therefore priced by the plan's
multiplier.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.contributions import (
    CANCELLATION,
    Contribution,
    OuterProducts,
    can_form,
)
from dither.learn.deep.precision import wide_sums

_TURNS = 3
_CLEAR_GAIN = 0.8
"""A form that is not the formula's must take less of its time, so that noise decides little."""


@dataclass(frozen=True)
class Forms:
    """Whether rows of images lie with channels last in memory, and by parameter whether vectors of
    a layer with several positions are formed; the formula decides where nothing is said."""

    is_channels_last: bool = False
    is_formed: dict[str, bool] = field(default_factory=dict)

    def encode(self, names: list[str]) -> Tensor:
        """As integers, for other ranks: 2 where nothing is said."""
        said = [int(self.is_formed[name]) if name in self.is_formed else 2 for name in names]
        return torch.tensor([int(self.is_channels_last), *said])


def decode_forms(encoded: Tensor, names: list[str]) -> Forms:
    """Read what `Forms.encode` wrote."""
    layout, *said = encoded.tolist()
    formed = {name: number == 1 for name, number in zip(names, said, strict=True) if number < 2}
    return Forms(bool(layout), formed)


def write_forms(forms: Forms, model: nn.Module) -> dict[str, Any]:
    """Forms for a checkpoint, with the kind of device on which they were measured."""
    return {
        "device": next(model.parameters()).device.type,
        "is_channels_last": forms.is_channels_last,
        "is_formed": dict(forms.is_formed),
    }


def read_forms(document: Any, model: nn.Module) -> Forms | None:
    """What `write_forms` wrote; None where it was measured on another device, or for parameters
    that this model does not train."""
    is_layout = isinstance(document, dict) and document.keys() == {
        *("device", "is_channels_last", "is_formed")
    }
    if not is_layout or not _are_forms(document["is_channels_last"], document["is_formed"]):
        raise ParameterError("the checkpoint's forms of gradients are damaged")
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    is_same_device = document["device"] == next(model.parameters()).device.type
    if not is_same_device or not document["is_formed"].keys() <= trained:
        return None
    return Forms(document["is_channels_last"], document["is_formed"])


def _are_forms(is_channels_last: Any, is_formed: Any) -> bool:
    return (
        isinstance(is_channels_last, bool)
        and isinstance(is_formed, dict)
        and all(isinstance(name, str) for name in is_formed)
        and all(isinstance(value, bool) for value in is_formed.values())
    )


def time_work(work: Callable[[], object], *, is_cuda: bool) -> float:
    """The least seconds of some turns."""
    seconds = []
    for _ in range(_TURNS):
        start = time.perf_counter()
        work()
        if is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def measure_forms(contributions: dict[str, Contribution], *, is_wide: bool) -> dict[str, bool]:
    """By parameter whether forming its vectors is the cheaper way, where it differs clearly from
    what the formula says. `contributions` are unformed, of invented rows."""
    chosen = {}
    for name, outer in contributions.items():
        if isinstance(outer, OuterProducts) and outer.positions > 1 and can_form(outer):
            by_formula = isinstance(outer.choose(), OuterProducts)
            gram = time_form(outer, is_wide=is_wide)
            formed = time_form(outer, is_wide=is_wide, is_formed=True)
            usual, other = (gram, formed) if by_formula else (formed, gram)
            is_other = other < _CLEAR_GAIN * usual
            chosen[name] = by_formula if is_other else not by_formula
    return chosen


def time_form(outer: OuterProducts, *, is_wide: bool, is_formed: bool = False) -> float:
    """Seconds of norms and the weighted sum of one layer."""

    def work() -> None:
        again = OuterProducts(outer.inputs, outer.gradients, outer.shape, outer.axes)
        chosen: Contribution = again.form() if is_formed else again
        lengths = chosen.lengths()
        weights = 1 / (1 + lengths.spread_squares.sqrt())
        with wide_sums(CANCELLATION * 1.0 if is_wide else None):
            chosen.add_weighted(weights, lengths.is_sane, len(outer.inputs))

    return time_work(work, is_cuda=outer.inputs.is_cuda)
