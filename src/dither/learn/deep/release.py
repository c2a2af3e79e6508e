"""The one place where sums of clipped gradients become public: rounded, with noise, divided by the
declared batch.

Guarantee: a unit moves the rounded sum by at most `GridPlan.sensitivity` steps in L2, so the
release is a rounded Gaussian mechanism with at most the plan's noise multiplier. Adaptive clipping
releases the balance of short gradients with it, as one more number of the same mechanism.
Proof: docs/proofs/deep-learning.md#grid, #adaptive.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

import torch
from torch import Tensor

from dither.errors import ParameterError
from dither.learn.deep.correlated import CorrelatedPlan
from dither.learn.deep.device_noise import DeviceNoiseDrawer, add_noise
from dither.learn.deep.factors import StepFactor
from dither.learn.deep.noise import NoiseDrawer
from dither.learn.deep.plan import GridPlan, SamplePlan, plan_grid
from dither.learn.deep.ranks import Ranks
from dither.privacy.noise import SystemSource
from dither.privacy.noise.rounded import LARGEST_ROUNDED, rounded_gaussian

NoiseKind = Literal["integer", "float", "tree", "banded"]
Clipping = Literal["flat", "per_layer", "adaptive", "ghost"]
_CLIP_STEPS = 16
"""Adapted clip norms are powers of 2**(1/16), so that few scales of noise are ever needed."""
_ADAPT_RATE = 0.2
_TARGET_SHARE = 0.5
_LARGEST_LOG = 19.0


class SumRelease:
    """Makes noisy mean gradients of secret sums, at a public clip norm that may adapt."""

    def __init__(
        self,
        plan: SamplePlan,
        numbers: int,
        moved: Fraction,
        clip: Fraction,
        *,
        noise: NoiseKind,
        is_adaptive: bool,
        device: torch.device,
        ranks: Ranks | None = None,
        ahead: bool = True,
    ) -> None:
        self._plan = plan
        self._numbers = numbers
        self._moved = moved
        self._noise = noise
        self._log_clip = math.log2(clip)
        self.is_adaptive = is_adaptive
        self.clip = clip
        self._grid: tuple[Fraction, GridPlan] | None = None
        self.gradient_multiplier, self.balance_sigma = split_multiplier(plan, is_adaptive)
        self._ranks = ranks
        self._draws = noise != "float" and (ranks is None or ranks.is_first)
        is_ahead = ahead and self._draws
        self._factor: StepFactor | None = None
        if isinstance(plan, CorrelatedPlan):
            self._factor = plan.make_factor()
            self.gradient_multiplier = plan.row_multiplier
            check_scale(self.grid.sigma)
        self._drawer: NoiseDrawer | DeviceNoiseDrawer
        if device.type == "cuda":
            self._drawer = DeviceNoiseDrawer(numbers, device, ahead=is_ahead)
        else:
            self._drawer = NoiseDrawer(numbers, ahead=is_ahead)

    @property
    def grid(self) -> GridPlan:
        """The grid at the clip norm of the next step."""
        if self._grid is None or self._grid[0] != self.clip:
            grid = plan_grid(self.clip, self._moved, self._numbers, self.gradient_multiplier)
            self._grid = (self.clip, grid)
        return self._grid[1]

    def release(self, sums: list[Tensor], balance: Tensor, *, is_last: bool) -> list[Tensor]:
        """Noisy sums over the declared batch, of the shapes of the sums; adapts the clip norm."""
        if self._noise == "float":
            means = self._release_floats(sums)
        else:
            means = self._release_integers(sums)
        if self.is_adaptive:
            self._adapt(self._release_balance(balance))
        if not is_last and self._draws:
            self._drawer.begin(self.grid.sigma)
        return means

    def _release_integers(self, sums: list[Tensor]) -> list[Tensor]:
        grid = self.grid
        scale = 2.0**grid.exponent / self._plan.batch
        if self._ranks is not None:
            return self._release_together(self._ranks, sums, grid, scale)
        drawn = self._drawer.draw(grid.sigma)
        if self._factor is not None:
            return release_row(self._factor, sums, torch.as_tensor(drawn), grid.exponent, scale)
        if isinstance(drawn, Tensor):
            return add_noise(sums, drawn, grid.exponent, scale)
        noise = torch.from_numpy(drawn)
        means = []
        start = 0
        for total in sums:
            steps = total.mul_(2.0**-grid.exponent).round_().to(torch.int64)
            added = noise[start : start + total.numel()].view_as(total)
            start += total.numel()
            means.append(steps.add_(added).to(total.dtype).mul_(scale))
        return means

    def _release_together(
        self, ranks: Ranks, sums: list[Tensor], grid: GridPlan, scale: float
    ) -> list[Tensor]:
        """The same over several ranks: integer sums are added up, and the first adds noise."""
        total = ranks.add_up(round_sums(sums, grid.exponent))
        means = torch.zeros(total.shape, dtype=torch.float64, device=total.device)
        if ranks.is_first:
            drawn = torch.as_tensor(self._drawer.draw(grid.sigma))
            if self._factor is not None:
                means = self._factor.undo(self._factor.add(total).add_(drawn).double()) * scale
            else:
                means = total.add_(drawn).double() * scale
        return split_like(ranks.share(means), sums)

    def _release_balance(self, balance: Tensor) -> int:
        """The balance with noise, the same on all ranks."""
        if self._ranks is None:
            return int(balance) + int(rounded_gaussian(self.balance_sigma))
        total = self._ranks.add_up(balance.reshape(1))
        noisy = int(total) + int(rounded_gaussian(self.balance_sigma))
        return int(self._ranks.share(torch.tensor([noisy])))

    def _release_floats(self, sums: list[Tensor]) -> list[Tensor]:
        """Continuous noise as floats, by torch's generator with a fresh seed: not defensible, and
        the certificate says so."""
        sigma = float(self.gradient_multiplier * self.clip * self._moved)
        means = []
        for total in sums:
            seed = int(SystemSource().words(1, 63)[0])
            generator = torch.Generator(total.device).manual_seed(seed)
            added = torch.randn(
                total.shape, generator=generator, dtype=total.dtype, device=total.device
            )
            means.append(total.add_(added, alpha=sigma).div_(self._plan.batch))
        return means

    def _adapt(self, noisy_balance: int) -> None:
        """Move the clip norm towards the median of norms, by the noisy balance alone."""
        share = (noisy_balance / self._plan.batch + 1) / 2
        moved = self._log_clip - _ADAPT_RATE * (share - _TARGET_SHARE) / math.log(2)
        self._log_clip = min(max(moved, -_LARGEST_LOG), _LARGEST_LOG)
        self.clip = Fraction(2.0 ** (round(self._log_clip * _CLIP_STEPS) / _CLIP_STEPS))

    def close(self) -> None:
        """End the thread that draws ahead."""
        self._drawer.close()


def release_row(
    factor: StepFactor, sums: list[Tensor], noise: Tensor, exponent: int, scale: float
) -> list[Tensor]:
    """Estimates of the rounded sums of a step, from a noisy row of exact ones. What follows the
    addition of noise is post-processing."""
    noisy = factor.add(round_sums(sums, exponent)).add_(noise)
    return split_like(factor.undo(noisy.double()) * scale, sums)


def round_sums(sums: list[Tensor], exponent: int) -> Tensor:
    """All sums in steps of 2**exponent, one after the other."""
    flat = torch.cat([total.reshape(-1) for total in sums])
    return (flat.double() * 2.0**-exponent).round().to(torch.int64)


def split_like(means: Tensor, sums: list[Tensor]) -> list[Tensor]:
    """Means in the shapes and types of the sums."""
    pieces = means.split([total.numel() for total in sums])
    return [
        piece.view(total.shape).to(total.dtype) for piece, total in zip(pieces, sums, strict=True)
    ]


def check_scale(sigma: int) -> None:
    """Refuse noise that is too wide for its sampler."""
    if sigma > LARGEST_ROUNDED:
        raise ParameterError(
            "the noise on rows is too wide for its sampler: choose a larger epsilon, fewer epochs "
            "or fewer bands"
        )


def split_multiplier(plan: SamplePlan, is_adaptive: bool) -> tuple[Fraction, Fraction]:
    """The noise multiplier of gradients, and the noise on the balance.

    Both numbers together cost what the plan's multiplier z does: 1/z^2 = 1/z_g^2 + 1/s^2.
    """
    whole = plan.noise_multiplier
    if not is_adaptive:
        return whole, Fraction(0)
    sigma = max(Fraction(plan.batch, 10), 5 * whole)
    squared = 1 / (1 / whole**2 - 1 / sigma**2)
    return Fraction(math.isqrt(math.ceil(squared * 2**80)) + 1, 2**40), sigma
