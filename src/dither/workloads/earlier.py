"""A workload answered from earlier releases: the span test, least squares and its variance.

What earlier releases measured over the same rows is a stack of integer matrices times the cells of
all columns that they name. A query is answered where it lies in the span of their rows; its least
squares estimate has a variance that is known from the noises' laws. Nothing is read, and nothing
new is lost. Proof: docs/proofs/workloads.md#earlier-releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from dither.answer.earlier_releases import list_measured_cells
from dither.laws import (
    AdditiveErrorLaw,
    GaussianErrorLaw,
    LaplaceErrorLaw,
    RoundedGaussianErrorLaw,
    find_error_law,
)
from dither.plan.algebra import Linear
from dither.plan.apply_operator import multiply
from dither.plan.keys import list_keys, open_keys_in
from dither.plan.operators import Identity
from dither.privacy.kernel.kernel import Priced, Release
from dither.privacy.kernel.request import Request
from dither.privacy.losses import compose
from dither.workloads.bind import BoundWorkload
from dither.workloads.choose_plan import WorkloadOffer
from dither.workloads.kronecker import FittedProduct
from dither.workloads.language import Product
from dither.workloads.lines import Floats, JointNoise
from dither.workloads.measurement import MeasuredStep

MOST_CELLS = 1024
"""Cells of all columns together over which spans are tested."""
_MOST_ENTRIES = 1 << 24
_LEAST_VARIANCE = 0.5
_IS_ZERO = 1e-11
"""Of the largest eigenvalue: those below it are rounding errors of zeros."""
_IS_POSITIVE = 1e-7
_OUTSIDE = 1e-6


@dataclass(frozen=True)
class EarlierMeasurement:
    """One step of an earlier release: an operator over the cells of some columns, as released."""

    release: Release
    position: int
    step: MeasuredStep
    noise: JointNoise

    @property
    def variance(self) -> float:
        """The variance of every released number."""
        law = find_error_law(self.release.priced.steps[self.position].mechanism)
        assert isinstance(law, AdditiveErrorLaw)
        return float(law.variance)


def list_measurements(
    bound: BoundWorkload, releases: Sequence[Release]
) -> list[EarlierMeasurement]:
    """The steps of releases that measured the count or sum of a workload over the same rows."""
    measurements = []
    for release in releases:
        domains = release.version.analyses.analyse_rows(bound.plan).columns
        for position, cells in list_measured_cells(release):
            is_same = cells.plan.hash == bound.plan.hash and cells.columns == bound.query.columns
            noise = _find_noise(release, position)
            if not is_same or noise is None or open_keys_in(cells.keys, domains):
                continue
            query = release.priced.steps[position].step.query
            size = prod(list_keys(name, domains[name]).codes for name in cells.keys)
            operator = query.operator if isinstance(query, Linear) else Identity(size)
            step = MeasuredStep(cells.keys, operator, 1.0)
            if size * step.rows <= _MOST_ENTRIES:
                measurements.append(EarlierMeasurement(release, position, step, noise))
    return measurements


def _find_noise(release: Release, position: int) -> JointNoise | None:
    """The law of a step's noise; None where no exact variance is known for what was released."""
    calibrated = release.priced.steps[position]
    law = find_error_law(calibrated.mechanism)
    values = release.values[position]
    is_cut_off = any(abs(int(value)) >= calibrated.width for value in values)
    if is_cut_off or not isinstance(law, AdditiveErrorLaw) or law.variance < _LEAST_VARIANCE:
        return None
    if isinstance(law, LaplaceErrorLaw):
        return "laplace"
    if isinstance(law, RoundedGaussianErrorLaw):
        return "gaussian"
    return "discrete gaussian" if isinstance(law, GaussianErrorLaw) else None


