"""Answers to a workload: consistent tables with intervals, and the raw measurements.

All tables come from one least-squares estimate, so that they add up to each other. Every interval
holds the exact answer on the registered table at least as often as its level says. The estimate is
unbiased until `fit_constraints.py` derives another one, which says what it did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from dither.answer.intervals import read_level
from dither.answer.result import Certify
from dither.canonical import Number
from dither.errors import DitherError, ParameterError
from dither.privacy.kernel.kernel import Release
from dither.publish.commitment import commitment, make_nonce
from dither.publish.seal import write_certificate
from dither.workloads.bind import BoundWorkload
from dither.workloads.choose_plan import WorkloadOffer
from dither.workloads.language import LineKind, Product
from dither.workloads.lines import Floats, list_ranges
from dither.workloads.listed_counts import ListedProduct
from dither.workloads.measurement import FittedCells
from dither.workloads.preview import find_deviations, find_interval_factor

if TYPE_CHECKING:
    from dither.workloads.fit_constraints import KnownTotals, StructuralZeros


@dataclass(frozen=True)
class WorkloadResult:
    """The tables of a workload, one for each product."""

    info: dict[str, Any]
    offer: WorkloadOffer = field(repr=False)
    fitted: FittedCells = field(repr=False)
    _release: Release = field(repr=False)
    _level: Fraction = field(repr=False)
    biased: bool = False
    """Whether nonnegativity or rounding entered: values are then no longer right on average."""
    notes: tuple[str, ...] = ()
    _deviations: Callable[[Product], Floats] | None = field(default=None, repr=False)
    _certify: Certify | None = field(default=None, repr=False, compare=False)
    _nonce: str = field(default_factory=make_nonce, repr=False, compare=False)
    _sources: tuple[Release, ...] = field(default=(), repr=False, compare=False)
    progress: bool = field(default=False, repr=False, compare=False)
    """Whether a terminal shows how far a fit is."""

    @property
    def products(self) -> tuple[Product, ...]:
        """What was asked, in order."""
        return self.offer.bound.workload.products

    @property
    def releases(self) -> tuple[Release, ...]:
        """The releases that the answers were computed from."""
        return self._sources or (self._release,)

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All tables, by the words of their products."""
        return {str(product): self.make_table(product) for product in self.products}

    def table(self, *columns: str) -> pa.Table:
        """The table over exactly these columns; in a list of counts, that of this question."""
        return self.make_table(find_product(self.products, columns))

    def make_table(self, product: Product) -> pa.Table:
        """Keys, values and ends of intervals of one product."""
        name = self.offer.bound.value_name
        values = self.answer(product)
        centre = self._find_centre(product) if self.biased else values
        half = self.find_half_widths(product)
        keys = list_keys_of(self.offer.bound, product)
        return pa.table(
            keys
            | {
                name: pa.array(values),
                f"{name}_low": pa.array(centre - half),
                f"{name}_high": pa.array(centre + half),
            }
        )

    def _find_centre(self, product: Product) -> Floats:
        """Intervals of a biased result stay those of the unbiased estimate."""
        unit = float(self.offer.bound.unit)
        unbiased = fit_release(self.offer, self._release)
        return np.asarray(unit * unbiased.answer(product))

    def answer(self, product: Product) -> Floats:
        """The values of one product."""
        return np.asarray(float(self.offer.bound.unit) * self.fitted.answer(product))

    def find_half_widths(self, product: Product) -> Floats:
        """Half the width of every interval of a product."""
        deviations = (
            find_deviations(self.offer, product)
            if self._deviations is None
            else self._deviations(product)
        )
        return np.asarray(find_interval_factor(self.offer, self._level) * deviations)

    @property
    def raw(self) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
        """The released integers: for each step its columns and its noisy numbers.

        They are those of the operator times `scale` (`info`).
        """
        steps = self.offer.plan.steps
        return [
            (step.columns, tuple(values))
            for step, values in zip(steps, self._release.values, strict=True)
        ]

    def interval(self, level: Number) -> WorkloadResult:
        """The same release with intervals at another level; free."""
        return replace(self, _level=read_level(level))

    def derive(
        self,
        fitted: FittedCells,
        note: str,
        *,
        biased: bool,
        deviations: Callable[[Product], Floats] | None = None,
    ) -> WorkloadResult:
        """Another estimate from the same release, and what was done."""
        return replace(
            self,
            fitted=fitted,
            biased=self.biased or biased,
            notes=(*self.notes, note),
            _deviations=deviations or self._deviations,
        )

    def keep_totals(self, known: KnownTotals) -> WorkloadResult:
        """The estimate that has these public totals; they are listed as unprotected."""
        from dither.workloads.fit_constraints import keep_totals

        return keep_totals(self, known)

    def nonnegative(
        self, zeros: StructuralZeros | None = None, known: KnownTotals | None = None
    ) -> WorkloadResult:
        """Nonnegative least squares, with structural zeros and known totals where given. Biased."""
        from dither.workloads.fit_constraints import make_nonnegative

        return make_nonnegative(self, zeros, known)

    def rounded(self) -> WorkloadResult:
        """Whole numbers from nonnegative ones, by which all sums stay sums."""
        from dither.workloads.fit_constraints import round_to_integers

        return round_to_integers(self)

    def certificate(self, file: str | Path | None = None) -> dict[str, Any]:
        """The signed certificate of the release, with what was computed from it."""
        if self._certify is None:
            raise DitherError(
                "a certificate is made by the connection that asked: con.workload(...).answer()"
            )
        tables = {name: table.to_pydict() for name, table in self.tables.items()}
        promised = commitment({"tables": [tables]}, self._nonce)
        strategy = f"workload: {self.offer.plan.name}, fitted by least squares"
        counts = [str(product) for product in self.products if isinstance(product, ListedProduct)]
        texts = [f"counts of one list: {'; '.join(counts)}"] if counts else []
        signed = self._certify(
            self._release, self.offer.bound.recipe, (strategy, *texts, *self.notes), promised
        )
        if file is not None:
            Path(file).write_text(write_certificate(signed), encoding="utf-8")
        return signed

    def __str__(self) -> str:
        lines = [f"{len(self.products)} tables; {self.offer.plan.name}"]
        for product in self.products[:10]:
            half = float(np.sqrt((self.find_half_widths(product) ** 2).mean()))
            lines.append(f"{product}: {len(self.answer(product)):,} values, about +- {half:,.4g}")
        return "\n".join([*lines, *self.notes])

    __repr__ = __str__


