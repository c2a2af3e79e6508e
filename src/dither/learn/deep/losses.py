"""Loss functions as the trainer needs them: one number for each row."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from dither.errors import ParameterError
from dither.learn.deep.gradients import LossFunction


def read_loss(loss: Any) -> LossFunction:
    """A loss module or function with `reduction='none'`, its numbers of one row averaged."""
    if not callable(loss):
        raise ParameterError("loss is a module or a function of (outputs, targets)")
    return _average(_unreduce(loss))


def _unreduce(loss: Callable[..., Tensor]) -> LossFunction:
    """The loss without the mean over the batch, which would divide by its size."""
    if isinstance(loss, nn.Module) and hasattr(loss, "reduction"):
        unreduced: LossFunction = copy.copy(loss)
        vars(unreduced)["reduction"] = "none"
        return unreduced
    if "reduction" in inspect.signature(loss).parameters:
        return lambda outputs, targets: loss(outputs, targets, reduction="none")
    return loss


def _average(loss: LossFunction) -> LossFunction:
    """One number for each row: the mean of what belongs to it."""

    def measure(outputs: Tensor, targets: Tensor) -> Tensor:
        losses = loss(outputs, targets)
        if losses.dim() == 0 or len(losses) != len(targets):
            raise ParameterError(
                "the loss gives no number for each row: use reduction='none', or a function that "
                "returns one loss a row; a mean over the batch divides by its secret size"
            )
        return losses.flatten(1).mean(1) if losses.dim() > 1 else losses

    return measure
