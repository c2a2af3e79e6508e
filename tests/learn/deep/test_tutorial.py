"""The tutorial, as a reader would follow it."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import torch

from dither.learn.deep import features as scattering
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


def test_features_are_blurred_absolute_values_of_wavelets() -> None:
    """By convolutions in NumPy, with the bell in two dimensions."""
    features = ScatteringFeatures(8, 12)
    images = torch.rand(3, 8, 12)
    down, right = np.indices((16, 20)).astype(float)
    squares = np.minimum(down, 16 - down) ** 2 + np.minimum(right, 20 - right) ** 2
    bell = np.exp(-squares / (2 * 1.6**2))
    padded = np.pad(images.double().numpy(), ((0, 0), (4, 4), (4, 4)), mode="reflect")
    waves = features.waves.numpy()
    first = np.abs(np.fft.ifft2(np.fft.fft2(padded)[:, None] * waves))
    second = np.abs(np.fft.ifft2(np.fft.fft2(first[:, :8])[:, :, None] * waves[8:]))
    paths = np.concatenate([padded[:, None], first, second.reshape(3, 64, 16, 20)], 1)
    smooth = np.fft.ifft2(np.fft.fft2(paths) * np.fft.fft2(bell / bell.sum())).real
    expected = smooth[:, :, 4:-4:4, 4:-4:4]
    assert np.allclose(features(images).numpy(), expected, rtol=0, atol=1e-4)


def test_features_are_the_same_in_blocks_and_say_how_many_are_done(monkeypatch) -> None:
    features = ScatteringFeatures(8, 8)
    images = torch.rand(7, 8, 8)
    whole = features(images)
    monkeypatch.setattr(scattering, "_BLOCK", 3)
    counts: list[int] = []
    assert torch.allclose(features(images, counts.append), whole, atol=1e-6)
    assert counts == [3, 6, 7]
    assert features(images[:0]).shape == (0, 81, 2, 2)
