"""Estimates that keep what is known: totals, structural zeros, nonnegative and whole numbers.

What is known must come from outside the protected table: it is listed as unprotected, with its
provenance, in the notes and the certificate of every result that it enters (a total that is read
off the table is an exact release). Least squares stays exact:

* a known marginal replaces the residuals of all its subsets, or is one projection for products;
* nonnegative least squares is a projected gradient method over all cells, in the precision of the
  measurements; with a known marginal the cells of each group are projected on its simplex;
* rounding goes down the columns one by one, and gives each total to its parts by their largest
  remainders, so that all sums stay sums.

Nonnegativity and rounding bias single cells: the result says so. Proof:
docs/proofs/workloads.md#constraints.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dither.errors import ParameterError, RefusedError
from dither.plan.algebra import Sum
from dither.plan.keys import MAX_CELLS
from dither.rules import PrivacyRule
from dither.workloads.earlier import EarlierPlan
from dither.workloads.kronecker import FittedProduct, KroneckerPlan
from dither.workloads.language import Product
from dither.workloads.lines import Floats
from dither.workloads.listed_counts import FittedRegions
from dither.workloads.progress import show_step, track
from dither.workloads.residuals import (
    Columns,
    DirectPlan,
    FittedResiduals,
    ResidualPlan,
    list_subsets,
    project_residual,
)
from dither.workloads.result import WorkloadResult

_STEPS = 500
_TOLERANCE = 1e-7


@dataclass(frozen=True)
class KnownTotals:
    """A marginal that is public: its columns, its numbers in the order of the table, and where
    they come from."""

    columns: tuple[str, ...]
    totals: tuple[float, ...]
    provenance: str

    def __post_init__(self) -> None:
        """Refuse numbers without a source."""
        if not isinstance(self.provenance, str) or len(self.provenance.split()) < 3:
            raise ParameterError(
                "known totals need a provenance of at least three words: a public source, such as "
                "'census bureau table 5'. Totals of the protected table itself are no public fact"
            )
        if not np.isfinite(np.array(self.totals, float)).all():
            raise ParameterError("known totals must be numbers")


def keep_totals(result: WorkloadResult, known: KnownTotals) -> WorkloadResult:
    """The least-squares estimate among those with the known totals; unbiased if they are right."""
    if result.biased:
        raise ParameterError("keep known totals before nonnegativity and rounding")
    if not isinstance(result.fitted, FittedResiduals):
        raise ParameterError(
            "known totals are kept in workloads of marginals: ask for marginals(...) or cube(...)"
        )
    domain = result.offer.bound
    totals = _check_totals(known, domain.sizes) / float(domain.unit)
    kept = result.fitted.domain.sort(known.columns)
    order = [known.columns.index(column) for column in kept]
    table = totals.transpose(order)
    residuals = dict(result.fitted.residuals)
    for subset in list_subsets(kept):
        dropped = tuple(axis for axis, column in enumerate(kept) if column not in subset)
        residuals[subset] = project_residual(np.asarray(table.sum(axis=dropped)))
    fitted = FittedResiduals(result.fitted.domain, residuals)
    names = " x ".join(known.columns) or "the total"
    note = f"unprotected: known totals of {names} ({known.provenance})"
    deviations = _DeviationsBesideTotals(result, frozenset(list_subsets(kept)))
    return result.derive(fitted, note, biased=False, deviations=deviations)


@dataclass(frozen=True)
class _DeviationsBesideTotals:
    """Standard deviations where some residuals are known exactly."""

    result: WorkloadResult
    known: frozenset[Columns]

    def __call__(self, product: Product) -> Floats:
        plan = self.result.offer.plan
        assert isinstance(plan, ResidualPlan | DirectPlan)
        variances = plan.find_residual_variances(self.result.offer.variances)
        kept = plan.domain.sort(product.columns)
        cells = plan.domain.count_cells(kept)
        variance = sum(
            variances[subset]
            * plan.domain.find_price(subset)
            * (plan.domain.count_cells(subset) / cells) ** 2
            for subset in list_subsets(kept)
            if subset in variances and subset not in self.known
        )
        return np.full(cells, variance**0.5 * float(self.result.offer.bound.unit))


def _check_totals(known: KnownTotals, sizes: dict[str, int]) -> Floats:
    if any(column not in sizes for column in known.columns):
        raise ParameterError(f"known totals of {', '.join(known.columns)}: name columns asked for")
    shape = [sizes[column] for column in known.columns]
    if len(known.totals) != prod(shape):
        raise ParameterError(
            f"{len(known.totals)} known totals for {prod(shape)} cells of {known.columns}"
        )
    return np.array(known.totals, float).reshape(shape)


@dataclass(frozen=True)
class StructuralZeros:
    """Cells that no row can be in: for some columns the combinations of keys, by the labels of the
    catalog, and why."""

    columns: tuple[str, ...]
    keys: tuple[tuple[object, ...], ...]
    provenance: str

    def __post_init__(self) -> None:
        """Refuse zeros without a reason."""
        if not isinstance(self.provenance, str) or len(self.provenance.split()) < 3:
            raise ParameterError(
                "structural zeros need a provenance of at least three words, such as 'by law no "
                "voter is below 18'. Cells that are empty in the protected table are no public fact"
            )

    @classmethod
    def of_hierarchy(
        cls, parent: str, child: str, parents: Mapping[Any, Any], provenance: str
    ) -> StructuralZeros:
        """A geography: every value of the child column lies in one value of the parent column.

        All other pairs hold no rows; with them left out, children add up to their parents.
        """
        wholes = dict.fromkeys(parents.values())
        pairs = [
            (whole, member) for member, own in parents.items() for whole in wholes if whole != own
        ]
        return cls((parent, child), tuple(pairs), provenance)


def make_nonnegative(
    result: WorkloadResult,
    zeros: StructuralZeros | None = None,
    known: KnownTotals | None = None,
) -> WorkloadResult:
    """Nonnegative least squares over all cells, in the precision of what was measured."""
    if isinstance(result.fitted, FittedRegions):
        raise ParameterError(
            "a list of counts with conditions has no table of cells: ask in words, e.g. "
            "identity('age', 'sex'), for nonnegative or whole numbers"
        )
    if isinstance(result.offer.bound.query.columns[0], Sum):
        raise ParameterError("nonnegative numbers are for counts: a sum may be negative")
    columns, estimate = expand_cells(result)
    allowed: NDArray[np.bool_] = np.ones(estimate.shape, bool)
    notes = ["nonnegative least squares: small counts are biased upwards"]
    if zeros is not None:
        allowed = _mark_allowed(result, columns, estimate.shape, zeros)
        notes.append(
            f"unprotected: {len(zeros.keys)} structural zeros of {' x '.join(zeros.columns)} "
            f"({zeros.provenance})"
        )
    totals = None
    if known is not None:
        totals = _check_totals(known, result.offer.bound.sizes) / float(result.offer.bound.unit)
        notes.append(
            f"unprotected: known totals of {' x '.join(known.columns)} ({known.provenance})"
        )
    groups = () if known is None else tuple(columns.index(column) for column in known.columns)
    with show_step("fitting nonnegative cells", result.progress):
        cells = _descend(result, columns, estimate, allowed, totals, groups)
    fitted = FittedProduct(columns, cells)
    return result.derive(fitted, "; ".join(notes), biased=True)


def expand_cells(result: WorkloadResult) -> tuple[Columns, Floats]:
    """The estimate as a table of all cells; refused where there are too many.

    Marginals leave open what they do not ask for: there the estimate has no interaction.
    """
    fitted = result.fitted
    if isinstance(fitted, FittedProduct):
        return fitted.columns, fitted.cells
    assert isinstance(fitted, FittedResiduals)
    domain = fitted.domain
    count = domain.count_cells(domain.columns)
    if count > MAX_CELLS:
        raise RefusedError(
            f"nonnegative and whole numbers need a table of all {count:,} cells: at most "
            f"{MAX_CELLS:,}. Ask for fewer columns, or take the tables as they are",
            rule=PrivacyRule.BOUNDED_WORK,
        )
    cells = np.zeros([domain.sizes[column] for column in domain.columns])
    for subset, residual in fitted.residuals.items():
        shape = [domain.sizes[name] if name in subset else 1 for name in domain.columns]
        cells += residual.reshape(shape) / (count / domain.count_cells(subset))
    return domain.columns, cells


def _mark_allowed(
    result: WorkloadResult, columns: Columns, shape: tuple[int, ...], zeros: StructuralZeros
) -> NDArray[np.bool_]:
    """Which cells may hold rows."""
    bound = result.offer.bound
    allowed = np.ones(shape, bool)
    labels = {name: bound.list_labels(name) for name in zeros.columns if name in bound.columns}
    for key in zeros.keys:
        if len(key) != len(zeros.columns) or len(labels) != len(zeros.columns):
            raise ParameterError(f"structural zeros of {zeros.columns}: one label for each column")
        index: list[int | slice] = [slice(None)] * len(columns)
        for column, label in zip(zeros.columns, key, strict=True):
            if label not in labels[column]:
                raise ParameterError(f"{column} declares no {label!r}: see describe()")
            index[columns.index(column)] = labels[column].index(label)  # type: ignore[arg-type]
        allowed[tuple(index)] = False
    return allowed


def _descend(
    result: WorkloadResult,
    columns: Columns,
    estimate: Floats,
    allowed: NDArray[np.bool_],
    totals: Floats | None,
    groups: tuple[int, ...],
) -> Floats:
    """Accelerated projected gradient steps to the constrained least squares."""
    largest = _bound_precision(result, estimate.shape)

    def project(cells: Floats) -> Floats:
        if totals is None:
            return np.where(allowed, np.maximum(cells, 0), 0)
        return _project_groups(cells, allowed, totals, groups)

    cells = project(estimate)
    ahead = cells
    momentum = 1.0
    for _ in track(range(_STEPS), _STEPS):
        gradient = _apply_precision(result, columns, ahead - estimate)
        after = project(ahead - gradient / largest)
        next_momentum = (1 + (1 + 4 * momentum**2) ** 0.5) / 2
        ahead = after + (momentum - 1) / next_momentum * (after - cells)
        moved = float(np.abs(after - cells).max())
        cells = after
        momentum = next_momentum
        if moved <= _TOLERANCE * max(1.0, float(np.abs(cells).max())):
            break
    return cells


def _apply_precision(result: WorkloadResult, columns: Columns, cells: Floats) -> Floats:
    """The precision of the estimate times a table of cells, up to one factor."""
    plan = result.offer.plan
    if isinstance(plan, KroneckerPlan):
        for axis, line in enumerate(plan.lines):
            if not line.is_identity:
                gram = line.matrix.T @ line.matrix
                cells = np.moveaxis(np.moveaxis(cells, axis, -1) @ gram, -1, axis)
        return cells
    if isinstance(plan, EarlierPlan):
        return np.asarray((plan.precision @ cells.ravel()).reshape(cells.shape))
    assert isinstance(plan, ResidualPlan | DirectPlan)
    gradient = np.zeros_like(cells)
    for subset, variance in plan.find_residual_variances(result.offer.variances).items():
        dropped = tuple(axis for axis, column in enumerate(columns) if column not in subset)
        residual = project_residual(np.asarray(cells.sum(axis=dropped)))
        gradient += np.expand_dims(residual, dropped) / variance
    return gradient


def _bound_precision(result: WorkloadResult, shape: Sequence[int]) -> float:
    """The largest eigenvalue of that precision."""
    plan = result.offer.plan
    if isinstance(plan, KroneckerPlan):
        return prod(
            1.0 if line.is_identity else float(np.linalg.norm(line.matrix, 2) ** 2)
            for line in plan.lines
        )
    if isinstance(plan, EarlierPlan):
        return float(np.linalg.norm(plan.precision, 2))
    assert isinstance(plan, ResidualPlan | DirectPlan)
    cells = prod(shape)
    return max(
        cells / plan.domain.count_cells(subset) / variance
        for subset, variance in plan.find_residual_variances(result.offer.variances).items()
    )


def _project_groups(
    cells: Floats,
    allowed: NDArray[np.bool_],
    totals: Floats,
    groups: tuple[int, ...],
) -> Floats:
    """The nearest nonnegative cells whose groups have the given sums."""
    rest = [axis for axis in range(cells.ndim) if axis not in groups]
    order = [*groups, *rest]
    width = prod(cells.shape[axis] for axis in rest)
    table = cells.transpose(order).reshape(-1, width)
    open_cells = allowed.transpose(order).reshape(-1, width)
    rows = [
        _project_simplex(row, free, max(0.0, float(total)))
        for row, free, total in zip(table, open_cells, totals.ravel(), strict=True)
    ]
    shape = [cells.shape[axis] for axis in order]
    return np.array(rows).reshape(shape).transpose(np.argsort(order))


def _project_simplex(row: Floats, free: NDArray[np.bool_], total: float) -> Floats:
    """The nearest nonnegative numbers with this sum, where `free` allows them (Duchi et al.)."""
    projected = np.zeros_like(row)
    values = row[free]
    if not len(values):
        return projected
    ordered = np.sort(values)[::-1]
    excess = (np.cumsum(ordered) - total) / np.arange(1, len(ordered) + 1)
    last = np.nonzero(ordered - excess > 0)[0]
    shift = excess[last[-1]] if len(last) else excess[-1]
    projected[free] = np.maximum(values - shift, 0)
    return projected


def round_to_integers(result: WorkloadResult) -> WorkloadResult:
    """Whole numbers whose sums stay sums, from nonnegative cells.

    The total is rounded first. Then each number is split among its parts along the next column:
    all get the whole part of theirs, and what is left goes to the largest remainders.
    """
    if not result.biased:
        raise ParameterError("round nonnegative cells: make_nonnegative(result) first")
    columns, cells = expand_cells(result)
    whole = np.array([round(float(cells.sum()))])
    for axis in range(cells.ndim):
        later = tuple(range(axis + 1, cells.ndim))
        split = cells.sum(axis=later).reshape(len(whole), -1)
        pairs = zip(whole, split, strict=True)
        whole = np.concatenate([split_whole(int(total), row) for total, row in pairs])
    fitted = FittedProduct(columns, whole.reshape(cells.shape).astype(float))
    return result.derive(fitted, "rounded to whole numbers that keep all sums", biased=True)


def split_whole(total: int, shares: Floats) -> NDArray[np.int64]:
    """Whole numbers with this sum, each near its share.

    >>> split_whole(4, np.array([1.5, 1.6, 0.4])).tolist()
    [2, 2, 0]
    """
    whole = np.floor(shares + 1e-9).astype(np.int64)
    missing = total - int(whole.sum())
    remainders = shares - whole
    while missing > 0:
        chosen = np.argsort(-remainders, kind="stable")[:missing]
        whole[chosen] += 1
        remainders[chosen] -= 1
        missing -= len(chosen)
    while missing < 0:
        positive = np.nonzero(whole > 0)[0]
        chosen = positive[np.argsort(remainders[positive], kind="stable")[:-missing]]
        whole[chosen] -= 1
        remainders[chosen] += 1
        missing += len(chosen)
    return whole