@dataclass(frozen=True)
class EarlierPlan:
    """Steps that were measured before, over the cells of all their columns together."""

    columns: tuple[str, ...]
    sizes: tuple[int, ...]
    measurements: tuple[EarlierMeasurement, ...]
    reasons: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """What everyone reads in previews, results and certificates."""
        return "answered from earlier releases"

    @property
    def steps(self) -> tuple[MeasuredStep, ...]:
        """What was measured."""
        return tuple(measurement.step for measurement in self.measurements)

    @cached_property
    def matrices(self) -> list[Floats]:
        """The operator of every step over the cells of all columns."""
        cells = np.indices(self.sizes).reshape(len(self.sizes), prod(self.sizes))
        matrices = []
        for step in self.steps:
            axes = [self.columns.index(name) for name in step.columns]
            shape = [self.sizes[axis] for axis in axes]
            size = prod(shape)
            columns = multiply(step.operator, np.eye(size, dtype=np.int64))
            no_axis = np.zeros(cells.shape[1], np.int64)
            place = np.ravel_multi_index(tuple(cells[axes]), shape) if axes else no_axis
            matrices.append(np.ascontiguousarray(columns.T.astype(float)[:, place]))
        return matrices

    @cached_property
    def _spans(self) -> tuple[Floats, Floats] | None:
        """Orthonormal bases of the span of all measured rows, and of what they leave open.

        None where an eigenvalue is neither clearly positive nor clearly zero.
        """
        size = prod(self.sizes)
        gram = np.zeros((size, size))
        for matrix in self.matrices:
            norm = np.sqrt((matrix**2).sum(axis=1).max())
            gram += (matrix / norm).T @ (matrix / norm)
        values, vectors = np.linalg.eigh(gram)
        shares = values / values[-1]
        if ((shares > _IS_ZERO) & (shares < _IS_POSITIVE)).any():
            return None
        is_open = shares <= _IS_ZERO
        return vectors[:, ~is_open], vectors[:, is_open]

    def spans(self, products: Sequence[Product]) -> bool:
        """Whether every query of the products is a combination of what was measured.

        A query that is not has another answer on cells that differ by something never measured.
        """
        if self._spans is None or not self._has_columns(products):
            return False
        _, open_directions = self._spans
        return all(
            np.abs(self._answer(direction, product)).max() <= _OUTSIDE
            for product in products
            for direction in open_directions.T
        )

    def _has_columns(self, products: Sequence[Product]) -> bool:
        return {name for product in products for name in product.columns} <= set(self.columns)

    def _answer(self, cells: Floats, product: Product) -> Floats:
        return FittedProduct(self.columns, cells.reshape(self.sizes)).answer(product)

    @cached_property
    def variances(self) -> Floats:
        """The variance of the noise of every step."""
        return np.array([measurement.variance for measurement in self.measurements])

    def _factor(self, variances: Floats) -> Floats:
        """L with L L^T the covariance of the estimated cells, inside the measured span."""
        assert self._spans is not None
        basis = self._spans[0]
        weighted = np.concatenate(
            [
                matrix / np.sqrt(variance)
                for matrix, variance in zip(self.matrices, variances, strict=True)
            ]
        )
        _, triangle = np.linalg.qr(weighted @ basis)
        return np.asarray(np.linalg.solve(triangle.T, basis.T).T)

    @cached_property
    def precision(self) -> Floats:
        """sum M^T M / variance over all steps."""
        return np.asarray(
            sum(
                matrix.T @ matrix / variance
                for matrix, variance in zip(self.matrices, self.variances, strict=True)
            )
        )

    def predict(self, product: Product, variances: Floats) -> Floats:
        """The variance of every query of a product."""
        total = np.zeros(1)
        for column in self._factor(variances).T:
            total = total + self._answer(column, product) ** 2
        return np.asarray(total)

    def find_total(self, product: Product, variances: Floats) -> float:
        """The sum of those variances."""
        return float(self.predict(product, variances).sum())

    def fit(self, values: list[Floats], variances: Floats) -> FittedProduct:
        """The least-squares cells, 0 along what was never measured."""
        factor = self._factor(variances)
        pulled = sum(
            matrix.T @ (numbers / variance)
            for matrix, numbers, variance in zip(self.matrices, values, variances, strict=True)
        )
        cells = factor @ (factor.T @ np.asarray(pulled))
        return FittedProduct(self.columns, cells.reshape(self.sizes))


