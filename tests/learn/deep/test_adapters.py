"""Fine-tuning: adapters of low rank and last layers of a small transformer."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep import add_adapters, freeze_all_but
from dither.learn.deep.adapters import AdaptedLinear
from tests.learn.deep.models import CLOSED, TOKENS, make_rows
from tests.learn.deep.runs import make_trainer

pytestmark = pytest.mark.all
DATA = make_rows(TOKENS, 40)


def make_transformer() -> nn.Module:
    torch.manual_seed(1)
    return CLOSED["encoder"][0]()


def test_adapters_begin_as_the_model_and_train_alone() -> None:
    model = make_transformer()
    adapted = add_adapters(model, 2)
    assert torch.allclose(adapted(DATA[0]), model(DATA[0]), atol=1e-6)
    before = copy.deepcopy(adapted.state_dict())
    make_trainer(adapted).fit(DATA)
    for name, values in adapted.state_dict().items():
        is_adapter = ".down." in name or ".up." in name
        assert torch.equal(values, before[name]) != is_adapter
    layer = next(part for part in adapted.modules() if isinstance(part, AdaptedLinear))
    rows = torch.randn(5, layer.frozen.in_features)
    assert torch.allclose(layer.merge()(rows), layer(rows), atol=1e-5)


def test_last_layers_train_alone() -> None:
    model = freeze_all_but(make_transformer(), "head")
    before = copy.deepcopy(model.state_dict())
    make_trainer(model).fit(DATA)
    for name, values in model.state_dict().items():
        assert torch.equal(values, before[name]) != name.startswith("head")


def test_what_cannot_be_adapted_is_refused() -> None:
    with pytest.raises(ParameterError):
        add_adapters(nn.Sequential(nn.Tanh()), 2)
    with pytest.raises(ParameterError):
        freeze_all_but(make_transformer(), "tail")