def fit_release(offer: WorkloadOffer, release: Release) -> FittedCells:
    """The least-squares estimate from the released integers."""
    values = [np.array(step, float) / offer.scale for step in release.values]
    return offer.plan.fit(values, offer.variances)


def find_product(products: tuple[Product, ...], columns: tuple[str, ...]) -> Product:
    """Find the product over exactly these columns, or the one whose text is the only column."""
    chosen = [product for product in products if [str(product)] == [*columns]] or [
        product for product in products if set(product.columns) == set(columns)
    ]
    if len(chosen) != 1:
        names = ", ".join(map(str, products[:20]))
        raise ParameterError(
            f"{len(chosen)} tables over {', '.join(columns) or 'no column'}: there are {names}"
        )
    return chosen[0]


def list_keys_of(bound: BoundWorkload, product: Product) -> dict[str, pa.Array]:
    """The key columns of a product: `age`, `age_up_to`, or `age_from` and `age_to`."""
    if isinstance(product, ListedProduct):
        return product.list_keys()
    lines = [_list_line(bound, column, kind) for column, kind in product.factors]
    sizes = [len(next(iter(line.values()))) for line in lines]
    keys: dict[str, pa.Array] = {}
    for position, line in enumerate(lines):
        inner = int(np.prod(sizes[position + 1 :]))
        outer = int(np.prod(sizes[:position]))
        for name, labels in line.items():
            index = np.tile(np.repeat(np.arange(len(labels)), inner), outer)
            keys[name] = labels.take(pa.array(index))
    return keys


def _list_line(bound: BoundWorkload, column: str, kind: LineKind) -> dict[str, pa.Array]:
    labels = pa.array(bound.list_labels(column))
    if kind == "prefixes":
        return {f"{column}_up_to": labels}
    if kind == "identity":
        return {column: labels}
    first, last = list_ranges(len(labels))
    return {
        f"{column}_from": labels.take(pa.array(first)),
        f"{column}_to": labels.take(pa.array(last)),
    }
