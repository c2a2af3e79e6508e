"""A lease of a budget: one charge of a rho or a pure epsilon, then steps while their sum fits.

Queries *and prices* of the steps may be chosen after seeing earlier answers (AIM, MWEM with
annealing). What was charged first is a filter's cap: in zCDP and in pure differential privacy the
costs of adaptively priced steps add up, so the outputs together cost at most the charge, whatever
was chosen. A pot of another rule converts the whole charge once. A lease whose curve is exact keeps
fixed noise in fixed order (`lease.py`). Proof: docs/proofs/filters.md#leases.
"""

from __future__ import annotations

from fractions import Fraction

from dither.canonical import number_text
from dither.errors import RefusedError
from dither.privacy.charges import measures
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.lease import Lease, has_gaussian_samples
from dither.privacy.kernel.release import Priced, Version
from dither.privacy.kernel.request import Price
from dither.privacy.losses import ZCDP, Adjacency, Loss, Pure
from dither.rules import PrivacyRule


class BudgetLease(Lease):
    """`with BudgetLease(kernel, Price(rho=...), "total") as lease: lease.release(request)`."""

    def __init__(
        self, kernel: Kernel, price: Price, pot: str, version: Version | None = None
    ) -> None:
        """Charge `pot` for the whole price.

        The version is the given one, else that of now. It is read once, so that neighbours, unit
        and every step are those of one version.
        """
        version = version or kernel.version
        self._adjacency = Adjacency(version.catalog.neighbours, version.catalog.unit.label)
        kind = Pure if price.rho is None else ZCDP
        self._measure = price.name
        self._left = price.value
        super().__init__(kernel, kind(price.value, **self._adjacency._asdict()), pot, version)
        self._measurer.kept_cells = {}

    def _state_plan(self, planned: Loss) -> Loss:
        """The price itself: its steps are not fixed in advance."""
        return planned

    @property
    def left(self) -> Fraction:
        """What further steps may cost together, in the measure of the lease."""
        return self._left

    @property
    def counts_epsilon(self) -> bool:
        """Whether the steps add up epsilons, not rhos."""
        return self._measure == "epsilon"

    def price(self, loss: Loss) -> Fraction:
        """What one step takes from the lease; a loss with a delta, or without this measure, is
        refused."""
        if has_gaussian_samples(loss):
            raise RefusedError(
                "a lease of a budget would pay for a sample as if all data were read: ask for all "
                "units, or open a lease of fixed steps from a budget with rule approx or rdp",
                rule=PrivacyRule.LEASE,
            )
        if self.counts_epsilon:
            return measures.pure(loss)
        rho, delta = measures.zcdp(loss)
        if delta:
            raise RefusedError(
                "a lease has no delta: list the keys in the catalog, or select them before it",
                rule=PrivacyRule.LEASE,
            )
        return rho

    def _check_step(self, priced: Priced) -> None:
        """Refuse a step that costs more than is left; it may be asked again for less.

        A step for other neighbours or another unit is refused too: its cost cannot be added here.
        """
        if (priced.loss.neighbours, priced.loss.unit) != self._adjacency:
            raise RefusedError(
                f"this lease was paid for {self._adjacency}, this step is {priced.loss!r}",
                rule=PrivacyRule.LEASE,
            )
        cost = self.price(priced.loss)
        if cost > self._left:
            raise RefusedError(
                f"this step costs {self._measure} {number_text(cost)} and the lease has "
                f"{number_text(self._left)} left: ask for less",
                rule=PrivacyRule.LEASE,
            )

    def _spend(self, priced: Priced) -> None:
        """Take the cost of a step off what is left."""
        self._left -= self.price(priced.loss)
