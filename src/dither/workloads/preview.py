"""What a workload would cost and how far its answers would be off, before any data is read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

from dither.canonical import decimal_text
from dither.privacy.charges.rules import Charge
from dither.publish.text import render_text
from dither.surfaces import make_rich_text
from dither.workloads.certificates import OptimalityCertificate
from dither.workloads.choose_plan import WorkloadOffer, read_variances
from dither.workloads.earlier import EarlierAnswer
from dither.workloads.intervals import find_multiplier, find_spread
from dither.workloads.kronecker import KroneckerPlan
from dither.workloads.language import Product
from dither.workloads.lines import Floats


@dataclass(frozen=True)
class PreviewedProduct:
    """The errors of one product of a workload, in units of the answers."""

    product: Product
    queries: int
    root_mean_squared_error: float
    largest_error: float
    """The standard deviation of its worst query."""


@dataclass(frozen=True)
class PreviewedEarlier:
    """The error of a workload that is answered from earlier releases, and their names."""

    release_ids: tuple[str, ...]
    root_mean_squared_error: float

    def __str__(self) -> str:
        return (
            f"answered from earlier releases {', '.join(self.release_ids)}: root mean squared "
            f"error {self.root_mean_squared_error:,.4g}, at no new loss"
        )


@dataclass(frozen=True)
class WorkloadPreview:
    """Price, strategy, and the error of every query with the lower bound beside it."""

    charge: Charge
    pot: str
    strategy: str
    noise: str
    reasons: tuple[str, ...]
    products: tuple[PreviewedProduct, ...]
    root_mean_squared_error: float
    lower_bound: float
    """No strategy with this noise has a smaller root mean squared error, weighted alike."""
    stored: bool
    confidence: Fraction
    _offer: WorkloadOffer = field(repr=False)
    earlier: PreviewedEarlier | None = None
    """What earlier releases give of the whole workload, at no new loss."""

    @property
    def gap(self) -> float:
        """The squared error as a multiple of the least that any strategy could have."""
        return (self.root_mean_squared_error / self.lower_bound) ** 2

    @property
    def certificates(self) -> dict[str, OptimalityCertificate]:
        """For Gaussian noise and one strategy for each column: certificates of its optimality, by
        column, for `dither.workloads.certificates.check_certificate`. Residuals are the exact
        optimum and need none."""
        plan = self._offer.plan
        if self.noise != "gaussian" or not isinstance(plan, KroneckerPlan):
            return {}
        return plan.certificates

    def list_errors(self, product: Product) -> Floats:
        """The standard deviation of every query of a product."""
        return find_deviations(self._offer, product)

    def list_half_widths(self, product: Product) -> Floats:
        """Half the width of the interval of every query of a product."""
        times = find_interval_factor(self._offer, self.confidence)
        return np.asarray(times * self.list_errors(product))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = Table("queries", "number", "typical error", "largest")
        for row in self.products:
            table.add_row(
                str(row.product),
                f"{row.queries:,}",
                f"{row.root_mean_squared_error:,.4g}",
                f"{row.largest_error:,.4g}",
            )
        yield table
        yield from map(make_rich_text, self._list_lines())

    def _list_lines(self) -> Iterator[str]:
        price = decimal_text(self.charge.amount, up=True)
        yield f"price: {price} from {self.pot}" + (", stored: free" if self.stored else "")
        yield f"strategy: {self.strategy}, {self.noise} noise"
        yield (
            f"root mean squared error {self.root_mean_squared_error:,.4g}; no strategy is below "
            f"{self.lower_bound:,.4g}"
        )
        yield from self.reasons
        if self.earlier is not None:
            yield str(self.earlier)

    def __str__(self) -> str:
        return render_text(self)

    __repr__ = __str__


def find_deviations(offer: WorkloadOffer, product: Product) -> Floats:
    """The standard deviation of every query of a product, in units of the answers."""
    variances = offer.plan.predict(product, offer.variances)
    return np.asarray(np.sqrt(variances) * float(offer.bound.unit))


def find_interval_factor(offer: WorkloadOffer, confidence: Fraction) -> float:
    """So many standard deviations are half an interval: the noise's law, and its roundings."""
    spread = find_spread(read_variances(offer.priced), offer.noise)
    return find_multiplier(float(confidence), offer.noise) * spread + offer.rounding_share


def make_preview(
    offer: WorkloadOffer,
    charge: Charge,
    pot: str,
    stored: bool,
    confidence: Fraction,
    earlier: EarlierAnswer | None = None,
) -> WorkloadPreview:
    """The preview of an offer."""
    rows = tuple(_preview_product(offer, product) for product in offer.bound.workload.products)
    whole = sum(row.queries * float(row.product.weight) for row in rows)
    unit = float(offer.bound.unit)
    return WorkloadPreview(
        charge,
        pot,
        offer.plan.name,
        offer.noise,
        offer.reasons,
        rows,
        unit * (offer.error / whole) ** 0.5,
        unit * (offer.lower_bound / whole) ** 0.5,
        stored,
        confidence,
        offer,
        None
        if earlier is None
        else PreviewedEarlier(earlier.release_ids, unit * (earlier.offer.error / whole) ** 0.5),
    )


def _preview_product(offer: WorkloadOffer, product: Product) -> PreviewedProduct:
    deviations = find_deviations(offer, product)
    typical = float(np.sqrt((deviations**2).mean()))
    return PreviewedProduct(product, len(deviations), typical, float(deviations.max()))
