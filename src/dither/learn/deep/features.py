"""Frozen features of images: a wavelet scattering transform, the same for every dataset.

Nothing is learnt, so nothing is spent: a linear model on these features is the baseline that
private networks on small images have to beat (Tramer and Boneh 2021). Every image is transformed by
itself. Filters are Morlet wavelets at `scales` sizes and `angles` directions, paths of up to two of
them, absolute values between, and a blur that keeps every 2**scales-th pixel (Bruna and Mallat
2013).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from dither.errors import ParameterError

_BLOCK = 512


class ScatteringFeatures(nn.Module):
    """Images (rows, height, width) to channels (rows, channels, height / 2**J, width / 2**J)."""

    def __init__(self, height: int, width: int, scales: int = 2, angles: int = 8) -> None:
        super().__init__()
        step = 2**scales
        if height % step or width % step:
            raise ParameterError(
                f"sides of images must be multiples of {step}, got {height, width}"
            )
        self.scales = scales
        self.angles = angles
        self.step = step
        shape = (height + 2 * step, width + 2 * step)
        blur = _make_gabor(shape, 0.8 * 2 ** (scales - 1), 0.0, 0.0, 1.0)
        self.register_buffer("blur", torch.fft.fft2(blur / blur.sum()))
        waves = [
            _make_wavelet(shape, scale, angle * math.pi / angles, 4 / angles)
            for scale in range(scales)
            for angle in range(angles)
        ]
        self.register_buffer("waves", torch.fft.fft2(torch.stack(waves)))

    @property
    def channels(self) -> int:
        """How many channels come out: 1, one for each wavelet, one for each growing pair."""
        pairs = self.scales * (self.scales - 1) // 2
        return 1 + self.scales * self.angles + pairs * self.angles**2

    def forward(self, images: Tensor) -> Tensor:
        """Features of images, some at a time."""
        blocks = [self._transform(block) for block in images.split(_BLOCK)]
        return torch.cat(blocks) if blocks else images.new_zeros(0, self.channels, 0, 0)

    def _transform(self, images: Tensor) -> Tensor:
        border = (self.step,) * 4
        padded = functional.pad(images[:, None], border, mode="reflect")
        spectrum = torch.fft.fft2(padded)
        first = torch.fft.ifft2(spectrum * self.waves).abs()
        paths = [padded, first]
        of_first = torch.fft.fft2(first)
        for scale in range(self.scales - 1):
            inner = of_first[:, scale * self.angles : (scale + 1) * self.angles, None]
            outer = self.waves[(scale + 1) * self.angles :]
            paths.append(torch.fft.ifft2(inner * outer).abs().flatten(1, 2))
        smooth = torch.fft.ifft2(torch.fft.fft2(torch.cat(paths, 1)) * self.blur).real
        return smooth[:, :, :: self.step, :: self.step][:, :, 1:-1, 1:-1].contiguous()


def _make_gabor(
    shape: tuple[int, int], sigma: float, angle: float, frequency: float, slant: float
) -> Tensor:
    """A Gaussian bell times a wave, wrapped around the edges."""
    cosine, sine = math.cos(angle), math.sin(angle)
    total = torch.zeros(shape, dtype=torch.complex64)
    for down in (-2, -1, 0, 1, 2):
        for right in (-2, -1, 0, 1, 2):
            rows = torch.arange(shape[0]).double()[:, None] + down * shape[0]
            columns = torch.arange(shape[1]).double()[None] + right * shape[1]
            along = cosine * rows + sine * columns
            across = cosine * columns - sine * rows
            bell = torch.exp(-(along**2 + slant**2 * across**2) / (2 * sigma**2))
            wave = torch.complex(torch.cos(frequency * along), torch.sin(frequency * along))
            total += (bell * wave).to(torch.complex64)
    return total / (2 * math.pi * sigma**2 / slant)


def _make_wavelet(shape: tuple[int, int], scale: int, angle: float, slant: float) -> Tensor:
    """A Morlet wavelet: its sum is zero."""
    sigma = 0.8 * 2**scale
    wave = _make_gabor(shape, sigma, angle, 3 / 4 * math.pi / 2**scale, slant)
    bell = _make_gabor(shape, sigma, angle, 0.0, slant)
    return wave - wave.sum() / bell.sum() * bell
