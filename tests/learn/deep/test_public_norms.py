"""Norms of gradients on public rows: those of a loop over rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from dither.errors import ParameterError
from dither.learn.deep.public_norms import measure_public_norms
from tests.learn.deep.models import CLOSED, OTHERS, make_rows
from tests.learn.deep.naive import clip_one_by_one

pytestmark = pytest.mark.all


@pytest.mark.parametrize("name", ["several layers", "tied", "encoder", "prelu"])
def test_norms_are_those_of_a_loop_over_rows(name: str) -> None:
    torch.manual_seed(1)
    make_model, shape = (CLOSED | OTHERS)[name]
    model = make_model()
    rows = make_rows(shape, 300)
    ones = torch.ones(300)
    _, expected = clip_one_by_one(model, nn.CrossEntropyLoss(), *rows, ones, 300, 1.0)
    measured = measure_public_norms(model, nn.CrossEntropyLoss(), rows)
    assert np.allclose(measured.whole, expected.numpy(), rtol=1e-3)
    together = np.sqrt(np.sum([norms**2 for norms in measured.layers.values()], axis=0))
    assert np.allclose(measured.whole, together)
    median = float(np.median(expected.numpy()))
    assert abs(measured.find_clipped_share(median) - 0.5) < 0.02
    shares = measured.find_layer_shares(1e-6)
    assert shares.keys() == measured.layers.keys() and max(shares.values()) == 1


def test_public_rows_are_a_pair_and_not_empty() -> None:
    rows = torch.rand(5, 6), torch.zeros(5, dtype=torch.int64)
    for wrong in ((rows[0], rows[1][:3]), (rows[0][:0], rows[1][:0])):
        with pytest.raises(ParameterError, match="public rows"):
            measure_public_norms(nn.Linear(6, 3), nn.CrossEntropyLoss(), wrong)
