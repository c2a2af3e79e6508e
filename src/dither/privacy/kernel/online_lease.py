"""A lease for online answers: estimates are compared with the data, and only misfits are answered.

The kernel holds the noisy threshold of the epoch under way. An epoch is paid when it opens, before
its first comparison, and ends with its first hit; every comparison reads data and counts as a read
(incidents, time limits), whether it is a hit or not. The charge of all epochs is made first. The
proof of an epoch is pointwise in its outcomes, so that epochs and other releases from the same
budget may interleave where budgets count epsilon (docs/proofs/sparse-vector.md#online-answers).
"""

from __future__ import annotations

from fractions import Fraction

from dither.errors import ParameterError, RefusedError, UnavailableError
from dither.plan.algebra import Cells, Linear
from dither.plan.linear import move_of_cells
from dither.plan.operator_norms import largest_norms
from dither.plan.operators import count_rows
from dither.privacy.kernel.budget_lease import BudgetLease
from dither.privacy.kernel.kernel import Kernel
from dither.privacy.kernel.release import Priced, Version
from dither.privacy.kernel.request import Price, Request, Step
from dither.privacy.losses import Adjacency
from dither.privacy.mechanisms.threshold_epoch import ThresholdEpoch
from dither.privacy.noise import SystemSource
from dither.rules import PrivacyRule

__all__ = ["MOST_EPOCHS", "MOST_NUMBER", "OnlineLease", "ThresholdEpoch"]
MOST_EPOCHS = 10_000
MOST_NUMBER = 1 << 60


class OnlineLease(BudgetLease):
    """`lease.compare(request, estimate)`: () where the estimate fits, else the noisy answer."""

    def __init__(
        self, kernel: Kernel, price: Price, cells: Cells, epoch_price: Fraction, pot: str
    ) -> None:
        """Charge `pot` for the whole price; every epoch takes at most `epoch_price` of it.

        All comparisons are of sums of these cells.
        """
        if price.epsilon is None:
            raise ParameterError("online answers are priced in epsilon: ask with epsilon=")
        if not price.value <= epoch_price * MOST_EPOCHS <= price.value * MOST_EPOCHS:
            raise ParameterError(f"a lease of online answers has 1 to {MOST_EPOCHS:,} epochs")
        if any(payer.rule.name not in ("pure", "approx") for payer in kernel.ledger.view(pot).path):
            raise RefusedError(
                "online answers are paid by budgets that count epsilon: rules pure and approx",
                rule=PrivacyRule.POT_RULE,
            )
        self._noisy_threshold: int | None = None
        self._threshold = 0
        self.epoch, self._cells_hash, version = _find_epoch(kernel, cells, epoch_price, pot)
        super().__init__(kernel, price, pot, version)

    def set_threshold(self, threshold: int) -> None:
        """The public threshold of all epochs that open from now on."""
        if type(threshold) is not int or not 0 <= threshold <= MOST_NUMBER:
            raise ParameterError("a threshold is an integer from 0 to 2**60")
        self._threshold = threshold

    @property
    def epochs_left(self) -> int:
        """How many hits there can be from now on."""
        opened = 0 if self._noisy_threshold is None else 1
        return opened + int(self._left / self.price(self.epoch.loss()))

    def compare(self, request: Request, estimate: int) -> tuple[int, ...]:
        """Compare an estimate with one sum of cells: () for a miss, the noisy sum for a hit.

        Refused before data is read where no epoch is left.
        """
        self._check_alive()
        if type(estimate) is not int or abs(estimate) > MOST_NUMBER:
            raise ParameterError("an estimate is an integer between -2**60 and 2**60")
        outcome = self._kernel.uninterrupted.run(
            lambda: self._serve_comparison(request, estimate), on_interrupt=self.close
        )
        if outcome is None:
            # raised out here, so that neither cause nor frames travel with the constant response
            raise UnavailableError
        return outcome

    def _serve_comparison(self, request: Request, estimate: int) -> tuple[int, ...] | None:
        """Read one sum and compare it; None after a failure, which ends the lease."""
        with self._lock:
            self._check_alive()
            priced = self._price_next(request)
            self._check_sum(priced)
            self._prepare(priced)
            self._open_epoch()  # paid from here on, whatever happens
            try:
                (exact,) = self._kernel.measure_with_retries(priced, self._measurer)
                outcome = self._decide(int(exact[()].ravel()[0]), estimate)
                # where another request failed meanwhile, this one fails alike
                self._kernel.check_incidents(self._pot)
            except BaseException as error:
                self._end()
                self._kernel.record_incident(self.reservation, error)
                return None
            self._outputs.append((outcome,))
            return outcome

    def _check_sum(self, priced: Priced) -> None:
        """Refuse all but one sum of the cells of this lease: noises are made for those."""
        query = priced.request.steps[0].query
        is_sum = (
            len(priced.request.steps) == 1
            and isinstance(query, Linear)
            and query.cells.hash == self._cells_hash
            and count_rows(query.operator) == 1
            and largest_norms(query.operator).linf == 1
        )
        if not is_sum:
            raise RefusedError(
                "an online answer is one sum of the cells of its lease, with entries -1, 0 and 1",
                rule=PrivacyRule.LEASE,
            )

    def _open_epoch(self) -> None:
        """Pay for an epoch and draw its threshold, unless one is under way."""
        if self._noisy_threshold is not None:
            return
        cost = self.price(self.epoch.loss())
        if cost > self._left:
            raise RefusedError(
                "all updates of these online answers are used: what is left is computed from "
                "earlier answers",
                rule=PrivacyRule.LEASE,
            )
        self._left -= cost
        self._noisy_threshold = self.epoch.draw_threshold(self._threshold, SystemSource())

    def _decide(self, exact: int, estimate: int) -> tuple[int, ...]:
        """Compare the distance with the threshold of the epoch, which a hit ends."""
        source = SystemSource()
        assert self._noisy_threshold is not None
        if not self.epoch.is_hit(abs(exact - estimate), self._noisy_threshold, source):
            return ()
        self._noisy_threshold = None
        return (self.epoch.answer_hit(exact, source),)


def _find_epoch(
    kernel: Kernel, cells: Cells, epoch_price: Fraction, pot: str
) -> tuple[ThresholdEpoch, str, Version]:
    """Find the noises of an epoch over these cells, which the kernel copies first. Return them with
    the hash of the cells and the version that the noises are for."""
    priced = kernel.price(Request((Step(cells, "laplace", Fraction(1)),), Price(epoch_price), pot))
    copied = priced.request.steps[0].query
    assert isinstance(copied, Cells)
    catalog = priced.version.catalog
    rows = priced.version.kernel_analyses.analyse_rows(copied.plan)
    moved = move_of_cells(copied, rows, catalog.neighbours).l1
    adjacency = Adjacency(catalog.neighbours, catalog.unit.label)
    epoch = ThresholdEpoch.for_epsilon(epoch_price, moved, adjacency)
    return epoch, copied.hash, priced.version
