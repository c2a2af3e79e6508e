"""Noise of training steps drawn on the model's device, one step ahead.

Guarantee: every number has the law of the exact rounded Gaussian, from ChaCha20 under a key that
the operating system drew for this object; no block of the cipher is used twice: its counter is
(draw, attempt, position), and every draw has a number of its own, whether it is read or thrown
away. Proof: docs/proofs/device-noise.md.
"""

from __future__ import annotations

import os
from fractions import Fraction
from functools import lru_cache
from importlib.util import find_spec
from threading import Lock
from typing import Any, NamedTuple, NoReturn

import numpy as np
import torch
from torch import Tensor

from dither.errors import ParameterError
from dither.learn.deep.device_law import (
    FLAG,
    Arrays,
    DeviceLaw,
    draw_twin,
    plan_device_law,
    settle,
)
from dither.privacy.noise import SystemSource, Words

_HALF_FLAG = FLAG // 2
_TWIN_CHUNK = 3 << 18
_DRAWS = 1 << 62
MOST_NUMBERS = 1 << 33
"""The cipher counts 2**32 blocks of three numbers."""
_TRIED = 2000
_TRIED_SIGMA = 1 << 20


class _Ready(NamedTuple):
    """Noise on its way: of which sigma, under which number, and how many positions are flagged."""

    sigma: int
    draw: int
    values: Tensor
    flagged: Tensor
    event: Any


class DeviceNoiseDrawer:
    """Draws `count` rounded Gaussian integers for each step on a device, as `NoiseDrawer` does on
    the host."""

    def __init__(self, count: int, device: torch.device, *, ahead: bool = True) -> None:
        if count > MOST_NUMBERS:
            raise ParameterError(f"a device draws noise for at most {MOST_NUMBERS:,} numbers")
        self._count = count
        self._device = device
        self._ahead = ahead
        self._has_kernels = has_kernels(device)
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self._tables: dict[int, tuple[Tensor, Tensor]] = {}
        self._taking = Lock()
        self._rekey()
        if self._has_kernels:
            self._has_kernels = self._try_kernels()

    def _try_kernels(self) -> bool:
        """Whether the kernel gives the twin's numbers here; they are used for nothing else."""
        law = plan_device_law(Fraction(_TRIED_SIGMA))
        draw = self._draws
        self._draws += 1
        positions = torch.arange(min(self._count, _TRIED), device=self._device)
        expected = draw_twin(law, self._key, draw, positions, torch_arrays(law, self._device))[0]
        try:
            drawn = self._fill_on_stream(law, draw)[0]
            return bool(torch.equal(drawn[: len(positions)], expected))
        except Exception:  # a device or compiler that the kernel is not for: the twin runs there
            return False

    def _rekey(self) -> None:
        """A key of this object in this process, and no noise that was drawn under another one."""
        self._source: Words = SystemSource()
        self._key = [int(word) for word in self._source.words(4).view(np.uint32)]
        self._draws = 0
        self._process = os.getpid()
        self._next: _Ready | None = None
        self._values: Tensor | None = None
        self._device_key: Tensor | None = None

    def draw(self, sigma: int) -> Tensor:
        """Noise for one step; it is valid until `begin` or `draw` is called again."""
        with self._taking:
            if self._process != os.getpid():
                self._rekey()
            ready = self._next
            self._next = None
            if ready is None or ready.sigma != sigma:
                ready = self._fill(sigma)
            return self._finish(ready)

    def begin(self, sigma: int) -> None:
        """Begin to draw the noise of the next step, after all that was given to the device."""
        with self._taking:
            if self._ahead and self._next is None and self._process == os.getpid():
                self._next = self._fill(sigma)

    def _fill(self, sigma: int) -> _Ready:
        """Begin one draw, under a number that no other draw of this key has."""
        draw = self._draws
        self._draws += 1
        assert draw < _DRAWS
        law = plan_device_law(Fraction(sigma))
        if self._stream is None:
            values = self._fill_by_twin(law, draw)
            return _Ready(sigma, draw, values, (values < _HALF_FLAG).sum(), None)
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            values, flagged = self._fill_on_stream(law, draw)
            counted = torch.empty(1, dtype=torch.int32, pin_memory=True)
            counted.copy_(flagged, non_blocking=True)
            event = torch.cuda.Event()
            event.record(self._stream)
        return _Ready(sigma, draw, values, counted, event)

    def _fill_on_stream(self, law: DeviceLaw, draw: int) -> tuple[Tensor, Tensor]:
        if not self._has_kernels:
            values = self._fill_by_twin(law, draw)
            return values, (values < _HALF_FLAG).sum().to(torch.int32).reshape(1)
        from dither.learn.deep.triton_noise import launch_draw

        if self._values is None:
            self._values = torch.empty(self._count, dtype=torch.int64, device=self._device)
            key = np.array(self._key, np.uint32).view(np.int32)
            self._device_key = torch.from_numpy(key).to(self._device)
        thresholds, numbers = self._load_tables(law)
        flagged = torch.zeros(1, dtype=torch.int32, device=self._device)
        assert self._device_key is not None
        launch_draw(
            self._values,
            flagged,
            self._device_key,
            thresholds,
            numbers,
            draw,
            fine=law.fine,
            cells=law.cells,
            depth=law.depth,
            degree=len(law.coefficients) - 1,
        )
        return self._values, flagged

    def _load_tables(self, law: DeviceLaw) -> tuple[Tensor, Tensor]:
        """Thresholds and coefficients of a law on the device, kept for one law at a time."""
        name = int(law.sigma)
        if name not in self._tables:
            numbers = torch.tensor([law.rate, *law.coefficients], dtype=torch.float64)
            thresholds = torch.from_numpy(law.thresholds)
            self._tables = {name: (thresholds.to(self._device), numbers.to(self._device))}
        return self._tables[name]

    def _fill_by_twin(self, law: DeviceLaw, draw: int) -> Tensor:
        """The same numbers by operations on whole tensors, for devices without the kernel."""
        arrays = torch_arrays(law, self._device)
        values = torch.empty(self._count, dtype=torch.int64, device=self._device)
        for start in range(0, self._count, _TWIN_CHUNK):
            end = min(start + _TWIN_CHUNK, self._count)
            positions = torch.arange(start, end, device=self._device)
            values[start:end] = draw_twin(law, self._key, draw, positions, arrays)[0]
        return values

    def _finish(self, ready: _Ready) -> Tensor:
        """Settle flagged positions on the host, exactly."""
        if ready.event is not None:
            ready.event.synchronize()
            torch.cuda.current_stream(self._device).wait_event(ready.event)
        if int(ready.flagged) == 0:
            return ready.values
        law = plan_device_law(Fraction(ready.sigma))
        for place in (ready.values < _HALF_FLAG).nonzero().flatten().tolist():
            attempt = int(ready.values[place]) - FLAG
            number = settle(law, self._key, ready.draw, place, attempt, self._source)
            ready.values[place] = number
        return ready.values

    def close(self) -> None:
        """Forget what was drawn ahead, and the key."""
        self._rekey()
        self._tables.clear()

    def _never(self, *_: Any) -> NoReturn:
        raise TypeError("noise drawn ahead cannot be copied or pickled: it would be used twice")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _never


