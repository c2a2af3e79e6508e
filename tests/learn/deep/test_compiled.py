"""Compiled models: refused, since their code may change after the rehearsal and loses hooks."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from tests.learn.deep.models import VECTOR, make_rows
from tests.learn.deep.runs import make_trainer

pytestmark = pytest.mark.all


def make_model() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 5), nn.Linear(5, 3))


@pytest.mark.parametrize("case", ["a copy", "a layer", "in place"])
def test_compiled_models_are_refused(case: str) -> None:
    model = make_model()
    match case:
        case "a copy":
            model = torch.compile(model)
        case "a layer":
            model = nn.Sequential(model[0], torch.compile(model[1]))
        case "in place":
            model.compile()
    with pytest.raises(ParameterError, match="as it was before"):
        make_trainer(model)


def test_a_model_that_is_compiled_between_steps_is_refused() -> None:
    model = make_model()
    trainer = make_trainer(model)
    tokens = trainer.batches(make_rows(VECTOR, 40))
    trainer.step(next(tokens))
    model[0].compile()
    with pytest.raises(ParameterError, match="changed since its rehearsal"):
        trainer.step(next(tokens))
    tokens.close()