def plan_from_earlier(bound: BoundWorkload, releases: Sequence[Release]) -> EarlierPlan | None:
    """The plan that answers a whole workload from earlier releases; None where they do not span it.

    Measurements that bring the fewest further cells come first, while all cells fit.
    """
    listed = list_measurements(bound, releases)
    if not listed:
        return None
    domains = releases[0].version.analyses.analyse_rows(bound.plan).columns
    names = {*bound.columns, *(name for known in listed for name in known.step.columns)}
    sizes = {name: list_keys(name, domains[name]).codes for name in names}
    columns = set(bound.columns)
    chosen: list[EarlierMeasurement] = []
    for measurement in sorted(listed, key=lambda known: _count_further(known, bound, sizes)):
        joined = columns | set(measurement.step.columns)
        if prod(sizes[name] for name in joined) <= MOST_CELLS:
            columns = joined
            chosen.append(measurement)
    order = tuple(sorted(columns))
    plan = EarlierPlan(order, tuple(sizes[name] for name in order), tuple(chosen))
    return plan if chosen and plan.spans(bound.workload.products) else None


def _count_further(known: EarlierMeasurement, bound: BoundWorkload, sizes: dict[str, int]) -> int:
    """How many times as many cells there are with the columns that a workload does not name."""
    return prod(sizes[name] for name in known.step.columns if name not in bound.columns)


@dataclass(frozen=True)
class EarlierAnswer:
    """A workload that earlier releases span: what it is fitted from, and how well."""

    offer: WorkloadOffer
    sources: tuple[Release, ...]
    release: Release
    """All used steps of all sources as one release, by the name of the first."""

    @property
    def release_ids(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(source.release_id for source in self.sources)

    def describe_derived(self, info: dict[str, Any]) -> dict[str, Any]:
        """Make the facts of an answer that was computed from all sources, from those of the first.

        Balances of the pot are left out: nothing was charged, and a source that was rebuilt from
        the ledger does not have them.
        """
        balances = ("pot_spent_after", "pot_cap")
        kept = {name: fact for name, fact in info.items() if name not in balances}
        return kept | {
            "release_id": f"derived from {', '.join(self.release_ids)}",
            "sources": list(self.release_ids),
            "charged": "0/1",
            "charges": {},
            "repeated": True,
        }


def find_earlier_answer(
    bound: BoundWorkload, releases: Sequence[Release], lower_bound: float
) -> EarlierAnswer | None:
    """The answer that earlier releases hold, where they span the workload."""
    plan = plan_from_earlier(bound, releases)
    if plan is None:
        return None
    used = {measurement.release.release_id for measurement in plan.measurements}
    sources = tuple(release for release in releases if release.release_id in used)
    reason = f"from {', '.join(source.release_id for source in sources)}, at no new loss"
    priced = _join_priced(plan, sources)
    noises = {measurement.noise for measurement in plan.measurements}
    offer = WorkloadOffer(bound, plan, join_noises(noises), priced, 1, lower_bound, (reason,))
    values = tuple(known.release.values[known.position] for known in plan.measurements)
    return EarlierAnswer(offer, sources, replace(sources[0], priced=priced, values=values))


def join_noises(noises: set[JointNoise]) -> JointNoise:
    """The one law that all the noises together have."""
    if len(noises) == 1:
        return next(iter(noises))
    return "laplace" if noises == {"laplace", "gaussian"} else "mixed"


def _join_priced(plan: EarlierPlan, sources: tuple[Release, ...]) -> Priced:
    """The used steps, with the composed loss of their whole releases."""
    steps = tuple(known.release.priced.steps[known.position] for known in plan.measurements)
    first = sources[0].priced
    request = Request(
        tuple(calibrated.step for calibrated in steps), first.request.price, first.request.pot
    )
    loss = compose(*(source.priced.loss for source in sources))
    return replace(first, request=request, steps=steps, loss=loss)
