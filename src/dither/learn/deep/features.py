"""Frozen features of images: a wavelet scattering transform, the same for every dataset.

Nothing is learnt, so nothing is spent: a linear model on these features is the baseline that
private networks on small images have to beat (Tramer and Boneh 2021). Every image is transformed by
itself. Filters are Morlet wavelets at `scales` sizes and `angles` directions, paths of up to two of
them, absolute values between, and a blur that keeps every 2**scales-th pixel (Bruna and Mallat
2013).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from dither.errors import ParameterError

_BLOCK = 8
"""Images at a time: what lies between fits into the caches of a processor."""
_CUDA_BLOCK = 512


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
        sigma = 0.8 * 2 ** (scales - 1)
        self.register_buffer("blur_rows", _make_blur(shape[0], sigma, step))
        self.register_buffer("blur_columns", _make_blur(shape[1], sigma, step))
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

    def forward(self, images: Tensor, progress: Callable[[int], None] | None = None) -> Tensor:
        """Features of images, some at a time. `progress(images_done)` is called after each block.

        There is no gradient: features are frozen.
        """
        sides = len(self.blur_rows), len(self.blur_columns)
        features = images.new_empty(len(images), self.channels, *sides)
        block = _CUDA_BLOCK if images.is_cuda else _BLOCK
        for start in range(0, len(images), block):
            with torch.no_grad():
                transformed = self._transform(images[start : start + block])
            end = start + len(transformed)
            features[start:end] = transformed
            if progress is not None:
                progress(end)
        return features

    def _transform(self, images: Tensor) -> Tensor:
        border = (self.step,) * 4
        padded = functional.pad(images[:, None], border, mode="reflect")
        first = torch.fft.ifft2(torch.fft.fft2(padded) * self.waves).abs()
        paths = [self._blur(padded), self._blur(first)]
        for scale in range(self.scales - 1):
            inner = torch.fft.fft2(first[:, scale * self.angles : (scale + 1) * self.angles])
            outer = self.waves[(scale + 1) * self.angles :]
            second = torch.fft.ifft2(inner[:, :, None] * outer).abs()
            paths.append(self._blur(second.flatten(1, 2)))
        return torch.cat(paths, 1)

    def _blur(self, channels: Tensor) -> Tensor:
        """A Gaussian blur, at every 2**scales-th pixel inside the border: a product on each side,
        since the bell is one of rows times one of columns."""
        by_columns = channels @ self.blur_columns.to(channels.dtype).mT
        return self.blur_rows.to(channels.dtype) @ by_columns


def _make_blur(length: int, sigma: float, step: int) -> Tensor:
    """The matrix that blurs a line of pixels, wrapped around its ends, and keeps every `step`-th of
    them but those of the border."""
    kept = torch.arange(step, length - step, step).double()
    distances = kept[:, None] - torch.arange(length).double()
    turns = torch.arange(-2, 3).double() * length
    bells = torch.exp(-((distances[..., None] + turns) ** 2) / (2 * sigma**2)).sum(-1)
    return (bells / bells.sum(1, keepdim=True)).float()


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
