"""Models that must not be trained: layers that mix examples, or keep what they saw.

A layer that computes with the whole batch makes one person's row move the gradient of another: no
clip norm bounds that. Every refusal names the layer and the remedy.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim.lr_scheduler import ReduceLROnPlateau

from dither.errors import ParameterError
from dither.learn.deep.gradients import list_trained

_REMEDY = "replace it by group norm: dither.learn.deep.repair_model(model) does"
FULL_DTYPES = (torch.float32, torch.float64)


def refuse_autocast(device: torch.device) -> None:
    """Refuse a caller's own mixed precision: norms and sums would be shorter than their bounds."""
    if torch.is_autocast_enabled(device.type):
        raise ParameterError(
            "training runs inside torch.autocast: leave that, and choose precision='bfloat16', "
            "which shortens the passes alone"
        )


def is_compiled(layer: nn.Module) -> bool:
    """Whether a layer was compiled, as a copy by `torch.compile` or in place by `compile()`."""
    return hasattr(layer, "_orig_mod") or layer._compiled_call_impl is not None


def check_model(model: nn.Module) -> None:
    """Refuse layers that mix examples or keep running values of them, and compiled ones."""
    for name, layer in model.named_modules():
        where = f"layer {name!r} ({type(layer).__name__})"
        if is_compiled(layer):
            raise ParameterError(
                f"{where} is compiled: torch.compile may change its code between steps, and hooks "
                f"are lost there. Give the trainer the model as it was before"
            )
        if isinstance(layer, _BatchNorm):
            raise ParameterError(f"{where} normalises by other examples of the batch: {_REMEDY}")
        if getattr(layer, "track_running_stats", False):
            raise ParameterError(f"{where} keeps running values of examples: {_REMEDY}")
        if type(layer) is nn.Embedding and layer.max_norm is not None:
            raise ParameterError(f"{where} rewrites rows that were read: leave max_norm out")
    trained = list_trained(model)
    if not trained:
        raise ParameterError("no parameter of the model is trained: unfreeze some")
    for name, parameter in trained.items():
        if parameter.dtype not in FULL_DTYPES:
            raise ParameterError(
                f"parameter {name!r} is {parameter.dtype}: keep parameters in float32 and choose "
                f"precision='bfloat16' for the passes"
            )
        if parameter.dim() == 0 or parameter.numel() == 0:
            raise ParameterError(f"parameter {name!r} has no dimension: give it shape (1,)")


def check_optimizer(optimizer: Any, model: nn.Module) -> None:
    """Refuse an optimiser that moves something else than the trained parameters."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ParameterError("optimizer is an object of torch.optim, such as torch.optim.SGD(...)")
    own = set(list_trained(model).values())
    moved = {parameter for group in optimizer.param_groups for parameter in group["params"]}
    if not moved & own:
        raise ParameterError("the optimizer holds no trained parameter of this model")


def check_scheduler(scheduler: Any) -> None:
    """Refuse a schedule that follows a loss: a training loss is private and was not paid for."""
    if isinstance(scheduler, ReduceLROnPlateau):
        raise ParameterError(
            "ReduceLROnPlateau follows a loss, which is private: choose a fixed schedule, such as "
            "torch.optim.lr_scheduler.CosineAnnealingLR"
        )
