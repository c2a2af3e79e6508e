"""Layers and means that cost nothing: standardised weights, averaged parameters."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from dither.learn.deep.private_layers import StandardisedConv2d
from tests.learn.deep.models import VECTOR, make_rows
from tests.learn.deep.runs import make_trainer

pytestmark = pytest.mark.all


def test_standardised_weights_do_not_depend_on_their_scale_and_shift() -> None:
    layer = StandardisedConv2d(3, 4, 3, padding=1)
    images = torch.rand(2, 3, 8, 8)
    before = layer(images)
    with torch.no_grad():
        layer.weight.mul_(30).add_(2)
    assert torch.allclose(layer(images), before, atol=1e-2)
    used = layer(torch.eye(27).reshape(27, 3, 3, 3))[:, :, 1, 1] - layer.bias
    assert torch.allclose(used.mean(0), torch.zeros(4), atol=1e-4)
    assert torch.allclose(27 * used.square().mean(0), torch.ones(4), atol=1e-2)


def test_means_of_parameters_over_steps_are_post_processing() -> None:
    model = nn.Linear(6, 3)
    averaged = AveragedModel(model)
    steps: list[torch.Tensor] = []

    def average(_: int) -> None:
        averaged.update_parameters(model)
        steps.append(model.weight.detach().clone())

    trainer = make_trainer(model).fit(make_rows(VECTOR, 40), progress=average)
    assert len(steps) == trainer.plan.steps
    assert torch.allclose(averaged.module.weight, torch.stack(steps).mean(0), atol=1e-5)
