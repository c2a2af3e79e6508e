"""The systems of the book's experiments: geometric, random, spiky, and location privacy on
generated points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.audit.leakage.channel import Channel
from dither.privacy.noise import SystemSource, discrete_laplace, uniform_below

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def uniforms(size: int | tuple[int, ...]) -> Floats:
    """Uniform floats in (0, 1)."""
    count = int(np.prod(size))
    words = SystemSource().words(count) >> np.uint64(11)
    return np.asarray(((words.astype(np.float64) + 0.5) * 2.0**-53).reshape(size))


@dataclass(frozen=True)
class Geometric:
    """Two-sided geometric noise of rate nu around s |O| / |S|, clipped to the outputs (the ends
    absorb the tails)."""

    rate: float
    secrets: int
    outputs: int

    @property
    def spacing(self) -> float:
        return self.outputs / self.secrets

    @property
    def bayes_risk(self) -> float:
        """Compute the exact risk: in closed form for an even spacing, else by summing over
        outputs."""
        if self.spacing >= 2 and self.spacing % 2 == 0:
            return (1 - 1 / self.secrets) * math.exp(-self.rate * self.spacing / 2)
        o = np.arange(self.outputs)
        near = np.clip(np.floor(o / self.spacing + 0.5), 0, self.secrets - 1).astype(np.int64)
        best = np.zeros(self.outputs)
        for step in (-1, 0, 1):
            best = np.maximum(best, self.chance(np.clip(near + step, 0, self.secrets - 1), o))
        return float(1 - best.sum() / self.secrets)

    def chance(self, secret: Any, output: Any) -> Floats:
        """Compute C[secret, output], the probability of an output."""
        grow = math.exp(self.rate)
        distance = np.abs(np.floor(np.asarray(secret) * self.spacing) - np.asarray(output))
        end = (np.asarray(output) == 0) | (np.asarray(output) == self.outputs - 1)
        return np.asarray(
            np.exp(-self.rate * distance)
            * np.where(end, grow / (grow + 1), (grow - 1) / (grow + 1))
        )

    def pairs(self, count: int) -> tuple[Integers, Integers]:
        """Secrets and outputs."""
        secret = uniform_below(self.secrets, count)
        noise = discrete_laplace(1 / self.rate, count)
        centre = np.floor(secret * self.spacing).astype(np.int64)
        return secret, np.clip(centre + noise, 0, self.outputs - 1)

    def risk(self, guesses: Integers) -> float:
        """Exact error of a classifier given by its guess for every output."""
        return float(1 - self.chance(guesses, np.arange(self.outputs)).sum() / self.secrets)


@dataclass(frozen=True)
class Matrix:
    """Any small system, by its matrix, with a uniform prior."""

    matrix: Floats

    @cached_property
    def channel(self) -> Channel:
        return Channel(self.matrix)

    @property
    def secrets(self) -> int:
        return len(self.matrix)

    @property
    def outputs(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def bayes_risk(self) -> float:
        return self.channel.bayes_risk

    def pairs(self, count: int) -> tuple[Integers, Integers]:
        """Draw `count` secrets and outputs."""
        secret = uniform_below(self.secrets, count)
        u = uniforms(count)
        cumulative = np.cumsum(self.matrix, axis=1)
        output = np.empty(count, np.int64)
        for s in range(self.secrets):
            has_secret = secret == s
            output[has_secret] = np.minimum(
                np.searchsorted(cumulative[s], u[has_secret]), self.outputs - 1
            )
        return secret, output

    def risk(self, guesses: Integers) -> float:
        """Exact error of a classifier."""
        return self.channel.risk(guesses)


def random_system(secrets: int = 100, outputs: int = 100) -> Matrix:
    """Entries uniform in (0, 1), rows normalised."""
    matrix = uniforms((secrets, outputs))
    return Matrix(matrix / matrix.sum(axis=1, keepdims=True))


def spiky(outputs: int = 10_000) -> Matrix:
    """Two secrets; adjacent outputs always come from the opposite one (a workable definition: the
    book has none)."""
    o = np.arange(outputs)
    return Matrix(np.stack([(o % 2 == s) * 2.0 / outputs for s in (0, 1)]))


@dataclass(frozen=True)
class Plane:
    """Location privacy: secrets are 20 x 20 cells of 150 m, outputs 340 x 340 cells of 15 m; rate
    ln(nu)/100 per m."""

    nu: float
    side: int = 20
    cell: float = 150.0
    fine: float = 15.0
    margin: float = 1050.0

    @property
    def rate(self) -> float:
        return math.log(self.nu) / 100

    @cached_property
    def secret_centres(self) -> Floats:
        """Centres of the secrets."""
        axis = (np.arange(self.side) + 0.5) * self.cell
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    @cached_property
    def grid(self) -> Floats:
        """Centres of the outputs."""
        many = round((self.side * self.cell + 2 * self.margin) / self.fine)
        axis = (np.arange(many) + 0.5) * self.fine - self.margin
        return np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)

    def row(self, secret: int) -> Floats:
        """P(o | secret) of the planar geometric, row-normalised."""
        distance = np.hypot(*(self.grid - self.secret_centres[secret]).T)
        weight = np.exp(-self.rate * distance)
        return np.asarray(weight / weight.sum())

    @cached_property
    def bayes_risk(self) -> float:
        """Of the discrete planar geometric with a uniform prior."""
        return self.risk_of_geometric(
            np.full(len(self.secret_centres), 1 / len(self.secret_centres))
        )

    @cached_property
    def hot_spots(self) -> Floats:
        """Make a prior that stands in for check-ins, which are not ours to ship.

        It has three hot spots over a thin floor.
        """
        side = self.side * self.cell
        weight = np.full(len(self.secret_centres), 0.02)
        for x, y, height, width in (
            (0.3, 0.35, 1.0, 0.12),
            (0.7, 0.6, 0.6, 0.08),
            (0.45, 0.8, 0.4, 0.05),
        ):
            away = np.hypot(*(self.secret_centres / side - (x, y)).T)
            weight += height * np.exp(-((away / width) ** 2) / 2)
        return np.asarray(weight / weight.sum())

    def risk_of_geometric(self, prior: Floats) -> float:
        """R* of the discrete planar geometric."""
        best = np.zeros(len(self.grid))
        for secret, share in enumerate(prior):
            np.maximum(best, share * self.row(secret), out=best)
        return float(1 - best.sum())

    def risk_of_laplace(self, prior: Floats, fine: float = 10.0, margin: float = 3_000.0) -> float:
        """Compute R* of the planar Laplace by the midpoint rule.

        Its relative error is about (rate * fine)^2 / 24.
        """
        many = round((self.side * self.cell + 2 * margin) / fine)
        axis = (np.arange(many) + 0.5) * fine - margin
        total = 0.0
        for x in axis:
            away = np.hypot(
                x - self.secret_centres[:, :1], axis[None, :] - self.secret_centres[:, 1:]
            )
            total += float((prior[:, None] * np.exp(-self.rate * away)).max(axis=0).sum())
        return 1 - total * fine * fine * self.rate**2 / (2 * math.pi)

    def _draw_secrets(self, count: int, prior: Floats | None) -> Integers:
        if prior is None:
            return np.asarray(uniform_below(len(self.secret_centres), count))
        cells = np.searchsorted(np.cumsum(prior), uniforms(count))
        return np.minimum(cells, len(prior) - 1).astype(np.int64)

    def geometric_pairs(self, count: int, prior: Floats | None = None) -> tuple[Integers, Floats]:
        """Draw secrets and grid points of the planar geometric."""
        secret = self._draw_secrets(count, prior)
        u = uniforms(count)
        output = np.empty((count, 2))
        for s in np.unique(secret):
            rows = np.flatnonzero(secret == s)
            picked = np.searchsorted(np.cumsum(self.row(int(s))), u[rows])
            output[rows] = self.grid[np.minimum(picked, len(self.grid) - 1)]
        return secret, output

    def laplace_pairs(self, count: int, prior: Floats | None = None) -> tuple[Integers, Floats]:
        """Draw secrets and points of the planar Laplace: a uniform angle, a radius of Gamma(2,
        1/rate)."""
        secret = self._draw_secrets(count, prior)
        angle = 2 * math.pi * uniforms(count)
        radius = -np.log(uniforms(count) * uniforms(count)) / self.rate
        return secret, self.secret_centres[secret] + np.stack(
            [radius * np.cos(angle), radius * np.sin(angle)], axis=1
        )

    def channel_pairs(self, matrix: Floats, count: int, prior: Floats) -> tuple[Integers, Floats]:
        """Draw secrets, and the centres of cells that a channel on the secrets' own cells gives."""
        secret = self._draw_secrets(count, prior)
        u = uniforms(count)
        picked = np.empty(count, np.int64)
        for s in np.unique(secret):
            rows = np.flatnonzero(secret == s)
            picked[rows] = np.searchsorted(np.cumsum(matrix[s]), u[rows])
        return secret, self.secret_centres[np.minimum(picked, len(self.secret_centres) - 1)]

    def blahut_arimoto(self, prior: Floats, rounds: int = 200) -> Floats:
        """Find the channel on the secrets' own cells that leaks least for its mean distance.

        The leak is Shannon information. P(o) = sum pi C and C[s, o] proportional to P(o) e^(-rate
        d), in turn; both steps never increase the leakage.
        """
        distance = np.hypot(
            *(self.secret_centres[:, None] - self.secret_centres[None]).transpose(2, 0, 1)
        )
        weight = np.exp(-self.rate * distance)
        out = np.full(len(prior), 1 / len(prior))
        matrix = weight
        for _ in range(rounds):
            matrix = out[None, :] * weight
            matrix /= matrix.sum(axis=1, keepdims=True)
            out = prior @ matrix
        return np.asarray(matrix)