def torch_arrays(law: DeviceLaw, device: torch.device) -> Arrays:
    """The operations of PyTorch on a device."""
    real = torch.from_numpy(law.thresholds[: law.cells]).to(device)
    return Arrays(
        torch.where,
        lambda words: torch.searchsorted(real, words, right=True),
        lambda values: values.to(torch.float64),
    )


def has_kernels(device: torch.device) -> bool:
    """Whether the kernels run there."""
    return device.type == "cuda" and _has_compiler()


@lru_cache(maxsize=1)
def _has_compiler() -> bool:
    return find_spec("triton") is not None


def add_noise(sums: list[Tensor], noise: Tensor, exponent: int, scale: float) -> list[Tensor]:
    """Sums rounded to steps of 2**exponent, plus noise in steps, times `scale`."""
    flat = torch.cat([total.reshape(-1) for total in sums])
    if has_kernels(flat.device) and flat.dtype == torch.float32:
        from dither.learn.deep.triton_noise import launch_add

        means = torch.empty_like(flat)
        launch_add(flat, noise, means, _load_scales(exponent, scale, flat.device))
    else:
        steps = flat.mul_(2.0**-exponent).round_().to(torch.int64)
        means = steps.add_(noise).to(flat.dtype).mul_(scale)
    pieces = means.split([total.numel() for total in sums])
    return [
        piece.view(total.shape).to(total.dtype) for piece, total in zip(pieces, sums, strict=True)
    ]


_scales: dict[tuple[int, float, torch.device], Tensor] = {}


def _load_scales(exponent: int, scale: float, device: torch.device) -> Tensor:
    """Public factors on the device, kept so that a step copies nothing."""
    name = (exponent, scale, device)
    if name not in _scales:
        if len(_scales) > 256:
            _scales.clear()
        _scales[name] = torch.tensor([2.0**-exponent, scale], dtype=torch.float64, device=device)
    return _scales[name]
