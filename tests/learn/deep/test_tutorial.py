"""The tutorial, as a reader would follow it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from dither.learn.deep.features import ScatteringFeatures

pytestmark = pytest.mark.all
PAGE = Path(__file__).parents[3] / "docs" / "tutorial" / "train-a-network.md"


def test_the_network_of_the_tutorial_learns_as_stated(capsys) -> None:
    torch.manual_seed(0)
    names: dict = {}
    for block in re.findall(r"```py\n(.*?)```", PAGE.read_text(), re.DOTALL):
        exec(block, names)
    assert names["accuracy"] > 0.75
    assert names["trainer"].guarantee.epsilon <= 3
    assert "library guarantee" in capsys.readouterr().out


def test_features_of_an_image_depend_on_that_image_alone() -> None:
    features = ScatteringFeatures(8, 8)
    images = torch.rand(3, 8, 8)
    first = features(images)
    assert first.shape == (3, features.channels, 2, 2) and features.channels == 81
    images[1:] = 0
    assert torch.allclose(features(images)[0], first[0], atol=1e-6)
    assert float(features(torch.ones(1, 8, 8))[0, 1:].abs().max()) < 1e-5  # no edges, no waves
